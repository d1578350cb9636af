"""How long one call of a kernel takes: `Timing`, from repeated batches of calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ansorc.target.units import time_unit

_BATCH_S = 1e-3
"""The shortest batch; calling into the loop and reading the clock cost about 2 µs, 0.2 % of it."""
_MIN_REPEATS = 5


@dataclass(frozen=True)
class Timing:
    """The time of one call, from `repeats` batches of `calls` calls."""

    median_s: float
    spread_s: float
    """The distance between the quartiles of the batches."""
    repeats: int
    calls: int
    fastest_s: float
    """The fastest batch: what the machine can do while nothing else disturbs it."""

    def __str__(self) -> str:
        unit = time_unit(self.median_s)
        median, spread = unit.number(self.median_s), unit.number(self.spread_s, 2)
        return f"{median} {unit.name} ± {spread} {unit.name}"


def measure(
    call: Callable[[int], None],
    clock: Callable[[], float],
    *,
    min_time_s: float = 0.1,
    max_repeats: int = 100,
) -> Timing:
    """Time `call(n)`, which runs the kernel n times, by `clock`, which tells seconds.

    After a warm-up, batches are repeated until they took `min_time_s` together, at least 5 and at
    most `max_repeats`.
    """
    calls = _calls_a_batch(call, clock, max(_BATCH_S, min_time_s / max_repeats))
    times: list[float] = []
    total = 0.0
    while len(times) < max_repeats and (total < min_time_s or len(times) < _MIN_REPEATS):
        taken = _time_calls(call, clock, calls)
        total += taken
        times.append(taken / calls)
    low, median, high = (float(value) for value in np.quantile(times, (0.25, 0.5, 0.75)))
    return Timing(median, high - low, len(times), calls, min(times))


def _calls_a_batch(call: Callable[[int], None], clock: Callable[[], float], batch_s: float) -> int:
    """Warm up with growing batches until one tells how many calls take `batch_s`."""
    _time_calls(call, clock, 1)
    calls = 1
    while True:
        taken = _time_calls(call, clock, calls)
        if taken >= batch_s:
            return calls
        growth = batch_s / taken if taken > 0 else 10.0
        if taken > batch_s / 4:
            return math.ceil(calls * growth)
        calls = math.ceil(calls * min(10.0, max(2.0, growth)))


def _time_calls(call: Callable[[int], None], clock: Callable[[], float], calls: int) -> float:
    begin = clock()
    call(calls)
    return clock() - begin
