"""Windows that slide: a stage keeps what earlier iterations of the loop around it made.

    for y in 0..8:                        alloc P[4]
        alloc P[3]                        for n in 0..2:
        for i in 0..3:              ->        P[(n - 2 + 2) % 4] = …
            P[i] = …                      for y in 0..8:
        C[y] = P[0] + P[1] + P[2]             P[(y + 2) % 4] = …
                                              C[y] = P[y % 4] + P[(y + 1) % 4] + P[(y + 2) % 4]

What an iteration reads moves by as much in each iteration, along one axis. So each computes only
what is new. The loop `n` is the warm-up: iterations of `y` before the first one, in which the
readers of the stage rest, or those that keep something themselves begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ansorc.schedule.box import IndexBounds
from ansorc.schedule.extent import (
    Extent,
    add,
    divide_up,
    divides,
    larger,
    power_of_two,
    same,
    scale,
    smaller,
)
from ansorc.schedule.stage import At, AxisKind, Loop, Ring, Stage
from ansorc.schedule.state import State


class NoSlideError(Exception):
    """The reason why a stage cannot keep anything from one iteration to the next."""


class NothingSharedError(NoSlideError):
    """The reason where neighbouring iterations read different elements."""


@dataclass(frozen=True, eq=False)
class Slide:
    """How the box that one iteration reads moves from one to the next."""

    position: int
    """The dimension along which it moves."""
    window: Extent
    """How many elements one iteration reads along it."""
    step: Extent
    """How far it moves."""
    is_up: bool
    """Whether it moves to higher indices."""

    @property
    def new(self) -> Extent:
        """How many elements the iteration before did not have."""
        return smaller(self.window, self.step)

    @property
    def own_warm_up(self) -> Extent:
        """The iterations before the first one that its other elements take."""
        return divide_up(_less(self.window, self.new), self.step)

    def ring(self, stage: Stage, before: Extent) -> Ring:
        """Return how `stage` keeps its window; its readers begin `before` iterations early."""
        axis = stage.op.axes[self.position].name
        return Ring(axis, power_of_two(self.window), add(before, self.own_warm_up))

    def new_part(self, boxes: Sequence[IndexBounds]) -> tuple[IndexBounds, ...]:
        """Return what one iteration computes of the `boxes` that it reads."""
        box = boxes[self.position]
        start = add(box.start, _less(box.width, self.new)) if self.is_up else box.start
        part = replace(box, width=self.new, step=1, start=start)
        return (*boxes[: self.position], part, *boxes[self.position + 1 :])

    def with_warm_up(
        self,
        boxes: Sequence[IndexBounds],
        once: Sequence[IndexBounds],
        new: Sequence[IndexBounds],
        ring: Ring,
    ) -> tuple[IndexBounds, ...]:
        """Return the `boxes` that are read inside loops further out, with all of the warm-up.

        `once` are those of the loop directly outside the iterations, `new` what one computes. The
        warm-up may begin with elements that are not read.
        """
        box, read, made = boxes[self.position], once[self.position], new[self.position]
        if box.low is None or not box.low.terms or read.low is None or not read.low.terms:
            return tuple(boxes)  # the whole dimension
        moved = scale(self.step, ring.warm_up)
        if self.is_up:
            more = _less(read.start, _less(made.start, moved))
        else:
            more = _less(add(add(made.start, made.width), moved), add(read.start, read.width))
        more = larger(more, 0)
        start = _less(box.start, more) if self.is_up else box.start
        wider = replace(box, width=add(box.width, more), step=1, start=start)
        return (*boxes[: self.position], wider, *boxes[self.position + 1 :])


def find_slide(stage: Stage, boxes: Sequence[IndexBounds], loop: Loop, target: Stage) -> Slide:
    """Return how `boxes`, which one iteration of a loop of `target` reads of `stage`, move.

    Raise NoSlideError if they do not move by as much each time, along one axis, and overlap.
    """
    parts = target.parts[loop.name]
    if loop.kind is not AxisKind.SPACE or target.op.scan is not None:
        raise NoSlideError(f"'{loop.name}' is not a loop over the results of a plain stage")
    if len(parts) != 1 or not parts[0].is_whole:
        raise NoSlideError(f"'{loop.name}' is fused, and does not move evenly along one axis")
    found: list[Slide] = []
    for position, (axis, box) in enumerate(zip(stage.op.axes, boxes, strict=True)):
        step, sign = _step(box, parts[0].axis, parts[0].stride, axis.name)
        if sign:
            found.append(Slide(position, box.width, step, sign > 0))
    if not found:
        raise NoSlideError("its iterations all read the same part of it, or all of it")
    if len(found) > 1:
        names = " and ".join(f"'{stage.op.axes[each.position].name}'" for each in found)
        raise NoSlideError(f"what they read moves along {names}, and one axis can be followed")
    (slide,) = found
    if isinstance(slide.window, int) and isinstance(slide.step, int) and slide.window <= slide.step:
        raise NothingSharedError(
            f"each iteration reads {slide.window} elements along "
            f"'{stage.op.axes[slide.position].name}' and the next begins {slide.step} later, so "
            "they share nothing"
        )
    return slide


def _step(box: IndexBounds, anchor: str, stride: Extent, axis: str) -> tuple[Extent, int]:
    """Return how far a box moves while `anchor` moves by `stride`, and 1 up, -1 down, 0 not."""
    moves = [] if box.low is None else [
        (divisor, factor) for (name, divisor), factor in box.low.terms.items() if name == anchor
    ]  # fmt: skip
    if any(not divides(divisor, stride) for divisor, _ in moves):
        raise NoSlideError(f"what they read moves along '{axis}' in some iterations alone")
    total = sum(factor / divisor for divisor, factor in moves)
    if not total:
        return 0, 0
    if stride is None:
        return None, 1 if total > 0 else -1
    steps = [_divided(stride, divisor, factor) for divisor, factor in moves]
    step = steps[0] if len(steps) == 1 else sum(steps[1:], start=steps[0])
    return (step, 1) if total > 0 else (-step, -1)


def warm_ups(state: State, beside: Sequence[Stage]) -> dict[str, Extent]:
    """Return how many iterations early each of the stages `beside` each other in a loop begins.

    They are the last ones of those in the loop.
    """
    known: dict[str, Extent] = {}
    for stage in reversed(beside):
        assert isinstance(stage.attach, At)
        loop = stage.attach.stage, stage.attach.iterator
        ring = stage.ring
        early = latest_warm_up(state, stage, known, loop)
        known[stage.name] = early if ring is None else ring.warm_up
    return known


def latest_warm_up(
    state: State, stage: Stage, known: Mapping[str, Extent], loop: tuple[str, str]
) -> Extent:
    """Return how many iterations of `loop` early the readers of `stage` begin."""
    early: Extent = 0
    for reader in state.readers(stage.name):
        holder = reader
        while isinstance(holder.attach, At) and holder.attach != At(*loop):
            holder = state.stage(holder.attach.stage)
        early = larger(early, known.get(holder.name, 0))
    return early


def same_ring(left: Ring | None, right: Ring | None) -> bool:
    """Return whether both keep the same, in every row."""
    if left is None or right is None:
        return left is right
    is_alike = left.axis == right.axis and same(left.length, right.length)
    return is_alike and same(left.warm_up, right.warm_up)


def _less(left: Extent, right: Extent) -> Extent:
    return add(left, scale(right, -1))


def _divided(stride: int | np.ndarray, divisor: int, factor: int) -> int | np.ndarray:
    return stride // divisor * factor
