"""Figures for people, in the unit that fits: "108 ns", "3.2 MB"."""

from __future__ import annotations

import math

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def seconds_text(seconds: float | None, digits: int = 4) -> str:
    """Return a time in s, ms, µs or ns; "no result" for None and infinity."""
    if seconds is None or not math.isfinite(seconds):
        return "no result"
    for size, unit in _SECONDS:
        if float(f"{abs(seconds) / size:.{digits}g}") >= 1:  # 0.99999 ms are 1 ms
            return f"{seconds / size:.{digits}g} {unit}"
    return f"{seconds / _SECONDS[-1][0]:.{digits}g} ns" if seconds else "0 s"
