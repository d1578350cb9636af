"""Which of many sketches for a GPU are tried: each stage has its choice of them by itself.

The kernels of a program take their times one after another, so what is best for one stage hardly
depends on the others, while the number of sketches is the product of the choices of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ansorc.schedule.state import Step
from ansorc.search.gpu.rules import ReductionWay, complete_on_gpu, ways_on_gpu
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.protocol import Structure

FIRST_WAY = ReductionWay(threads=128)
"""The way in which derived sketches are compared, where they leave reductions to threads."""

CLOSE = 1.02
"""Sketches that take this many times as long as the best one in the first way, or more, are not
tried in another one."""

StageChoices: TypeAlias = dict[str, tuple[tuple[str, tuple[Step, ...]], ...]]
"""The rules applied to each stage of the computation: their names, and their steps."""


@dataclass(frozen=True, eq=False)
class FewOfMany:
    """A search among derived sketches, and the ways to complete them, a choice at a time."""

    derived: Sequence[Sketch]
    structure_of: Callable[[Sketch], Structure]
    """The kernels of a complete sketch, to be searched."""
    cost_of: Callable[[Structure], float]
    """The least seconds of its random programs."""
    tried: dict[tuple[int, ReductionWay], Structure | None] = field(
        default_factory=dict[tuple[int, ReductionWay], Structure | None]
    )
    """The sketches that were tried; None for those that cannot be completed so."""

    def structures(self) -> list[Structure]:
        """Return the sketches that were tried, not all."""
        choices = [choices_of(sketch) for sketch in self.derived]
        best = self._best_of_choices(choices, 0, FIRST_WAY)
        way = self._best_way(best)
        self._best_of_choices(choices, best, way, nearer=CLOSE)
        return [structure for structure in self.tried.values() if structure is not None]

    def _best_way(self, number: int) -> ReductionWay:
        """Return the best way of a derived sketch; of those in parts, first how many parts."""

        def seconds_of(way: ReductionWay) -> float:
            return self._seconds(number, way)

        ways = ways_on_gpu(self.derived[number])
        in_parts = [way for way in ways if way.parts]
        tried = [way for way in ways if not way.parts]
        if in_parts:
            threads = FIRST_WAY.threads
            best = min((way for way in in_parts if way.threads == threads), key=seconds_of)
            tried += [way for way in in_parts if way.parts == best.parts]
        return min(tried, key=seconds_of)

    def _best_of_choices(
        self,
        choices: Sequence[StageChoices],
        best: int,
        way: ReductionWay,
        nearer: float = float("inf"),
    ) -> int:
        """Return the number of the sketch that is best in a way, from `best` on a stage at a time.

        Leave out sketches that took `nearer` times as long as `best` or more in the first way.
        """
        most = nearer * self._seconds(best, FIRST_WAY)
        for stage in dict.fromkeys(name for made in choices for name in made):
            others = _without(choices[best], stage)
            rivals = [n for n, made in enumerate(choices) if _without(made, stage) == others]
            close = [n for n in rivals if n == best or not self._took_more(n, most)]
            best = min(close, key=lambda number: self._seconds(number, way))
        return best

    def _took_more(self, number: int, most: float) -> bool:
        """Return whether a derived sketch was tried in the first way and took more than `most`."""
        structure = self.tried.get(self._key(number, FIRST_WAY))
        return structure is not None and self.cost_of(structure) > most

    def _key(self, number: int, way: ReductionWay) -> tuple[int, ReductionWay]:
        """Return under which key a sketch is stored in `tried`; an unknown way is the first one."""
        ways = ways_on_gpu(self.derived[number])
        return number, way if way in ways else ways[0]

    def _seconds(self, number: int, way: ReductionWay) -> float:
        """Return the least estimated time of a derived sketch, in one way if that completes it."""
        key = self._key(number, way)
        if key not in self.tried:
            whole = complete_on_gpu(self.derived[number], key[1])
            self.tried[key] = None if whole is None else self.structure_of(whole)
        structure = self.tried[key]
        return float("inf") if structure is None else self.cost_of(structure)


def choices_of(sketch: Sketch) -> StageChoices:
    """Return what the rules did to each stage of the computation, and to stages made of it."""
    names = sorted((op.name for op in sketch.dag.ops), key=len)
    choices: StageChoices = {}
    before = 0
    for applied in sketch.derivation:
        made_of = [origin for origin in names if f"{applied.stage}.".startswith(f"{origin}.")]
        name = made_of[-1] if made_of else applied.stage
        made = applied.rule, sketch.steps[before : applied.step_count]
        choices[name] = (*choices.get(name, ()), made)
        before = applied.step_count
    return choices


def _without(choices: StageChoices, stage: str) -> StageChoices:
    """Return the choices of all stages but one."""
    return {name: made for name, made in choices.items() if name != stage}
