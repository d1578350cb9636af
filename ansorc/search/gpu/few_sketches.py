"""Which of many sketches for a GPU are tried: each stage has its choice of them by itself.

The kernels of a program take their times one after another, so what is best for one stage hardly
depends on the others, while the number of sketches is the product of the choices of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ansorc.schedule.state import Step
from ansorc.search.gpu.estimated_programs import ThreadPrograms
from ansorc.search.gpu.rules import ReductionWay, complete_on_gpu, ways_on_gpu
from ansorc.search.sketch.sketch import Sketch

ROWS = 512
"""Random programs of each sketch that is tried."""
FIRST_WAY = ReductionWay(threads=128)
"""The way in which derived sketches are compared, where they leave reductions to threads."""

StageChoices: TypeAlias = dict[str, tuple[tuple[str, tuple[Step, ...]], ...]]
"""What the rules did to each stage of the computation: their names, and their steps."""


@dataclass(frozen=True, eq=False)
class FewOfMany:
    """A search among derived sketches, and the ways to complete them, a choice at a time."""

    derived: Sequence[Sketch]
    tried: dict[tuple[int, ReductionWay], ThreadPrograms | None] = field(
        default_factory=dict[tuple[int, ReductionWay], ThreadPrograms | None]
    )
    """The programs of the sketches that were tried; None of those that cannot be completed so."""

    def pools(self) -> list[ThreadPrograms]:
        """Return random programs of the sketches that were tried, not all."""
        choices = [choices_of(sketch) for sketch in self.derived]
        best = 0
        for stage in dict.fromkeys(name for made in choices for name in made):
            rivals = [
                number
                for number, made in enumerate(choices)
                if _without(made, stage) == _without(choices[best], stage)
            ]
            best = min(rivals, key=lambda number: self._seconds(number, [self._first_way(number)]))
        self._seconds(best, ways_on_gpu(self.derived[best]))
        return [programs for programs in self.tried.values() if programs is not None]

    def _first_way(self, number: int) -> ReductionWay:
        ways = ways_on_gpu(self.derived[number])
        return FIRST_WAY if FIRST_WAY in ways else ways[0]

    def _seconds(self, number: int, ways: Iterable[ReductionWay]) -> float:
        """The least estimated time of a derived sketch in one of the ways."""
        least = float("inf")
        for way in ways:
            if (number, way) not in self.tried:
                whole = complete_on_gpu(self.derived[number], way)
                drawn = None if whole is None else ThreadPrograms.draw(whole, ROWS)
                self.tried[number, way] = drawn
            programs = self.tried[number, way]
            least = least if programs is None else min(least, programs.best)
        return least


def choices_of(sketch: Sketch) -> StageChoices:
    """Return what the rules did to each stage of the computation, and to stages made of it."""
    names = sorted((op.name for op in sketch.dag.ops), key=len)
    choices: StageChoices = {}
    before = 0
    for applied in sketch.derivation:
        made_of = [one for one in names if f"{applied.stage}.".startswith(f"{one}.")]
        name = made_of[-1] if made_of else applied.stage
        made = applied.rule, sketch.steps[before : applied.step_count]
        choices[name] = (*choices.get(name, ()), made)
        before = applied.step_count
    return choices


def _without(choices: StageChoices, stage: str) -> StageChoices:
    return {name: made for name, made in choices.items() if name != stage}
