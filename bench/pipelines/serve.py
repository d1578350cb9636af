"""The process of one side: `python -m bench.pipelines.serve SIDE`, JSON lines in and out.

{"do": "prepare", "case": …, "threads": …, "records": …, "trials": …, "reference": …}
                                                   -> {"error": …, "way": …, "spent_s": …}
{"do": "time", "seconds": 0.1}                     -> {"seconds": [a call's, …]}
{"do": "reference", "case": …, "path": …}          -> {}

`error` is the largest deviation from float64, as a share of the largest element.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ansorc.compare.figures import largest_error
from ansorc.compare.program import Clocked
from ansorc.compare.serving import JsonFields, serve
from ansorc.lang.reference import evaluate
from bench.pipelines.sides import SIDES, PipelineRequest


class PipelineServer:
    """Answers the messages to one side."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._way: Clocked | None = None

    def prepare(self, message: JsonFields) -> JsonFields:
        """Make the side's program, and compare its result with the reference."""
        self._way = None  # the arrays of the application before may be large
        records = message["records"]
        request = PipelineRequest(
            message["case"], message["threads"], Path(records) if records else None,
            message["trials"],
        )  # fmt: skip
        [(_, make)] = SIDES[self._side](request)
        self._way = Clocked(make())
        program = self._way.program
        program.run()
        error = largest_error(np.asarray(program.output()), np.load(message["reference"]))
        return {"error": error, "way": program.name, "spent_s": program.tuned_s}

    def time(self, message: JsonFields) -> JsonFields:
        """Return the seconds of a call in each of several batches."""
        assert self._way is not None
        return {"seconds": self._way.burst(message["seconds"])}


def write_reference(message: JsonFields) -> JsonFields:
    """Write what an application has to give."""
    request = PipelineRequest(message["case"], 1, None, 0)
    np.save(message["path"], evaluate(request.dag(), request.arrays())[0])
    return {}


def main() -> None:
    """Serve the side that is named."""
    server = PipelineServer(sys.argv[1])
    serve({"prepare": server.prepare, "reference": write_reference, "time": server.time})


if __name__ == "__main__":
    main()
