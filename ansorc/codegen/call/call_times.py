"""How long a call takes that a user makes: back to back, or with other work between two calls.

Between two calls a program does other things: its data leaves the nearest caches, and threads that
waited for work may have gone to sleep. Calls back to back know nothing of that.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ansorc.target.units import seconds_text

OTHER_BYTES = 1 << 20
"""That are read and written between two calls."""
GAP_S = 200e-6
"""From the end of one call to the beginning of the next."""
_BATCH_S = 1e-3
_MIN_BATCHES, _MAX_BATCHES = 3, 30
_MIN_CALLS, _MAX_CALLS = 5, 300
_LONG_S = 0.1
"""A call of this length is not warmed up again and not repeated."""


class OtherWork:
    """Work of a program between two calls: 1 MB of other data is touched, 200 µs go by."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._data = np.zeros(OTHER_BYTES, np.uint8)

    def __call__(self) -> None:
        """Do it; the thread is at work all the time."""
        end = self._clock() + GAP_S
        np.add(self._data, 1, out=self._data)
        while self._clock() < end:
            pass

    @property
    def touched(self) -> int:
        """How often, modulo 256, each byte of the data was written."""
        return int(self._data.min())


@dataclass(frozen=True)
class CallTimes:
    """Seconds of one call from Python, medians."""

    back_to_back_s: float
    spaced_s: float
    """With other work between two calls."""

    def __str__(self) -> str:
        return (f"{seconds_text(self.back_to_back_s)} back to back, "
                f"{seconds_text(self.spaced_s)} with other work between "
                f"(1 MB, {seconds_text(GAP_S)})")  # fmt: skip


def call_times(call: Callable[[], object], seconds: float) -> CallTimes:
    """Return both times of `call`, each measured for about `seconds`, after a first call."""
    call()
    return CallTimes(
        statistics.median(back_to_back(call, seconds)),
        statistics.median(with_other_work(call, seconds)),
    )


def back_to_back(
    call: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Call for about `seconds` after a warm-up; return the seconds a call of each batch."""
    first = _batch(call, 1, clock)
    if first >= _LONG_S:
        return [first]
    size = max(_BATCH_S, seconds / _MAX_BATCHES)
    calls = max(1, round(size / max(_batch(call, 1, clock), 1e-7)))
    times: list[float] = []
    while len(times) < _MIN_BATCHES or (sum(times) * calls < seconds and len(times) < _MAX_BATCHES):
        times.append(_batch(call, calls, clock))
    return times


def with_other_work(
    call: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Call for about `seconds` with other work before each call; return the seconds of each."""
    work = OtherWork(clock)
    times: list[float] = []
    spent = 0.0
    while len(times) < _MIN_CALLS or (spent < seconds and len(times) < _MAX_CALLS):
        work()
        times.append(_batch(call, 1, clock))
        if times[-1] >= _LONG_S:
            break
        spent += GAP_S + times[-1]
    return times


def _batch(call: Callable[[], object], calls: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(calls):
        call()
    return (clock() - begin) / calls
