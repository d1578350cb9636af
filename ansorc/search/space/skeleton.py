"""Skeleton: a sketch replayed once, from which the State of any population is made quickly.

Replaying the steps of a sketch does the same arithmetic for every population. A Formula stands for
the array of an extent while the steps are replayed; afterwards the recorded arithmetic alone gives
the extents of any population. The steps ask a few questions about extents meanwhile, such as
whether a region is what it was. Some random programs answer them, and each population is checked
to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ansorc.errors import ScheduleError
from ansorc.schedule.extent import Extent, IntArray, Tiles
from ansorc.schedule.schedule import Schedule
from ansorc.schedule.stage import FuseRelation, Loop, Ring, SplitRelation, Stage
from ansorc.search.memo import memoize
from ansorc.search.sketch.sketch import Sketch

FormulaOperand: TypeAlias = "Formula | int"
_Argument: TypeAlias = tuple[bool, int]
"""Whether it is the value of a step of the tape, and its number there or the number itself."""
_Operation: TypeAlias = tuple[np.ufunc, tuple[_Argument, ...]]


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The State of a sketch whose extents are formulas."""

    state: Schedule
    tape: Tape

    def fill(self, tiles: Tiles) -> Schedule | None:
        """Return the State of a population; None where the probes were no guide to it."""
        values = self.tape.run([column for levels in tiles.values() for column in levels.T])
        if values is None:
            return None
        filling = _Filling(values)
        stages = tuple(filling.stage(stage) for stage in self.state.stages)
        return replace(self.state, stages=stages, tiles=tiles)


@memoize
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
        return Skeleton(sketch.replay(cast(Tiles, tiles)), tape)
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


@dataclass
class Tape:
    """The arithmetic of one replay, in order."""

    probe: Sequence[IntArray]
    """Levels of some random programs, [rows] each: what decides where a replay asks a question."""
    steps: list[_Operation] = field(default_factory=list[_Operation])
    values: list[IntArray] = field(default_factory=list[IntArray])
    """The probe's value of each number: the levels, then the results of the steps."""
    guards: list[tuple[_Argument, _Argument]] = field(
        default_factory=list[tuple[_Argument, _Argument]]
    )
    """Numbers that were taken for equal as they are in the probe."""
    _known: dict[_Operation, int] = field(default_factory=dict[_Operation, int])

    def __post_init__(self) -> None:
        self.values += self.probe

    def record(self, function: np.ufunc, operands: Sequence[FormulaOperand]) -> Formula:
        """Return the result of `function`, recorded if it is new."""
        step = function, tuple(_argument(operand) for operand in operands)
        number = self._known.get(step)
        if number is None:
            number = self._known[step] = len(self.values)
            self.steps.append(step)
            self.values.append(_apply(step, self.values))
        return Formula(self, number)

    def are_equal(self, left: FormulaOperand, right: FormulaOperand) -> bool:
        """Return whether they are equal in the probe; note that they were taken for it."""
        pair = _argument(left), _argument(right)
        if pair[0] == pair[1]:
            return True
        is_equal = _are_equal(*pair, self.values)
        if is_equal:
            self.guards.append(pair)
        return is_equal

    def run(self, levels: Sequence[IntArray]) -> list[IntArray] | None:
        """Return all numbers for other levels; None where what was taken for equal is not."""
        values = list(levels)
        for function, arguments in self.steps:  # thousands of them a second: no further calls
            values.append(function(*[values[n] if is_step else n for is_step, n in arguments]))
        is_same = all(_are_equal(left, right, values) for left, right in self.guards)
        return values if is_same else None


class Formula(NDArrayOperatorsMixin):
    """One number of a tape; it goes where a replay expects the array of an extent."""

    ndim = 1

    def __init__(self, tape: Tape, number: int) -> None:
        self.tape, self.number = tape, number

    def __array_ufunc__(
        self, function: np.ufunc, method: str, *operands: FormulaOperand
    ) -> Formula | bool:
        if method != "__call__":
            return NotImplemented
        if function is np.equal:
            return self.tape.are_equal(*operands)
        return self.tape.record(function, operands)


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


def _argument(operand: FormulaOperand) -> _Argument:
    return (True, operand.number) if isinstance(operand, Formula) else (False, int(operand))


def _value(argument: _Argument, values: Sequence[IntArray]) -> IntArray | int:
    """Return the number that `argument` stands for."""
    is_step, number = argument
    return values[number] if is_step else number


def _are_equal(left: _Argument, right: _Argument, values: Sequence[IntArray]) -> bool:
    return bool(np.all(np.equal(_value(left, values), _value(right, values))))


def _apply(step: _Operation, values: Sequence[IntArray]) -> IntArray:
    """Return the result of `step`."""
    function, arguments = step
    call = cast(Callable[..., IntArray], function)
    return call(*(_value(each, values) for each in arguments))
