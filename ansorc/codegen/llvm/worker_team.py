"""The pool's workers kept awake from one kernel call to the next, as a network's driver does."""

from __future__ import annotations

import ctypes

from ansorc.codegen.llvm.limits import FmaProbe
from ansorc.codegen.package.runtime_library import runtime_symbols
from ansorc.target import Target

_ROUSING_STEPS, _ROUSINGS = 5_000, 3
"""Loops of multiply-adds, 0.05 ms each: a worker that sleeps needs 20 to 100 µs to wake up."""


class WorkerTeam:
    """While it is entered its workers wait awake, and have been woken; one thread may enter it.

    Raise BuildError if there is no compiler for the runtime.
    """

    def __init__(self, target: Target, threads: int) -> None:
        symbols = runtime_symbols()
        self._begin = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(symbols["ansorc_team_begin"])
        self._end = ctypes.CFUNCTYPE(None)(symbols["ansorc_team_end"])
        self._threads = threads
        self._work = FmaProbe(target, threads or target.real.cores, _ROUSING_STEPS)

    def __enter__(self) -> None:
        self._begin(self._threads)
        for _ in range(_ROUSINGS):
            self._work.run(self._threads)

    def __exit__(self, *error: object) -> None:
        self._end()
