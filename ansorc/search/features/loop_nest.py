"""LoopNest: the loops around one statement, with arrays for extents and steps.

A stage that is computed inside another one has that stage's outer loops around its own. Nothing is
lowered: all is read off the State, for one program or for a whole population at once.

Fusing puts the digits of axes side by side, splitting takes them apart again, as with the digits
of a number in a mixed radix. So a loop that was fused from two axes and then split still has
steps of its own along each axis; exact where the lengths divide each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.schedule.bounds import region
from ansorc.schedule.extent import Extent, divide_up, multiply, smaller
from ansorc.schedule.sliding import warm_ups
from ansorc.schedule.stage import At, AxisKind, FuseRelation, Mark, Root, SplitRelation, Stage
from ansorc.schedule.state import State
from ansorc.schedule.unrolling import loops_to_unroll, unroll_limit
from ansorc.search.features.columns import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Digit:
    """`axis += stride` for each of `extent` steps."""

    axis: str
    stride: Extent
    extent: Extent


def digits_of(stage: Stage) -> dict[str, tuple[Digit, ...]]:
    """Return the digits of each iterator now in the loop order, the slowest first."""
    digits: dict[str, tuple[Digit, ...]] = {
        axis.name: (Digit(axis.name, 1, extent),)
        for axis, extent in zip(stage.op.axes, stage.region, strict=True)
    }
    digits |= {
        axis.name: (Digit(axis.name, 1, stage.op.count_terms(axis)),)
        for axis in stage.op.reduce_axes
    }
    for relation in stage.relations:
        if isinstance(relation, FuseRelation) and is_flat(stage):
            axes = stage.op.axes
            digits = {relation.child.name: (Digit(axes[-1].name, 1, prod(a.extent for a in axes)),)}
        elif isinstance(relation, FuseRelation):
            joined = [digit for parent in relation.parents for digit in digits.pop(parent.name)]
            digits[relation.child.name] = tuple(joined)
        else:
            digits |= _split(digits.pop(relation.parent.name), relation)
    return digits


def is_flat(stage: Stage) -> bool:
    """Whether threads go through all elements in order, in vectors that rows do not end.

    All is then counted as if the last axis, along which they move, had all elements.
    """
    first = stage.relations[0] if stage.relations else None
    return (
        isinstance(first, FuseRelation)
        and [parent.name for parent in first.parents] == [axis.name for axis in stage.op.axes]
        and not stage.op.reduce_axes
        and isinstance(stage.attach, Root)
        and any(iterator.mark is Mark.VECTORIZE for iterator in stage.iterators)
        and any(iterator.thread for iterator in stage.iterators)
    )


def _split(digits: tuple[Digit, ...], relation: SplitRelation) -> dict[str, tuple[Digit, ...]]:
    children = relation.children
    if len(digits) == 1:
        parent = digits[0]
        inner = [multiply(c.extent for c in children[n + 1 :]) for n in range(len(children))]
        return {
            child.name: (Digit(parent.axis, multiply((parent.stride, below)), child.extent),)
            for child, below in zip(children, inner, strict=True)
        }
    rest = digits
    result: dict[str, tuple[Digit, ...]] = {}
    for child in reversed(children[1:]):
        result[child.name], rest = _take(rest, child.extent)
    result[children[0].name] = rest
    return result


def _take(digits: tuple[Digit, ...], extent: Extent) -> tuple[tuple[Digit, ...], tuple[Digit, ...]]:
    """The fastest `extent` steps of `digits`, and what is left of them."""
    taken: list[Digit] = []
    left: list[Digit] = []
    for digit in reversed(digits):
        share = _common(digit.extent, extent)
        taken.insert(0, Digit(digit.axis, digit.stride, share))
        rest = divide_up(digit.extent, share)
        left.insert(0, Digit(digit.axis, multiply((digit.stride, share)), rest))
        extent = divide_up(extent, share)
    return tuple(taken), tuple(left)


def _common(left: Extent, right: Extent) -> Extent:
    smallest = smaller(left, right)
    return smallest if isinstance(smallest, int) or smallest is None else np.maximum(smallest, 1)


Shift: TypeAlias = FloatArray | None
"""How far one iteration of a loop moves an index; None where it never does."""


@dataclass(frozen=True, eq=False)
class Movement:
    """One index of a tensor; arrays over places are [loops + 1, rows], as in `Access`."""

    steps: tuple[Shift, ...]
    """How far one iteration of each loop moves it."""
    extents: FloatArray
    """[loops, rows]: those of the loops."""

    @cached_property
    def reach(self) -> FloatArray:
        """[places, rows]: how far the loops inside each place move it."""
        reach, spans = _places_of(self.extents, 0.0), self.extents - 1
        for loop in reversed(range(len(self.steps))):
            step, within = self.steps[loop], reach[loop + 1]
            if step is None:
                reach[loop] = within
            else:
                np.add(within, np.abs(step) * spans[loop], out=reach[loop])
        return reach

    @cached_property
    def is_moved(self) -> tuple[bool, ...]:
        """For each loop whether it moves it."""
        return tuple(step is not None for step in self.steps)

    @cached_property
    def values(self) -> FloatArray:
        """[places, rows]: iterations inside each place of the loops that move it."""
        counts = _places_of(self.extents, 1.0)
        for loop in reversed(range(len(self.steps))):
            if self.steps[loop] is None:
                counts[loop] = counts[loop + 1]
            else:
                np.multiply(counts[loop + 1], self.extents[loop], out=counts[loop])
        return counts


def inside_of(extents: FloatArray) -> FloatArray:
    """Return [loops + 1, rows]: the iterations inside each place, for [loops, rows] extents."""
    inside = _places_of(extents, 1.0)
    for loop in reversed(range(len(extents))):
        np.multiply(inside[loop + 1], extents[loop], out=inside[loop])
    return inside


def outside_of(extents: FloatArray) -> FloatArray:
    """Return [loops + 1, rows]: the iterations of the loops outside each place."""
    outside = _places_of(extents, 1.0)
    outside[0] = 1.0
    for loop, extent in enumerate(extents):
        np.multiply(outside[loop], extent, out=outside[loop + 1])
    return outside


def last_true(flags: BoolArray) -> npt.NDArray[np.int64]:
    """Return [rows]: the last place where `flags` [places, rows] hold; 0 where there is none."""
    return (flags * np.arange(len(flags))[:, None]).max(axis=0)


def stack_extents(extents: Sequence[FloatArray], rows: int) -> FloatArray:
    """Return [loops, rows]."""
    return np.array(extents, dtype=np.float32).reshape(len(extents), rows)


def _places_of(extents: FloatArray, innermost: float) -> FloatArray:
    """An array [loops + 1, rows] to be filled, the last place known."""
    loops, rows = extents.shape
    places = np.empty((loops + 1, rows), dtype=np.float32)
    places[loops] = innermost
    return places


@dataclass(frozen=True, eq=False)
class NestLoop:
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
class LoopNest:
    """The loops around the statement of `stage`."""

    stage: Stage
    loops: tuple[NestLoop, ...]
    """Outermost first."""
    own: int
    """`loops[own:]` are those of the stage itself."""
    axes: Mapping[str, tuple[Shift, ...]]
    """For each axis of the stage, how far one iteration of each loop moves it."""
    ends: Mapping[str, int]
    """For each iterator of the stage, the number of loops up to its end."""
    rows: int
    _movements: dict[object, Movement] = field(default_factory=dict[object, Movement])

    @cached_property
    def extents(self) -> FloatArray:
        """[loops, rows]."""
        return stack_extents([loop.extent for loop in self.loops], self.rows)

    @cached_property
    def is_loop(self) -> BoolArray:
        """[loops, rows]: whether there is more than one iteration."""
        return self.extents > 1

    @cached_property
    def innermost(self) -> npt.NDArray[np.int64]:
        """[rows]: for `take`, where arrays [loops, rows] have the innermost loop of each row."""
        return last_true(self.is_loop) * self.rows + np.arange(self.rows)

    @cached_property
    def inside(self) -> FloatArray:
        """[loops + 1, rows]: iterations of the loops inside each place (see `Access`)."""
        return inside_of(self.extents)

    @cached_property
    def outside(self) -> FloatArray:
        """[loops + 1, rows]: iterations of the loops outside each place."""
        return outside_of(self.extents)

    def is_tile(self, elements: float) -> BoolArray:
        """Return [rows]: whether a run of the stage makes one register tile of so many at most.

        Its vectors are whole rows.
        """
        fits, size = np.ones(self.rows, dtype=np.bool_), np.ones(self.rows, dtype=np.float32)
        own_loops = [n for n in range(self.own, len(self.loops)) if not self.loops[n].is_reduce]
        vectors = [n for n in own_loops if self.loops[n].is_vector]
        along = [
            steps for steps in self.axes.values() if any(steps[n] is not None for n in vectors)
        ]
        for number in own_loops:
            loop = self.loops[number]
            is_part = any(steps[number] is not None for steps in along) and not loop.is_vector
            is_unrolled = np.asarray(False) if is_part else loop.is_unrolled
            fits = fits & (is_unrolled | loop.is_vector | (loop.extent == 1))
            size = size * loop.extent
        return fits & (size <= elements)

    def movement(
        self, terms: tuple[tuple[str, float], ...], without: tuple[int, ...] = ()
    ) -> Movement:
        """Return how the loops, but for those numbered in `without`, move `Σ factor * axis`."""
        movement = self._movements.get((terms, without))
        if movement is None:
            steps = self.steps(terms, without)
            movement = self._movements[terms, without] = Movement(steps, self.extents)
        return movement

    def steps(
        self, terms: tuple[tuple[str, float], ...], without: tuple[int, ...] = ()
    ) -> tuple[Shift, ...]:
        """Return how far one iteration of each loop moves `Σ factor * axis`, as `movement`."""
        steps: list[Shift] = [None] * len(self.loops)
        for axis, factor in terms:
            # the axis of a reduction in the steps of a scan has no loop here
            for loop, moved in enumerate(self.axes.get(axis, ())):
                if loop not in without:
                    steps[loop] = combine(steps[loop], moved, factor)
        return tuple(steps)

    def around(self, axis: str) -> tuple[int, ...]:
        """Return which loops around the stage move where its box along `axis` begins."""
        return tuple(loop for loop in range(self.own) if self.axes[axis][loop] is not None)

    def alone(self, loop: int) -> Movement:
        """Return the movement of an index that is the variable of one loop."""
        movement = self._movements.get(loop)
        if movement is None:
            step = np.ones(self.rows, dtype=np.float32)
            steps = tuple(step if other == loop else None for other in range(len(self.loops)))
            movement = self._movements[loop] = Movement(steps, self.extents)
        return movement


@dataclass
class LoopNests:
    """Makes the nests of the stages of one state.

    `choices` are the numbers that the state does not hold yet: `parallel:stage`, how many outer
    iterators run in parallel, and `unroll:stage`, its `auto_unroll_max_step`.
    """

    state: State
    rows: int
    choices: Mapping[str, Extent] = field(default_factory=dict[str, Extent])
    _made: dict[str, LoopNest] = field(default_factory=dict[str, LoopNest])
    _constants: dict[int, FloatArray] = field(default_factory=dict[int, FloatArray])
    _early: dict[At, dict[str, Extent]] = field(default_factory=dict[At, dict[str, Extent]])

    def nest(self, stage: Stage) -> LoopNest:
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

    def _nest(self, stage: Stage) -> LoopNest:
        outer, axes = self._around(stage)
        loops = list(outer)
        steps = {name: list(around) for name, around in axes.items()}
        ends: dict[str, int] = {}
        digits = digits_of(stage)
        parallel = self._parallel(stage)
        is_unrolled = self._find_unrolled(stage)
        for iterator, is_parallel in zip(stage.iterators, parallel, strict=True):
            for digit in digits[iterator.name]:
                if isinstance(digit.extent, int) and digit.extent == 1:
                    continue
                loops.append(
                    NestLoop(
                        self.array(digit.extent),
                        iterator.kind is not AxisKind.SPACE,
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
        return LoopNest(stage, tuple(loops), len(outer), final, ends, self.rows)

    def _around(self, stage: Stage) -> tuple[tuple[NestLoop, ...], dict[str, list[Shift]]]:
        """The loops of other stages around `stage`, and how they move its axes."""
        names = [axis.name for axis in (*stage.op.axes, *stage.op.reduce_axes)]
        if not isinstance(stage.attach, At):
            return (), {name: [] for name in names}
        target = self.state.stage(stage.attach.stage)
        position = target.position(stage.attach.iterator)
        assert position is not None
        outer = self.nest(target)
        count = outer.ends[stage.attach.iterator]
        steps: dict[str, list[Shift]] = {name: [None] * count for name in names}
        for axis, box in zip(
            stage.op.axes, region(self.state, stage.name, target, position + 1), strict=True
        ):
            for (anchor, divisor), factor in box.low.terms.items() if box.low else ():
                steps[axis.name] = [
                    combine(old, new, factor / divisor)
                    for old, new in zip(steps[axis.name], outer.axes[anchor][:count], strict=True)
                ]
        loops = tuple(
            replace(loop, is_reduce=False) if loop.is_reduce else loop
            for loop in outer.loops[:count]
        )
        early = self._warm_ups(stage.attach).get(stage.name)
        if early is not None:
            loops = (*loops[:-1], replace(loops[-1], extent=loops[-1].extent + self.array(early)))
        return loops, steps

    def _warm_ups(self, place: At) -> dict[str, Extent]:
        """Return how many iterations early the stages in a loop begin; none if no window slides."""
        if place not in self._early:
            beside = self.state.stages_inside(place.stage, place.iterator)
            slides = any(stage.ring is not None for stage in beside)
            self._early[place] = warm_ups(self.state, beside) if slides else {}
        return self._early[place]

    def _parallel(self, stage: Stage) -> list[BoolArray]:
        """Which programs run each iterator in parallel."""
        every = np.ones(self.rows, dtype=np.bool_)
        count = self.array(self.choices.get(f"parallel:{stage.name}", 0))
        return [
            every if iterator.mark is Mark.PARALLEL else count > position
            for position, iterator in enumerate(stage.iterators)
        ]

    def _find_unrolled(self, stage: Stage) -> dict[str, BoolArray]:
        """Which iterators are unrolled, by their mark or by the pragma."""
        parallel = self.choices.get(f"parallel:{stage.name}", 0)
        limit = self.choices.get(f"unroll:{stage.name}")
        unrolled = loops_to_unroll(stage, self.state, limit, parallel)
        for iterator in stage.iterators:
            is_unrolled = unrolled[iterator.name] | (iterator.mark in (Mark.UNROLL, Mark.MATRIX))
            is_one = is_unrolled.ndim == 0
            unrolled[iterator.name] = np.full(self.rows, is_unrolled) if is_one else is_unrolled
        return unrolled


def combine(left: Shift, right: Shift, factor: float) -> Shift:
    """Return `left + factor * right`, where None is 0."""
    if right is None or factor == 0:
        return left
    scaled = right if factor == 1 else right * factor
    return scaled if left is None else left + scaled


def product(factors: list[FloatArray], rows: int) -> FloatArray:
    """Return the product of arrays; ones if there are none."""
    return reduce(np.multiply, factors, np.ones(rows, dtype=np.float32))
