"""Skeleton: a sketch replayed once, from which the State of any population is made quickly.

Replaying the steps of a sketch does the same arithmetic for every population. A Formula stands for
the array of an extent while the steps are replayed; afterwards the recorded arithmetic alone gives
the extents of any population. The steps ask a few questions about extents meanwhile, such as
whether a region is what it was. Some random programs answer them, and each population is checked
to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias, cast

from ansorc.errors import ScheduleError
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import Extent, IntArray, Tiles
from ansorc.schedule.schedule import Schedule, schedule
from ansorc.schedule.stage import FuseRelation, Loop, Ring, SplitRelation, Stage
from ansorc.schedule.state import Step
from ansorc.search.memo import memoize, share
from ansorc.search.sketch.sketch import Choice, Sketch, TileVariable
from ansorc.search.space.formula import Array, Formula, Program, Tape
from ansorc.target import Target

Draw: TypeAlias = Callable[[Sequence[int]], Sequence[Array]]
"""Gives those of the numbers that a tape begins with whose places it is told."""


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The State of a sketch whose extents are formulas."""

    state: Schedule
    replays: Replays

    def fill(self, draw: Draw, tiles: Tiles) -> Schedule | None:
        """Return the State of a population with the levels `tiles`.

        None where the probe was no guide to them.
        """
        values = self._program.run(draw(self._program.inputs))
        if values is None:
            return None
        filling = _Filling(dict(zip(self._formulas, values, strict=True)))
        stages = tuple(filling.stage(stage) for stage in self.state.stages)
        return replace(self.state, stages=stages, tiles=tiles)

    @cached_property
    def _formulas(self) -> dict[int, Formula]:
        """The formulas in the state, by their numbers."""
        extents = (extent for stage in self.state.stages for extent in _extents_of(stage))
        return {each.number: each for each in extents if isinstance(each, Formula)}

    @cached_property
    def _program(self) -> Program:
        return self.replays.tape.program(self._formulas.values())


def _extents_of(stage: Stage) -> Iterator[Extent | Formula]:
    yield from (iterator.extent for iterator in stage.iterators)
    yield from stage.region
    if stage.ring is not None:
        yield from (stage.ring.length, stage.ring.warm_up)
    for relation in stage.relations:
        if isinstance(relation, FuseRelation):
            loops = (*relation.parents, relation.child)
        else:
            loops = (relation.parent, *relation.children)
        yield from (loop.extent for loop in loops)


Probe: TypeAlias = Callable[[Sketch], Sequence[Array]]


@memoize
def skeleton_of(sketch: Sketch, probe: Probe) -> Skeleton | None:
    """Return the skeleton of `sketch`.

    `probe` gives the levels of the tile variables, and the numbers of the choices, of some programs
    of a sketch. None if its steps ask more of the extents than formulas can tell.
    """
    replays = _replays(sketch.dag, sketch.target, sketch.variables, sketch.choices, probe)
    try:
        return Skeleton(sketch.without_others(replays.state(sketch.steps)), replays)
    except (ScheduleError, TypeError):
        return None


@share
def _replays(
    dag: ComputeDAG,
    target: Target,
    variables: tuple[TileVariable, ...],
    choices: tuple[Choice, ...],
    probe: Probe,
) -> Replays:
    """Return the replays of all sketches with the same genes."""
    tape = Tape(probe(Sketch(dag, target, "", (), variables, (), choices)))
    formulas = iter(tape.inputs())
    tiles = {v.name: Levels([next(formulas) for _ in range(v.levels)]) for v in variables}
    return Replays(
        tape,
        {choice.name: cast(Extent, next(formulas)) for choice in choices},
        _Replayed(schedule(dag, cast(Tiles, tiles))),
    )


@dataclass(frozen=True, eq=False)
class _Replayed:
    """A State, and those after one step more."""

    state: Schedule
    next: dict[Step, _Replayed] = field(default_factory=dict[Step, "_Replayed"])


@dataclass(frozen=True, eq=False)
class Replays:
    """What sketches with the same genes have in common: a tape, and how their steps begin."""

    tape: Tape
    choices: Mapping[str, Extent]
    """The numbers of the choices, which no state holds, as formulas."""
    first: _Replayed

    def state(self, steps: Sequence[Step]) -> Schedule:
        """Return the State after `steps`; raise ScheduleError at the first that does not fit."""
        here = self.first
        for step in steps:
            if step not in here.next:
                here.next[step] = _Replayed(here.state.then(step))
            here = here.next[step]
        return here.state


@dataclass(frozen=True, eq=False)
class _Filling:
    """Puts the numbers of one population in the place of formulas."""

    values: Mapping[int, IntArray]

    def stage(self, stage: Stage) -> Stage:
        """Return `stage` with its extents known."""
        return replace(
            stage,
            iterators=tuple(self.iterator(each) for each in stage.iterators),
            relations=tuple(self.relation(each) for each in stage.relations),
            region=tuple(self.extent(each) for each in stage.region),
            ring=None if stage.ring is None else self.ring(stage.ring),
        )

    def ring(self, ring: Ring) -> Ring:
        return Ring(ring.axis, self.extent(ring.length), self.extent(ring.warm_up))

    def relation(self, relation: SplitRelation | FuseRelation) -> SplitRelation | FuseRelation:
        if isinstance(relation, FuseRelation):
            parents = tuple(self.iterator(each) for each in relation.parents)
            return FuseRelation(parents, self.iterator(relation.child))
        children = tuple(self.iterator(each) for each in relation.children)
        return SplitRelation(self.iterator(relation.parent), children, relation.is_exact)

    def iterator(self, iterator: Loop) -> Loop:
        extent = self.extent(iterator.extent)
        if extent is iterator.extent:
            return iterator
        return Loop(
            iterator.name, extent, iterator.kind, iterator.axis, iterator.level, iterator.mark,
            iterator.thread, iterator.chunk, iterator.function,
        )  # fmt: skip

    def extent(self, extent: Extent | Formula) -> Extent:
        return self.values[extent.number] if isinstance(extent, Formula) else extent


class Levels:
    """The levels of a tile variable; it goes where a replay expects an array [rows, levels]."""

    def __init__(self, formulas: Sequence[Formula]) -> None:
        self.formulas = formulas

    def __getitem__(self, key: tuple[object, list[int]]) -> Levels:
        return Levels([self.formulas[level] for level in key[1]])

    def prod(self, axis: int, dtype: object, out: object) -> Formula:
        """Return the product of the levels; `np.prod` calls it."""
        product = self.formulas[0]
        for formula in self.formulas[1:]:
            product = cast(Formula, product * formula)
        return product
