"""How often a kernel is called to know its time, and when to give up on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ansorc.search.measure.options import RunOptions

Clock = Callable[[], float]


def sample(
    call: Callable[[int], None], clock: Clock, options: RunOptions, best_s: float
) -> tuple[list[float], bool]:
    """Time `call(n)`, which runs the kernel n times; return seconds per call and "hopeless".

    A repeat is one call, or so many that it lasts 1/32 of `options.min_total_s`: reading the clock
    then costs nothing. `best_s` is the best time known (0: none); a first repeat that is
    `hopeless_factor` times slower is all that is taken.
    """
    first = _timed(call, clock, 1)
    if best_s and first > options.hopeless_factor * best_s:
        return [first], True
    repeat_s = options.min_total_s / 32
    number = 1
    if first < repeat_s:
        first = _timed(call, clock, 4) / 4  # one call alone is mostly the cost of being timed
        number = max(1, math.ceil(repeat_s / max(first, 1e-8)))
    found: list[float] = []
    total = 0.0
    while len(found) < options.max_repeats and (
        total < options.min_total_s or len(found) < options.min_repeats
    ):
        taken = _timed(call, clock, number)
        total += taken
        found.append(taken / number)
    return found, False


def interleave(
    calls: Sequence[Callable[[int], None]], clock: Clock, options: RunOptions
) -> list[list[float]]:
    """Time several kernels in turns, `options.rank_rounds` times; return seconds for each.

    The order is reversed from round to round, so that no kernel always follows the same other.
    """
    repeat_s = options.min_total_s / 32
    numbers: list[int] = []
    for call in calls:
        once = _timed(call, clock, 4) / 4
        numbers.append(max(1, math.ceil(repeat_s / max(once, 1e-8))))
    found: list[list[float]] = [[] for _ in calls]
    order = list(range(len(calls)))
    for _ in range(options.rank_rounds):
        for index in order:
            calls[index](1)  # the caches now hold what this kernel leaves there
            taken = _timed(calls[index], clock, numbers[index])
            found[index].append(taken / numbers[index])
        order.reverse()
    return found


def _timed(call: Callable[[int], None], clock: Clock, number: int) -> float:
    begin = clock()
    call(number)
    return clock() - begin
