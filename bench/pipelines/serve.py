"""The process of one side: `python -m bench.pipelines.serve SIDE`, JSON lines in and out.

{"do": "prepare", "case": …, "threads": …, "records": …, "trials": …, "reference": …}
                                                   -> {"error": …, "way": …, "spent_s": …}
{"do": "time", "seconds": 0.1}                     -> {"seconds": [a call's, …]}
{"do": "reference", "case": …, "path": …}          -> {}

`error` is the largest deviation from float64, as a share of the largest element.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ansorc.compare.serving import JsonFields, serve
from ansorc.lang.reference import evaluate
from bench.peers.checked_server import CheckedServer
from bench.peers.program import Make
from bench.pipelines.references import reference_of
from bench.pipelines.sides import SIDES, PipelineRequest


def ways_of(side: str, message: JsonFields) -> Iterator[tuple[str, Make]]:
    """Return the ways of a side for the application that a message names."""
    records = message["records"]
    request = PipelineRequest(
        message["case"], message["threads"], Path(records) if records else None, message["trials"]
    )
    return SIDES[side](request)


def write_reference(message: JsonFields) -> JsonFields:
    """Write what an application has to give."""
    request = PipelineRequest(message["case"], 1, None, 0)
    arrays = request.arrays()
    wanted = reference_of(request.name, arrays)
    np.save(message["path"], evaluate(request.dag(), arrays)[0] if wanted is None else wanted)
    return {}


def main() -> None:
    """Serve the side that is named."""
    server = CheckedServer(lambda message: ways_of(sys.argv[1], message))
    serve({"prepare": server.prepare, "reference": write_reference, "time": server.time})


if __name__ == "__main__":
    main()
