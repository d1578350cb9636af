"""Nest: the loops around one statement, with arrays for extents and steps.

A stage that is computed inside another one has that stage's outer loops around its own. Nothing is
lowered: all is read off the State, for one program or for a whole population at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np

from ansorc.schedule.bounds import region
from ansorc.schedule.extent import Extent
from ansorc.schedule.stage import At, IteratorKind, Mark, Stage
from ansorc.schedule.state import State
from ansorc.schedule.unrolling import unroll_limit, unrolled_by_pragma
from ansorc.search.features.columns import BoolArray, FloatArray
from ansorc.search.features.digits import digits_of
from ansorc.search.features.movement import (
    Movement,
    Step,
    inside_of,
    outside_of,
    stacked_extents,
)


@dataclass(frozen=True, eq=False)
class Loop:
    """One loop around a statement; the arrays have one entry for each program.

    A fused iterator appears as the loops that were fused. A loop of extent 1 is none: every
    feature is the same with and without it.
    """

    extent: FloatArray
    is_reduce: bool
    """Whether it adds up terms of this statement."""
    is_vector: bool
    is_parallel: BoolArray
    is_unrolled: BoolArray
    thread: str = ""
    """The GPU index that it is bound to."""


@dataclass(frozen=True, eq=False)
class Nest:
    """The loops around the statement of `stage`."""

    stage: Stage
    loops: tuple[Loop, ...]
    """Outermost first."""
    own: int
    """`loops[own:]` are those of the stage itself."""
    axes: Mapping[str, tuple[Step, ...]]
    """For each axis of the stage, how far one iteration of each loop moves it."""
    ends: Mapping[str, int]
    """For each iterator of the stage, the number of loops up to its end."""
    rows: int
    _movements: dict[object, Movement] = field(default_factory=dict[object, Movement])

    @cached_property
    def extents(self) -> FloatArray:
        """[loops, rows]."""
        return stacked_extents([loop.extent for loop in self.loops], self.rows)

    @cached_property
    def is_loop(self) -> BoolArray:
        """[loops, rows]: whether there is more than one iteration."""
        return self.extents > 1

    @cached_property
    def inside(self) -> FloatArray:
        """[loops + 1, rows]: iterations of the loops inside each place (see `Access`)."""
        return inside_of(self.extents)

    @cached_property
    def outside(self) -> FloatArray:
        """[loops + 1, rows]: iterations of the loops outside each place."""
        return outside_of(self.extents)

    def movement(self, terms: tuple[tuple[str, float], ...], outside: int) -> Movement:
        """Return how the loops, but for the first `outside` ones, move `Σ factor * axis`."""
        found = self._movements.get((terms, outside))
        if found is None:
            steps: list[Step] = [None] * len(self.loops)
            for axis, factor in terms:
                for loop in range(outside, len(steps)):
                    steps[loop] = combined(steps[loop], self.axes[axis][loop], factor)
            found = self._movements[terms, outside] = Movement(tuple(steps), self.extents)
        return found

    def alone(self, loop: int) -> Movement:
        """Return the movement of an index that is the variable of one loop."""
        found = self._movements.get(loop)
        if found is None:
            one = np.ones(self.rows, dtype=np.float32)
            steps = tuple(one if other == loop else None for other in range(len(self.loops)))
            found = self._movements[loop] = Movement(steps, self.extents)
        return found


@dataclass
class Nests:
    """Makes the nests of the stages of one state.

    `choices` are the numbers that the state does not hold yet: `parallel:stage`, how many outer
    iterators run in parallel, and `unroll:stage`, its `auto_unroll_max_step`.
    """

    state: State
    rows: int
    choices: Mapping[str, Extent] = field(default_factory=dict[str, Extent])
    _made: dict[str, Nest] = field(default_factory=dict[str, Nest])
    _constants: dict[int, FloatArray] = field(default_factory=dict[int, FloatArray])

    def nest(self, stage: Stage) -> Nest:
        """Return the nest of `stage`, which is not inlined."""
        if stage.name not in self._made:
            self._made[stage.name] = self._nest(stage)
        return self._made[stage.name]

    def array(self, extent: Extent) -> FloatArray:
        """Return `extent` as one number for each program."""
        assert extent is not None, "a tile length is not chosen"
        if isinstance(extent, int):
            if extent not in self._constants:
                self._constants[extent] = np.full(self.rows, float(extent), dtype=np.float32)
            return self._constants[extent]
        return extent.astype(np.float32)

    def unroll_limit(self, stage: Stage) -> Extent:
        """Return up to how many copies the loops of `stage` are unrolled: chosen, or its pragma."""
        return unroll_limit(stage, self.choices.get(f"unroll:{stage.name}"))

    def _nest(self, stage: Stage) -> Nest:
        outer, axes = self._around(stage)
        loops = list(outer)
        steps = {name: list(around) for name, around in axes.items()}
        ends: dict[str, int] = {}
        digits = digits_of(stage)
        parallel = self._parallel(stage)
        is_unrolled = self._unrolled(stage)
        for iterator, is_parallel in zip(stage.iterators, parallel, strict=True):
            for digit in digits[iterator.name]:
                if isinstance(digit.extent, int) and digit.extent == 1:
                    continue
                loops.append(
                    Loop(
                        self.array(digit.extent),
                        iterator.kind is IteratorKind.REDUCE,
                        iterator.mark is Mark.VECTORIZE,
                        is_parallel,
                        is_unrolled[iterator.name],
                        iterator.thread,
                    )
                )
                for name, moved in steps.items():
                    moved.append(self.array(digit.stride) if digit.axis == name else None)
            ends[iterator.name] = len(loops)
        final = {name: tuple(moved) for name, moved in steps.items()}
        return Nest(stage, tuple(loops), len(outer), final, ends, self.rows)

    def _around(self, stage: Stage) -> tuple[tuple[Loop, ...], dict[str, list[Step]]]:
        """The loops of other stages around `stage`, and how they move its axes."""
        names = [axis.name for axis in (*stage.op.axes, *stage.op.reduce_axes)]
        if not isinstance(stage.attach, At):
            return (), {name: [] for name in names}
        target = self.state.stage(stage.attach.stage)
        place = target.position(stage.attach.iterator)
        assert place is not None
        outer = self.nest(target)
        count = outer.ends[stage.attach.iterator]
        steps: dict[str, list[Step]] = {name: [None] * count for name in names}
        for axis, box in zip(
            stage.op.axes, region(self.state, stage.name, target, place + 1), strict=True
        ):
            for anchor, factor, divisor in box.low.terms if box.low is not None else ():
                steps[axis.name] = [
                    combined(old, new, factor / divisor)
                    for old, new in zip(steps[axis.name], outer.axes[anchor][:count], strict=True)
                ]
        loops = tuple(replace(loop, is_reduce=False) for loop in outer.loops[:count])
        return loops, steps

    def _parallel(self, stage: Stage) -> list[BoolArray]:
        """Which programs run each iterator in parallel."""
        every = np.ones(self.rows, dtype=np.bool_)
        count = self.array(self.choices.get(f"parallel:{stage.name}", 0))
        return [
            every if iterator.mark is Mark.PARALLEL else count > place
            for place, iterator in enumerate(stage.iterators)
        ]

    def _unrolled(self, stage: Stage) -> dict[str, BoolArray]:
        """Which iterators are unrolled, by their mark or by the pragma."""
        parallel = self.choices.get(f"parallel:{stage.name}", 0)
        limit = self.choices.get(f"unroll:{stage.name}")
        found = unrolled_by_pragma(stage, self.state, limit, parallel)
        for iterator in stage.iterators:
            is_unrolled = found[iterator.name] | (iterator.mark is Mark.UNROLL)
            found[iterator.name] = np.broadcast_to(is_unrolled, self.rows)
        return found


def combined(left: Step, right: Step, factor: float) -> Step:
    """Return `left + factor * right`, where None is 0."""
    if right is None or factor == 0:
        return left
    scaled = right if factor == 1 else right * factor
    return scaled if left is None else left + scaled


def product(factors: list[FloatArray], rows: int) -> FloatArray:
    """Return the product of arrays; ones if there are none."""
    return reduce(np.multiply, factors, np.ones(rows, dtype=np.float32))
