"""The process of one side: `python -m bench.peers.serve MODULE`, JSON lines in and out.

{"do": "hello"}                       -> {"versions": {…}, "dispatch_s": …}
{"do": "prepare", "case": …, …}       -> {"program": …, "tuned_s": …, …}, and output.npy is written
{"do": "other"}                       -> the same for the next best way, if the numbers were wrong
{"do": "time", "seconds": 0.03}       -> {"seconds": [a call's, of each batch]}

An answer {"gap": words, "kind": kind} says why there is none. Arrays lie in .npy files.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np

from bench.peers.burst import Clocked
from bench.peers.problem import Array, problem
from bench.peers.program import Peer, Request, Unsupported

_PR_SET_PDEATHSIG = 1
_CHOOSING_S = 0.05
_MANY_TIMES = 3.0
"""A way this many times as slow as the best in its first calls is out."""
Fields = dict[str, Any]


class Server:
    """Answers the messages to one side."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._peer: Peer | None = None
        self._ways: list[Clocked] = []
        self._output = ""

    def answer(self, message: Fields) -> Fields:
        """Return the answer to `message`; never raises an ordinary exception."""
        try:
            match message["do"]:
                case "hello":
                    return self._hello(message)
                case "prepare":
                    return self._prepare(message)
                case "other":
                    del self._ways[0]
                    return self._prepared()
                case "time":
                    del self._ways[1:]
                    return {"seconds": self._ways[0].burst(message["seconds"])}
                case other:
                    return _gap("failed", f"there is no request '{other}'")
        except Exception as error:  # noqa: BLE001 - any fault of a peer is one named gap
            return gap_of(error)

    def _hello(self, message: Fields) -> Fields:
        self._peer = cast(Peer, importlib.import_module(self._module))
        return {"versions": self._peer.versions(), "dispatch_s": self._dispatch_s(message)}

    def _dispatch_s(self, message: Fields) -> float:
        """The time of a call that computes next to nothing: a product of 1×1 matrices."""
        one = np.ones((1, 1, 1), np.float32)
        workload = {"operator": "GMM", "shape": (1, 1, 1)}
        try:
            ways = self._best(_request({**message, "case": "", **workload}, [one, one]))
        except Unsupported:
            return 0.0
        return float(np.median(ways[0].burst(_CHOOSING_S)))

    def _prepare(self, message: Fields) -> Fields:
        self._ways = []  # the arrays of the case before may be large
        self._output = message["output"]
        self._ways = self._best(_request(message, [np.load(path) for path in message["inputs"]]))
        return self._prepared()

    def _prepared(self) -> Fields:
        """Write the result of the best way that is left."""
        if not self._ways:
            return _gap("failed", "no other way")
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
                faults.append(f"{name}: {type(error).__name__}: {_first_line(error)}")
        if not ways:
            raise RuntimeError("; ".join(faults) or "it offers no program")
        if len(ways) == 1:
            return ways
        limit = _MANY_TIMES * min(way.call_s for way in ways)
        hopeful = [way for way in ways if way.call_s <= limit]
        hopeful.sort(key=lambda way: float(np.median(way.burst(_CHOOSING_S))))
        return hopeful + [way for way in ways if way.call_s > limit]


def _request(message: Fields, inputs: list[Array]) -> Request:
    return Request(
        message["case"],
        problem(message["operator"], tuple(message["shape"]), inputs),
        inputs,
        message["threads"],
        message["trials"],
        Path(message["directory"]),
    )


def _gap(kind: str, words: str) -> Fields:
    return {"kind": kind, "gap": words}


def gap_of(error: Exception) -> Fields:
    """Return the answer that says why there is none."""
    if isinstance(error, Unsupported):
        return _gap("cannot", str(error))
    if isinstance(error, ImportError):
        return _gap("missing", str(error))
    traceback.print_exception(error)
    return _gap("failed", f"{type(error).__name__}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else "without words"


def private_pipes() -> tuple[TextIO, TextIO]:
    """Move the pipes away from descriptors 0 and 1, where a library might read or print."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return os.fdopen(requests), os.fdopen(answers, "w", buffering=1)


def serve(answer: Callable[[Fields], Fields]) -> None:
    """Answer until the input ends; die with the process that started this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    requests, answers = private_pipes()
    for line in requests:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")


def main() -> None:
    """Serve the module that is named."""
    serve(Server(sys.argv[1]).answer)


if __name__ == "__main__":
    main()
