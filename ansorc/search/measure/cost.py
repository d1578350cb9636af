"""Where the time of measuring goes: a stopwatch of phases, and what builds and runs cost."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import astuple, dataclass


class Stopwatch:
    """Adds up seconds by phase; while an inner phase runs, the outer one stands still.

    It counts the phases of the thread that made it; those of others run beside what it waits for.
    `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._thread = threading.get_ident()
        self._since = clock()
        self._open: list[str] = []
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Count the time spent inside of the `with` as `name`."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def seconds(self, name: str) -> float:
        """Return the seconds of phase `name` so far."""
        return self._seconds.get(name, 0.0)

    def _turn(self) -> None:
        now = self._clock()
        if self._open:
            self._seconds[self._open[-1]] += now - self._since
        self._since = now


@dataclass(frozen=True)
class BuildCost:
    """Seconds that each phase of building a candidate took."""

    lower_s: float = 0.0
    passes_s: float = 0.0
    emit_s: float = 0.0
    llvm_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds for the whole build."""
        return sum(astuple(self))

    @staticmethod
    def sum(costs: Iterable[BuildCost]) -> BuildCost:
        """Return the sum of `costs`, phase by phase."""
        return BuildCost(*map(sum, zip(*map(astuple, costs), strict=True)))


@dataclass(frozen=True)
class RunCost:
    """Seconds that each phase of running a candidate took."""

    prepare_s: float = 0.0
    """Linking the machine code, packing constants."""
    warm_up_s: float = 0.0
    """The first call, which is not timed."""
    check_s: float = 0.0
    """Poisoning the outputs and comparing them with the reference."""
    repeats_s: float = 0.0
    """The timed calls, with what is done between them."""

    @property
    def total_s(self) -> float:
        """Seconds for the whole run."""
        return sum(astuple(self))

    @staticmethod
    def sum(costs: Iterable[RunCost]) -> RunCost:
        """Return the sum of `costs`, phase by phase."""
        return RunCost(*map(sum, zip(*map(astuple, costs), strict=True)))
