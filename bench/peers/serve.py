"""The process of one side: `python -m bench.peers.serve MODULE`, JSON lines in and out.

{"do": "hello"}                       -> {"versions": {…}, "dispatch_s": …}
{"do": "prepare", "case": …, …}       -> {"program": …, "tuned_s": …, …}, and output.npy is written
{"do": "other"}                       -> the same for the next best way, if the numbers were wrong
{"do": "time", "seconds": 0.03}       -> what `Clocked.times` returns

An answer {"gap": words, "kind": kind} says why there is none. Arrays lie in .npy files.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import cast

import numpy as np

from ansorc.compare.program import Clocked
from ansorc.compare.serving import JsonFields, first_line, gap, serve
from bench.peers.problem import Array, problem
from bench.peers.program import Peer, Request, Unsupported

_CHOOSING_S = 0.05
_MANY_TIMES = 3.0
"""A way this many times as slow as the best in its first calls is out."""


class Server:
    """Answers the messages to one side."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._peer: Peer | None = None
        self._ways: list[Clocked] = []
        self._output = ""

    def hello(self, message: JsonFields) -> JsonFields:
        """Return the versions of the side's packages, and what a call costs."""
        self._peer = cast(Peer, importlib.import_module(self._module))
        return {"versions": self._peer.versions(), "dispatch_s": self._dispatch_s(message)}

    def _dispatch_s(self, message: JsonFields) -> float:
        """The time of a call that computes next to nothing: a product of 1×1 matrices."""
        one = np.ones((1, 1, 1), np.float32)
        workload = {"operator": "GMM", "shape": (1, 1, 1)}
        try:
            ways = self._best(_request({**message, "case": "", **workload}, [one, one]))
        except Unsupported:
            return 0.0
        return float(np.median(ways[0].burst(_CHOOSING_S)))

    def prepare(self, message: JsonFields) -> JsonFields:
        """Make the side's programs, and write the result of the best."""
        self._ways = []  # the arrays of the case before may be large
        self._output = message["output"]
        self._ways = self._best(_request(message, [np.load(path) for path in message["inputs"]]))
        return self._prepared()

    def drop_best(self, _: JsonFields) -> JsonFields:
        """Go on with the next best way, as the numbers of this one were wrong."""
        del self._ways[0]
        return self._prepared()

    def time(self, message: JsonFields) -> JsonFields:
        """Return what calls of the best way take; the other ways are given up."""
        del self._ways[1:]
        return dict(self._ways[0].times(message["seconds"]))

    def _prepared(self) -> JsonFields:
        """Write the result of the best way that is left."""
        if not self._ways:
            return gap("failed", "no other way")
        program = self._ways[0].program
        if not program.is_limit:
            program.run()
            np.save(self._output, program.output())
        return {
            "program": program.name,
            "tuned_s": program.tuned_s,
            "trials": program.trials,
        }

    def _best(self, request: Request) -> list[Clocked]:
        """Return the ways that the side offers, the fastest first."""
        assert self._peer is not None
        ways: list[Clocked] = []
        faults: list[str] = []
        for name, make in self._peer.programs(request):
            try:
                ways.append(Clocked(make()))
            except (Unsupported, ImportError):
                raise
            except Exception as error:  # noqa: BLE001 - another way may do
                faults.append(f"{name}: {type(error).__name__}: {first_line(error)}")
        if not ways:
            raise RuntimeError("; ".join(faults) or "it offers no program")
        if len(ways) == 1:
            return ways
        limit = _MANY_TIMES * min(way.call_s for way in ways)
        hopeful = [way for way in ways if way.call_s <= limit]
        hopeful.sort(key=lambda way: float(np.median(way.burst(_CHOOSING_S))))
        return hopeful + [way for way in ways if way.call_s > limit]


def _request(message: JsonFields, inputs: list[Array]) -> Request:
    return Request(
        message["case"],
        problem(message["operator"], tuple(message["shape"]), inputs),
        inputs,
        message["threads"],
        message["trials"],
        Path(message["directory"]),
    )


def main() -> None:
    """Serve the module that is named."""
    server = Server(sys.argv[1])
    serve({"hello": server.hello, "prepare": server.prepare, "other": server.drop_best,
           "time": server.time})  # fmt: skip


if __name__ == "__main__":
    main()
