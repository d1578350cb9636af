"""Stopwatch: where the time of something went, by phases that may lie inside each other."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager


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
