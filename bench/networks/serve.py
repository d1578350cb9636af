"""The process of one side: `python -m bench.networks.serve SIDE`, JSON lines in and out.

{"do": "prepare", "name": …, "stem": …, "threads": …, "records": …} -> {"error": …, "made_s": …}
{"do": "time", "seconds": 0.3} -> {"seconds": [a call's, …]}

`error` is the largest deviation from the float64 reference, as a share of its largest element.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ansorc.compare.serving import gap_of, serve
from bench.networks.sides import SIDES, NetworkRequest, Run

_WARM_UP = 3


class NetworkServer:
    """Answers the messages to one side."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._run: Run | None = None

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to `message`; never raises an ordinary exception."""
        try:
            if message["do"] == "prepare":
                return self._prepare(message)
            return {"seconds": self._times(message["seconds"])}
        except Exception as error:  # noqa: BLE001 - any fault of a side is one named gap
            return gap_of(error)

    def _prepare(self, message: dict[str, Any]) -> dict[str, Any]:
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
        reference = np.load(f"{stem}-reference.npy")
        error = float(np.max(np.abs(result - reference)) / np.max(np.abs(reference)))
        for _ in range(_WARM_UP):
            self._run()
        return {"error": error, "made_s": made_s}

    def _times(self, seconds: float) -> list[float]:
        """The times of calls one after another for about `seconds`, after one to warm up."""
        assert self._run is not None
        self._run()
        found: list[float] = []
        while sum(found) < seconds or len(found) < 3:
            begin = time.perf_counter()
            self._run()
            found.append(time.perf_counter() - begin)
        return found


def main() -> None:
    """Serve the side that is named."""
    serve(NetworkServer(sys.argv[1]).answer)


if __name__ == "__main__":
    main()
