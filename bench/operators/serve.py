"""The process of one side: `python -m bench.operators.serve SIDE`, JSON lines in and out.

{"do": "prepare", "case": …, "threads": …, "records": …, "trials": …, "reference": …}
                                                   -> {"error": …, "way": …}
{"do": "time", "seconds": 0.03}                    -> {"seconds": [a call's, …]}
{"do": "reference", "case": …, "path": …}          -> {}

`error` is the largest deviation from float64, as a share of the largest element.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from ansorc.compare.figures import largest_error
from ansorc.compare.program import Clocked
from ansorc.compare.serving import JsonFields, serve
from bench.operators.cases import CASES
from bench.operators.sides import SIDES, OperatorRequest, reference

_CHOOSING_S = 0.02


class OperatorServer:
    """Answers the messages to one side."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._way: Clocked | None = None

    def prepare(self, message: JsonFields) -> JsonFields:
        """Choose the fastest of the side's ways, and compare its result with the reference."""
        self._way = None
        case, records = _case(message), message["records"]
        request = OperatorRequest(
            case, message["threads"], Path(records) if records else None, message["trials"]
        )
        ways = [Clocked(make()) for _, make in SIDES[self._side](request)]
        self._way = ways[0]
        if len(ways) > 1:
            self._way = min(ways, key=lambda way: float(np.median(way.burst(_CHOOSING_S))))
        program = self._way.program
        program.run()
        result, expected = np.asarray(program.output()), np.load(message["reference"])
        if result.shape != expected.shape:
            raise ValueError(f"its shape is {result.shape}, not {expected.shape}")
        return {"error": largest_error(result, expected), "way": program.name}

    def time(self, message: JsonFields) -> JsonFields:
        """Return the seconds of a call in each of several batches."""
        assert self._way is not None
        return {"seconds": self._way.burst(message["seconds"])}


def write_reference(message: JsonFields) -> JsonFields:
    """Write what a case has to give."""
    np.save(message["path"], reference(_case(message)))
    return {}


def _case(message: JsonFields) -> Any:
    return next(case for case in CASES if case.name == message["case"])


def main() -> None:
    """Serve the side that is named."""
    server = OperatorServer(sys.argv[1])
    serve({"prepare": server.prepare, "reference": write_reference, "time": server.time})


if __name__ == "__main__":
    main()
