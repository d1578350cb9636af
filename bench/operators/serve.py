"""The process of one side: `python -m bench.operators.serve SIDE`, JSON lines in and out.

{"do": "prepare", "case": …, "threads": …, "records": …, "trials": …, "reference": …}
                                                   -> {"error": …, "way": …}
{"do": "time", "seconds": 0.03}                    -> {"seconds": a call's}
{"do": "reference", "case": …, "path": …}          -> {}

`error` is the largest deviation from float64, as a share of the largest element.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from ansorc.compare.program import Clocked
from ansorc.compare.serving import gap_of, serve
from bench.operators.cases import CASES
from bench.operators.sides import SIDES, OperatorRequest, reference

_CHOOSING_S = 0.02


class OperatorServer:
    """Answers the messages to one side."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._way: Clocked | None = None

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to `message`; never raises an ordinary exception."""
        try:
            match message["do"]:
                case "prepare":
                    return self._prepare(message)
                case "reference":
                    np.save(message["path"], reference(_case(message)))
                    return {}
                case _:
                    assert self._way is not None
                    return {"seconds": float(np.median(self._way.burst(message["seconds"])))}
        except Exception as error:  # noqa: BLE001 - any fault of a side is one named gap
            return gap_of(error)

    def _prepare(self, message: dict[str, Any]) -> dict[str, Any]:
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
        largest = float(np.max(np.abs(expected))) or 1.0
        return {"error": float(np.max(np.abs(result - expected))) / largest, "way": program.name}


def _case(message: dict[str, Any]) -> Any:
    return next(case for case in CASES if case.name == message["case"])


def main() -> None:
    """Serve the side that is named."""
    serve(OperatorServer(sys.argv[1]).answer)


if __name__ == "__main__":
    main()
