"""Skeleton: a sketch replayed once, from which the State of any population is made quickly.

While the steps are replayed they ask a few questions about extents, such as whether a region is
what it was. Some random programs answer them, and each population is checked to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from ansorc.errors import ScheduleError
from ansorc.schedule.extent import Extent, IntArray, Tiles
from ansorc.schedule.schedule import Schedule, replay
from ansorc.schedule.stage import FuseRelation, Iterator, SplitRelation, Stage
from ansorc.search.memo import memoized
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.formula import Formula, Levels, Tape


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The State of a sketch whose extents are formulas."""

    state: Schedule
    tape: Tape

    def filled(self, tiles: Tiles) -> Schedule | None:
        """Return the State of a population; None where the probes were no guide to it."""
        values = self.tape.run([column for levels in tiles.values() for column in levels.T])
        if values is None:
            return None
        filling = _Filling(values)
        stages = tuple(filling.stage(stage) for stage in self.state.stages)
        return replace(self.state, stages=stages, tiles=tiles)


@memoized
def skeleton_of(sketch: Sketch, probe: Callable[[Sketch], Tiles]) -> Skeleton | None:
    """Return the skeleton of `sketch`; `probe` gives the tiles of some of its programs.

    None if its steps ask more of the extents than formulas can tell.
    """
    probed = probe(sketch)
    columns = [column for levels in probed.values() for column in levels.T]
    tape = Tape(columns)
    formulas = iter([Formula(tape, number) for number in range(len(columns))])
    tiles = {
        name: Levels([next(formulas) for _ in range(levels.shape[-1])])
        for name, levels in probed.items()
    }
    try:
        return Skeleton(replay(sketch.dag, sketch.steps, cast(Tiles, tiles)), tape)
    except (ScheduleError, TypeError):
        return None


@dataclass(frozen=True, eq=False)
class _Filling:
    """Puts the numbers of one population in the place of formulas."""

    values: Sequence[IntArray]

    def stage(self, stage: Stage) -> Stage:
        """Return `stage` with its extents known."""
        return replace(
            stage,
            iterators=tuple(self.iterator(each) for each in stage.iterators),
            relations=tuple(self.relation(each) for each in stage.relations),
            region=tuple(self.extent(each) for each in stage.region),
        )

    def relation(self, relation: SplitRelation | FuseRelation) -> SplitRelation | FuseRelation:
        if isinstance(relation, FuseRelation):
            parents = tuple(self.iterator(each) for each in relation.parents)
            return FuseRelation(parents, self.iterator(relation.child))
        children = tuple(self.iterator(each) for each in relation.children)
        return SplitRelation(self.iterator(relation.parent), children, relation.is_exact)

    def iterator(self, iterator: Iterator) -> Iterator:
        found = self.extent(iterator.extent)
        if found is iterator.extent:
            return iterator
        return Iterator(
            iterator.name, found, iterator.kind, iterator.axis, iterator.level, iterator.mark,
            iterator.thread, iterator.chunk, iterator.function,
        )  # fmt: skip

    def extent(self, extent: Extent | Formula) -> Extent:
        return self.values[extent.number] if isinstance(extent, Formula) else extent
