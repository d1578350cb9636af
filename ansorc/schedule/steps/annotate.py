"""Parallelize, Vectorize, Unroll, BindThread, Pragma: how a loop is to be run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ansorc.ir.stmt import THREADS
from ansorc.schedule.bounds import settle
from ansorc.schedule.stage import AxisKind, Loop, Mark, Root, Stage
from ansorc.schedule.state import State, Step
from ansorc.schedule.thread_places import (
    require_initial_fits,
    require_kept_in_order,
    require_threads_fit,
)
from ansorc.schedule.thread_reduction import unfit_threads
from ansorc.schedule.unrolling import require_bounded

PRAGMAS = ("auto_unroll_max_step", "async_stages")
MAX_STAGES = 8
SHARINGS = ("static", "dynamic")


@dataclass(frozen=True)
class Parallelize(Step):
    """Run the iterations of a space loop in several threads.

    for i in 0..8:  body     ->     parallel i in 0..8:  body

    `sharing` is "static" (each thread gets one part; the parts have nearly equal length) or
    "dynamic" (a thread that is done takes the next `chunk` iterations, which suits iterations of
    unequal cost).
    """

    iterator: str
    sharing: str = "static"
    chunk: int = 1

    def apply(self, state: State) -> State:
        """Return the state with the loop marked parallel."""
        stage = self.stage_of(state)
        position = self.position_of(state, stage, self.iterator)
        spot = (stage.name, self.iterator)
        _require_space(self, state, stage.iterators[position], "parallel")
        self.require_markable(state, stage.iterators[position])
        self.require(
            state, f"there is no sharing '{self.sharing}'; use 'static' or 'dynamic'", spot,
            condition=self.sharing in SHARINGS,
        )  # fmt: skip
        is_dynamic = self.sharing == "dynamic"
        self.require(
            state, f"a chunk is 1 iteration or more, and 1 for static sharing, not {self.chunk}",
            spot, condition=self.chunk == 1 or (is_dynamic and self.chunk > 1),
        )  # fmt: skip
        self._require_alone(state, stage, position)
        chunk = self.chunk if is_dynamic else 0
        marked = replace(stage.iterators[position], mark=Mark.PARALLEL, chunk=chunk)
        after = state.with_stage(stage.with_iterator(position, marked))
        require_kept_in_order(self, state, after)
        return after

    def _require_alone(self, state: State, stage: Stage, position: int) -> None:
        loops = ((stage, iterator) for iterator in stage.iterators)
        for owner, other in (*state.around(stage), *loops, *_inside(state, stage, position)):
            if other.mark is Mark.PARALLEL:
                self.refuse(state, f"'{other.name}' is already parallel, and threads do not nest; "
                            "fuse the loops first and mark the fused one",
                            (owner.name, other.name))  # fmt: skip


@dataclass(frozen=True)
class Vectorize(Step):
    """Run the iterations of a loop in the lanes of vector instructions.

    for j in 0..8:  C[j] = A[j]     ->     C[0:8] = A[0:8]

    In a reduction each lane adds up its own terms, and the lanes are added at the end, so the
    terms are added in another order.
    """

    iterator: str

    def apply(self, state: State) -> State:
        """Return the state with the loop marked vectorized."""
        stage = self.stage_of(state)
        position = self.position_of(state, stage, self.iterator)
        self.require_markable(state, stage.iterators[position])
        self.require_even(state, stage, stage.iterators[position], "vectorized")
        _require_no_scan(self, state, stage.iterators[position], "vectorized")
        self.require(
            state, f"the lanes of '{self.iterator}' may go to one element of '{stage.name}'; "
            "vectorize a loop of the result, or rfactor it first", (stage.name, self.iterator),
            condition=not (stage.op.places and stage.iterators[position].kind is AxisKind.REDUCE),
        )  # fmt: skip
        for iterator in stage.iterators[position:]:
            for inner in state.stages_inside(stage.name, iterator.name):
                self.refuse(state, f"'{inner.name}' is computed inside '{self.iterator}'; "
                            "vectorize a loop further inside",
                            (stage.name, iterator.name))  # fmt: skip
        after = state.with_stage(_mark(stage, position, Mark.VECTORIZE))
        require_bounded(self, state, after, (stage.name, self.iterator))
        return after


@dataclass(frozen=True)
class Unroll(Step):
    """Replace a loop by copies of its body.

    for i in 0..2:  C[i] = A[i]     ->     C[0] = A[0]
                                           C[1] = A[1]
    """

    iterator: str

    def apply(self, state: State) -> State:
        """Return the state with the loop marked unrolled."""
        stage = self.stage_of(state)
        position = self.position_of(state, stage, self.iterator)
        self.require_markable(state, stage.iterators[position])
        self.require_even(state, stage, stage.iterators[position], "unrolled")
        after = state.with_stage(_mark(stage, position, Mark.UNROLL))
        require_bounded(self, state, after, (stage.name, self.iterator))
        return after


@dataclass(frozen=True)
class BindThread(Step):
    """Give each iteration of a loop to one GPU thread or thread block.

    for i in 0..32:  body     ->     bound threadIdx.x i in 0..32:  body

    The loop may be a reduction if it is bound to threadIdx.x: the threads then combine their
    terms, in another order. Terms that go to places are combined there by atomic updates, and any
    loop over them may be bound.
    """

    iterator: str
    thread: str

    def apply(self, state: State) -> State:
        """Return the state with the loop bound to `thread`."""
        stage = self.stage_of(state)
        position = self.position_of(state, stage, self.iterator)
        known = ", ".join(THREADS)
        self.require(
            state, f"there is no thread index '{self.thread}'; use one of {known}",
            (stage.name, self.iterator), condition=self.thread in THREADS,
        )  # fmt: skip
        iterator = stage.iterators[position]
        others = [each.name for each in stage.iterators if each.thread == self.thread]
        self.require(
            state, f"{self.thread} is the index of '{' and '.join(others)}' already",
            *((stage.name, other) for other in others),
            condition=not others or self.thread == "vthread",
        )  # fmt: skip
        self.require_even(state, stage, iterator, "bound to a thread")
        if iterator.kind is AxisKind.REDUCE and stage.op.places:
            self._require_atomic(state, stage)
        elif iterator.kind is AxisKind.REDUCE and self.thread == "threadIdx.x":
            complaint = unfit_threads(iterator.extent)
            self.require(state, complaint, (stage.name, self.iterator), condition=not complaint)
        else:
            _require_space(self, state, iterator, "bound to a thread")
        self.require_markable(state, stage.iterators[position])
        mixed = stage.op.mixed_axes if stage.op.scan is not None else frozenset[str]()
        self.require(
            state, f"the steps of '{stage.name}' read states that the threads of "
            f"'{self.iterator}' make, which would wait for each other at each step; bind another "
            "loop", (stage.name, self.iterator),
            condition=all(part.axis not in mixed for part in stage.parts[self.iterator]),
        )  # fmt: skip
        bound = replace(stage.iterators[position], mark=Mark.BIND, thread=self.thread)
        bound_loops = state.with_stage(stage.with_iterator(position, bound))
        require_initial_fits(self, state, bound_loops)
        require_kept_in_order(self, state, bound_loops)
        # What the threads of a block share grows with the threads.
        after = settle(bound_loops, self, state, within=stage.name)
        require_threads_fit(self, state, after)
        return after

    def _require_atomic(self, state: State, stage: Stage) -> None:
        """Refuse unless threads may bring terms to the places of `stage` side by side."""
        spot = (stage.name, self.iterator)
        self.require(
            state, f"the terms of '{self.iterator}' go to places, one by one; bind it to a block "
            "or a thread", spot, condition=self.thread != "vthread",
        )  # fmt: skip
        self.require(
            state, f"another kernel stores what the sums of '{stage.name}' begin with, but it is "
            "computed inside another stage; bind a loop of the result", spot,
            condition=isinstance(stage.attach, Root),
        )  # fmt: skip


@dataclass(frozen=True)
class Pragma(Step):
    """Give the lowering of a stage a number.

    `auto_unroll_max_step`: unroll its innermost serial loops while the number of copies of the
    body stays at or below the value.

    `async_stages`: while an iteration of the loop around its shared stages computes, copy the data
    of the next `value` - 1 iterations to shared memory (0 and 1: nothing).
    """

    name: str
    value: int

    def apply(self, state: State) -> State:
        """Return the state with the pragma set, replacing an earlier value."""
        stage = self.stage_of(state)
        known = ", ".join(PRAGMAS)
        self.require(
            state, f"there is no pragma '{self.name}'; use {known}", condition=self.name in PRAGMAS
        )
        self.require(state, f"{self.value} is below 0", condition=self.value >= 0)
        self.require(
            state, f"{self.value} iterations at once need too much shared memory; the most is "
            f"{MAX_STAGES}", condition=self.name != "async_stages" or self.value <= MAX_STAGES,
        )  # fmt: skip
        others = tuple(pragma for pragma in stage.pragmas if pragma[0] != self.name)
        return state.with_stage(replace(stage, pragmas=(*others, (self.name, self.value))))


def _mark(stage: Stage, position: int, mark: Mark) -> Stage:
    return stage.with_iterator(position, replace(stage.iterators[position], mark=mark))


def _require_no_scan(step: Step, state: State, iterator: Loop, what: str) -> None:
    step.require(
        state, f"'{iterator.name}' runs along a scan, each step of which needs the one before, so "
        f"it cannot be {what}; use another loop, or redefine the scan in blocks",
        (step.stage, iterator.name), condition=iterator.kind is not AxisKind.SCAN,
    )  # fmt: skip


def _require_space(step: Step, state: State, iterator: Loop, what: str) -> None:
    _require_no_scan(step, state, iterator, what)
    step.require(
        state, f"'{iterator.name}' is a reduction and its steps depend on each other, so it cannot "
        f"be {what}; rfactor it first", (step.stage, iterator.name),
        condition=iterator.kind is AxisKind.SPACE,
    )  # fmt: skip


def _inside(state: State, stage: Stage, position: int) -> Iterator[tuple[Stage, Loop]]:
    for iterator in stage.iterators[position:]:
        for inner in state.stages_inside(stage.name, iterator.name):
            yield from ((inner, loop) for loop in inner.iterators)
            yield from _inside(state, inner, 0)
