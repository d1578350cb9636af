"""Timing sides in turns, A B C A B C …: what slows the machine for a while cancels out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

from ansorc.compare.side import Gap, Side

Medians: TypeAlias = dict[str, list[float]]
"""Seconds of a call, a median a turn, by the way of calling (`Clocked.times`)."""


@dataclass(frozen=True)
class Turns:
    """How long is timed."""

    turns: int = 15
    min_turns: int = 5
    turn_s: float = 0.03
    """Seconds for which a side is timed in a turn, about, in each way of calling."""
    enough_s: float = 60.0
    """After so long, no more than `min_turns` turns are begun."""
    patience_s: float = 900.0
    """A side that takes longer is given up."""


def take_turns(sides: Sequence[Side], plan: Turns) -> list[Medians | Gap]:
    """Return what each of `sides` took, or why it was given up; they have prepared the same."""
    outcomes: list[Medians | Gap] = [{} for _ in sides]
    begin = time.monotonic()
    for turn in range(plan.turns):
        if turn >= plan.min_turns and time.monotonic() - begin > plan.enough_s:
            break
        for number, side in enumerate(sides):
            held = outcomes[number]
            if isinstance(held, Gap):
                continue
            try:
                answer = side.ask({"do": "time", "seconds": plan.turn_s}, plan.patience_s)
            except Gap as gap:
                outcomes[number] = gap
                continue
            for way, times in answer.items():
                held.setdefault(way, []).append(median(times))
    return outcomes
