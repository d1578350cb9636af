"""Short timings of a program, in the process that runs it."""

from __future__ import annotations

import statistics
import time

from bench.peers.program import Program

_BATCH_S = 1e-3
_MIN_BATCHES, _MAX_BATCHES = 3, 30
_LONG_S = 0.1
"""A call of this length is not warmed up again and not repeated within a burst."""


class Clocked:
    """A program and what one call of it takes, about."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.call_s = self._first_calls()

    def burst(self, seconds: float) -> list[float]:
        """Run for about `seconds` after a warm-up; return the seconds a call of each batch."""
        if self.program.time is not None:
            return self.program.time(seconds)
        if self.call_s >= _LONG_S:
            return [self._batch(1)]
        self._batch(1)
        size = max(_BATCH_S, seconds / _MAX_BATCHES)
        calls = max(1, round(size / max(self._batch(1), 1e-7)))
        times: list[float] = []
        while len(times) < _MIN_BATCHES or (
            sum(times) * calls < seconds and len(times) < _MAX_BATCHES
        ):
            times.append(self._batch(calls))
        self.call_s = statistics.median(times)
        return times

    def _first_calls(self) -> float:
        """Warm up, and learn how long a call takes: the least of three calls, of one if long."""
        if self.program.time is not None:
            return statistics.median(self.program.time(0.0))
        first = self._batch(1)
        if first > 10 * _LONG_S:
            return first
        return min(self._batch(1) for _ in range(3))

    def _batch(self, calls: int) -> float:
        run = self.program.run
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - begin) / calls
