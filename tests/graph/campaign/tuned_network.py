"""Networks as a user has them who tunes a little: all their kernels are programs of a search."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import ansorc as ac
from ansorc.errors import InternalError
from ansorc.graph.network import Network
from ansorc.search.measure.result import FailureKind

TRIALS = 3
"""Programs to measure for each kernel."""
OUR_FAULTS = (
    FailureKind.LOWERING,
    FailureKind.COMPILE,
    FailureKind.CRASH,
    FailureKind.WRONG_RESULT,
    FailureKind.UNKNOWN,
)


def build_tuned(graph: ac.Graph) -> ac.NetworkModule:
    """Tune `graph` for a few trials and build it with what was found.

    Raise InternalError for a program of the search that has another fault than to be refused or
    slow.
    """
    network = Network.of(graph, "native")
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "tuned.db")
        ac.tune(graph, trials=TRIALS * len(network.tasks), records=path)
        with ac.Records.open(path) as records:
            for key in records.task_keys():
                for record in records.all(key):
                    if record.failure in OUR_FAULTS:
                        what = f"{record.failure.value}: {record.message}"
                        raise InternalError(what, f"the program {record.steps} of task {key}")
        return ac.build(graph, records=path)
