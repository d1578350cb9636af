"""Figures for people, in the unit that fits: "108 ns", "3.2 MB"."""

from __future__ import annotations

import math
from typing import NamedTuple


class TimeUnit(NamedTuple):
    """A unit of time."""

    seconds: float
    name: str

    def number(self, seconds: float, digits: int = 4) -> str:
        """Return the number of these units, without the unit's name."""
        return f"{seconds / self.seconds:.{digits}g}"


_UNITS = (TimeUnit(1.0, "s"), TimeUnit(1e-3, "ms"), TimeUnit(1e-6, "µs"), TimeUnit(1e-9, "ns"))


def time_unit(seconds: float, digits: int = 4) -> TimeUnit:
    """Return the largest unit in which a time is at least 1, else nanoseconds.

    A chart or a pair of times has one unit: that of its least time, or of the more important one.
    """
    fitting = (unit for unit in _UNITS if float(unit.number(abs(seconds), digits)) >= 1)
    return next(fitting, _UNITS[-1])  # 0.99999 ms are printed as 1 ms


def seconds_text(seconds: float | None, digits: int = 4) -> str:
    """Return a time in s, ms, µs or ns; "no result" for None and infinity."""
    if seconds is None or not math.isfinite(seconds):
        return "no result"
    unit = time_unit(seconds, digits)
    return f"{unit.number(seconds, digits)} {unit.name}" if seconds else "0 s"
