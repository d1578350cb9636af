"""The process of one side: `python -m bench.operators.serve SIDE`, JSON lines in and out.

{"do": "prepare", "case": …, "threads": …, "records": …, "trials": …, "reference": …}
                                                   -> {"error": …, "way": …, "spent_s": …}
{"do": "time", "seconds": 0.03}                    -> {"seconds": [a call's, …]}
{"do": "reference", "case": …, "path": …}          -> {}

`error` is the largest deviation from float64, as a share of the largest element.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ansorc.compare.serving import JsonFields, serve
from bench.operators.cases import CASES
from bench.operators.sides import SIDES, OperatorRequest, reference
from bench.peers.checked_server import CheckedServer
from bench.peers.program import Make


def ways_of(side: str, message: JsonFields) -> Iterator[tuple[str, Make]]:
    """Return the ways of a side for the case that a message names."""
    records = message["records"]
    request = OperatorRequest(
        _case(message), message["threads"], Path(records) if records else None, message["trials"]
    )
    return SIDES[side](request)


def write_reference(message: JsonFields) -> JsonFields:
    """Write what a case has to give."""
    np.save(message["path"], reference(_case(message)))
    return {}


def _case(message: JsonFields) -> Any:
    return next(case for case in CASES if case.name == message["case"])


def main() -> None:
    """Serve the side that is named."""
    server = CheckedServer(lambda message: ways_of(sys.argv[1], message))
    serve({"prepare": server.prepare, "reference": write_reference, "time": server.time})


if __name__ == "__main__":
    main()
