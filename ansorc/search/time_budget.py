"""The time that a run may take: before programs are measured, what they will cost is compared.

A batch of programs is built before the first of them runs, and at the end the best programs
compete. Without an estimate of both a run would end when all that is over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_GROWTH = 2
"""A batch is at most this many times as large as all before it: few programs tell little of the
cost of many."""
_CONTENDERS = 5
_CALLS = 13
"""Calls of each contender in a contest of the fewest rounds, with what comes before them."""
_OVER_S, _OVER_SHARE = 0.5, 0.01
"""What the last work may take beyond the budget: seconds, and a share of it."""
_MOST_CLOSING = 0.25
"""The share of a budget that is kept for the contest, at most."""


@dataclass
class TimeBudget:
    """What is left of `seconds` (None: any number), and what measuring costs in this run."""

    seconds: float | None
    clock: Callable[[], float] = time.monotonic
    begin: float = field(init=False)
    is_spent: bool = field(default=False, init=False)
    """Whether what is left was once too short for one more program."""
    _count: int = field(default=0, init=False)
    _spent_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.begin = self.clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.begin

    @property
    def left_s(self) -> float:
        """Seconds that are left; none is negative."""
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed_s)

    @property
    def is_late(self) -> bool:
        """Whether nothing more is to be measured."""
        return self.is_spent or self.left_s <= 0.0

    def has_time_for(self, seconds: float) -> bool:
        """Return whether so much more can be spent, at the end by a small share of the budget."""
        over_s = 0.0 if self.seconds is None else _OVER_S + _OVER_SHARE * self.seconds
        return seconds <= self.left_s + over_s

    def affordable(self, most: int, at_once: int, best_s: float) -> int:
        """Return how many programs can be measured now, `most` of them; 0 if none.

        Time for a contest of programs that take `best_s` is kept. `at_once` programs, which are
        built beside each other, show what one costs.
        """
        if self.seconds is None:
            return most
        closing_s = min(_CONTENDERS * _CALLS * best_s, _MOST_CLOSING * self.seconds)
        left_s = self.left_s - closing_s
        if not self._count:
            count = min(most, at_once) if left_s > 0.0 else 0
        else:
            each_s = self._spent_s / self._count
            count = most if left_s >= most * each_s else int(left_s / each_s)
            count = min(count, _GROWTH * self._count)
        self.is_spent |= count <= 0
        return max(count, 0)

    def note(self, count: int, seconds: float) -> None:
        """Take note that building and running `count` programs took so many seconds."""
        self._count += count
        self._spent_s += seconds
