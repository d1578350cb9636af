"""Sides that answer "prepare" by their largest error: started, checked, and timed in turns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from ansorc.compare.side import Gap, Side
from ansorc.compare.turns import Turns, take_turns
from bench.peers import ROOT, PeerInfo

TOLERANCE = 1e-4
"""Of an output, as a share of its largest element."""


def make_side(name: str, threads: int, log: Path, server: str) -> Side:
    """Return a side that the module `server` serves, given the side's name."""
    return Side(PeerInfo(name, name, name), threads, log, server, ROOT)


def refuse_wrong(error: float, tolerance: float = TOLERANCE) -> None:
    """Raise Gap if the largest error of a side is above `tolerance`, or no number."""
    if not error <= tolerance:
        raise Gap("wrong", f"its largest error is {error:.2g}")


def time_in_turns(
    sides: Mapping[str, Side], turns: int, turn_s: float, patience_s: float
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the seconds of a call, a median a turn, by side; and why other sides have none."""
    plan = Turns(turns, turns, turn_s, math.inf, patience_s)
    seconds, gaps = dict[str, list[float]](), dict[str, str]()
    for name, medians in zip(sides, take_turns(list(sides.values()), plan), strict=True):
        if isinstance(medians, Gap):
            gaps[name] = str(medians)
        else:
            seconds[name] = medians["seconds"]
    return seconds, gaps
