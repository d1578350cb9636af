"""The process of one side: `python -m bench.networks.serve SIDE`, JSON lines in and out.

{"do": "prepare", "name": …, "stem": …, "threads": …, "records": …} -> {"error": …, "made_s": …}
{"do": "time", "seconds": 0.3} -> {"seconds": [a call's, …]}

`error` is the largest deviation from the float64 reference, as a share of its largest element.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from ansorc.compare.figures import largest_error
from ansorc.compare.serving import JsonFields, serve
from bench.networks.sides import SIDES, NetworkRequest, Run

_WARM_UP = 3


class NetworkServer:
    """Answers the messages to one side."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._run: Run | None = None

    def prepare(self, message: JsonFields) -> JsonFields:
        """Make the side's function, and compare its result with the reference."""
        stem, records = Path(message["stem"]), message["records"]
        with np.load(f"{stem}-inputs.npz") as found:
            inputs = {name: found[name] for name in found.files}
        begin = time.perf_counter()
        request = NetworkRequest(
            message["name"], stem.with_suffix(".onnx"), inputs, message["threads"],
            Path(records) if records else None,
        )  # fmt: skip
        self._run = SIDES[self._side](request)
        result = np.asarray(self._run())
        made_s = time.perf_counter() - begin
        error = largest_error(result, np.load(f"{stem}-reference.npy"))
        for _ in range(_WARM_UP):
            self._run()
        return {"error": error, "made_s": made_s}

    def time(self, message: JsonFields) -> JsonFields:
        """Return the seconds of calls one after another, after one to warm up."""
        assert self._run is not None
        self._run()
        times: list[float] = []
        while sum(times) < message["seconds"] or len(times) < 3:
            begin = time.perf_counter()
            self._run()
            times.append(time.perf_counter() - begin)
        return {"seconds": times}


def main() -> None:
    """Serve the side that is named."""
    server = NetworkServer(sys.argv[1])
    serve({"prepare": server.prepare, "time": server.time})


if __name__ == "__main__":
    main()
