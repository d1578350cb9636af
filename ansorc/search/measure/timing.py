"""How often a kernel is called to know its time, and when to give up on it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansorc.search.measure.options import RunOptions

Clock = Callable[[], float]
_REPEATS_BEFORE_JUDGING = 40
_AWAKE_S = 1e-3
"""Waking a thread takes 20 µs, after a nap in a virtual machine 100 and more, which is longer than
many kernels: calls that last so long hide it."""
_MEDIAN_ERROR = 0.93
"""Standard error of the median of n normal values, in units of (quartile distance / sqrt(n))."""


@dataclass(frozen=True)
class Subject:
    """What is timed: `call(n)` runs a kernel n times, `evict` empties the caches before a call."""

    call: Callable[[int], None]
    evict: Callable[[], None] | None = None
    """None: calls follow each other, in the caches that they leave."""


def sample(
    subject: Subject, clock: Clock, options: RunOptions, best_s: float
) -> tuple[list[float], bool]:
    """Return seconds per call for as many repeats as it takes, and whether it is "hopeless".

    A repeat is one call, or so many in warm caches that reading the clock costs nothing. `best_s`
    is the best time known (0: none). One that is `hopeless_factor` times slower in a first and in
    further calls is not repeated, one that is `near_factor` times slower is for `min_total_s`;
    others are repeated until the standard error of the median is known to be small, or for
    `max_total_s`. A call that is longer than that is a repeat from the first on.
    """
    first = _timed(subject, clock, 1)
    limit_s = options.hopeless_factor * best_s if best_s else math.inf
    if first > limit_s and (first := min(first, _again(subject, clock, first, limit_s))) > limit_s:
        return [first], True
    found = [first] if first >= options.max_total_s else []
    number = 1
    if subject.evict is None and not found:
        number = _calls_a_repeat(subject, clock, options.min_total_s / _REPEATS_BEFORE_JUDGING)
    total = sum(found)
    while len(found) < options.max_repeats and not _is_known(found, total, options, best_s):
        taken = _timed(subject, clock, number)
        total += taken
        found.append(taken / number)
    return found, False


def _again(subject: Subject, clock: Clock, first_s: float, limit_s: float) -> float:
    """The time of a call after a first one that took `first_s`, maybe to wake threads up."""
    is_short = subject.evict is None and first_s < _AWAKE_S
    number = math.ceil(_AWAKE_S / limit_s) if is_short else 1
    return _timed(subject, clock, number) / number


def _is_known(found: Sequence[float], total: float, options: RunOptions, best_s: float) -> bool:
    """Whether the time is known well enough after repeats that took `total` seconds together."""
    is_far = bool(found and best_s) and statistics.median(found) > options.near_factor * best_s
    if len(found) < options.min_repeats or total < options.min_total_s:
        return is_far and total >= options.max_total_s
    return is_far or total >= options.max_total_s or median_error(found) <= options.precision


def median_error(seconds: Sequence[float]) -> float:
    """Return the standard error of the median of `seconds`, as a share of the median.

    It is taken from the quartiles, so a few disturbed repeats do not count.
    """
    low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return _MEDIAN_ERROR * (high - low) / math.sqrt(len(seconds)) / median


def interleave(subjects: Sequence[Subject], clock: Clock, options: RunOptions) -> list[list[float]]:
    """Time several kernels in turns, `options.rank_rounds` times; return seconds for each.

    The order is reversed from round to round, so that no kernel always follows the same other.
    Slow kernels get fewer rounds.
    """
    begin = clock()
    numbers = [
        1 if subject.evict else _calls_a_repeat(subject, clock, options.rank_repeat_s)
        for subject in subjects
    ]
    found: list[list[float]] = [[] for _ in subjects]
    order = list(range(len(subjects)))
    for _ in range(options.rank_rounds):
        for index in order:
            if subjects[index].evict is None:
                subjects[index].call(1)  # the caches now hold what this kernel leaves there
            taken = _timed(subjects[index], clock, numbers[index])
            found[index].append(taken / numbers[index])
        order.reverse()
        is_long = clock() - begin > options.rank_total_s
        if is_long and len(found[0]) >= options.rank_least_rounds:
            break
    return found


def _calls_a_repeat(subject: Subject, clock: Clock, repeat_s: float) -> int:
    """How many calls in a row last `repeat_s`; one alone is mostly the cost of being timed."""
    if (once := _timed(subject, clock, 1)) >= repeat_s:
        return 1
    once = _timed(subject, clock, 4) / 4
    return max(1, math.ceil(repeat_s / max(once, 1e-8)))


def _timed(subject: Subject, clock: Clock, number: int) -> float:
    if subject.evict is not None:
        subject.evict()
    begin = clock()
    subject.call(number)
    return clock() - begin
