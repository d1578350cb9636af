"""The work of a kernel's threads for one statement: how often, and which memory they touch.

All is arithmetic over arrays: one evaluation describes a whole population. A loop is
another block or another thread for each iteration, one iteration after the other ("serial"), or
copies of the statement within a thread: those of virtual threads, unrolled and vectorised loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from ansorc.ir.buffer import Buffer
from ansorc.schedule.extent import BoolArray, IntArray
from ansorc.schedule.memory import memory_shape
from ansorc.schedule.stage import At, Stage
from ansorc.search.features.index_form import IndexForm, group_loads, result_forms
from ansorc.search.features.loop_nest import LoopNest, LoopNests, NestLoop, is_flat
from ansorc.search.gpu.warp_requests import kinds_of_warps, request_counter
from ansorc.search.space.formula import apply
from ansorc.target.gpu import VECTOR_BYTES, WARP_THREADS
from ansorc.target.gpu_kernel import as_floats
from ansorc.target.gpu_requests import sectors, wavefronts

Floats = NDArray[np.float64]


class LoopRole(Enum):
    """Who runs the iterations of a loop."""

    BLOCK = "block"
    THREAD = "thread"
    LOOP = "loop"
    """Each thread runs all of them."""
    NONE = "none"
    """The loop is around a copy to shared memory, which all threads make together."""


class MemorySpace(Enum):
    """Which memory a tensor is in."""

    GLOBAL = "global"
    SHARED = "shared"
    PRIVATE = "private"


@dataclass(frozen=True, eq=False)
class ThreadStatement:
    """The statement of a stage inside a kernel."""

    nests: LoopNests
    stage: Stage

    @cached_property
    def nest(self) -> LoopNest:
        """The loops around it."""
        return self.nests.nest(self.stage)

    @cached_property
    def roles(self) -> tuple[LoopRole, ...]:
        """Return who runs the iterations of each loop of the nest."""
        own_start, is_shared = self.nest.own, self.stage.scope == "shared"
        return tuple(
            _role(loop, is_dropped=is_shared and number < own_start)
            for number, loop in enumerate(self.nest.loops)
        )

    @property
    def rows(self) -> int:
        """The number of programs."""
        return self.nests.rows

    def product(self, *roles: LoopRole) -> Floats:
        """Return [rows]: the iterations of the loops of these roles."""
        iterations = np.ones(self.rows)
        for loop, role in zip(self.nest.loops, self.roles, strict=True):
            if role in roles:
                iterations = iterations * loop.extent
        return iterations

    @cached_property
    def iterations(self) -> Floats:
        """[rows]: how often a thread executes it, its virtual threads together."""
        return self.product(LoopRole.LOOP) * self.more_rounds

    @cached_property
    def more_rounds(self) -> Floats:
        """[rows]: of a copy that all threads make together, how many times as many rounds a warp
        makes, in the mean, as the digits of the loops tell.

        Threads that are no product of sides of the box: of 72 vectors 64 threads copy 64, and then
        one of their two warps 8.
        """
        own_loops = list(enumerate(self.nest.loops))[self.nest.own :]
        threads = [self.nests.array(loop.extent) for loop in self.stage.iterators if loop.thread]
        if self.stage.scope != "shared" or not threads:
            return np.ones(self.rows)
        told, copies = np.ones(self.rows), np.ones(self.rows)
        for number, loop in own_loops:
            is_round = (self.roles[number] is LoopRole.LOOP) & (not loop.is_vector)
            told = told * (loop.extent if is_round else 1)
            copies = copies / (loop.extent if loop.is_vector else 1)
        for extent in self.stage.region:
            copies = copies * self.nests.array(extent)
        each = reduce(np.multiply, threads).astype(np.float64)
        warp = np.minimum(WARP_THREADS, each)
        return np.ceil(copies / warp) / np.ceil(each / warp) / told

    @cached_property
    def are_copies(self) -> tuple[BoolArray, ...]:
        """For each loop [rows]: whether its iterations are copies of the statement."""
        return tuple(
            loop.is_unrolled | loop.is_vector | (loop.thread == "vthread")
            for loop in self.nest.loops
        )

    @cached_property
    def last_serial(self) -> IntArray:
        """[rows]: the place of the innermost loop that is not copied; -1 without one."""
        last = np.full(self.rows, -1)
        for number, loop in enumerate(self.nest.loops):
            if self.roles[number] is LoopRole.LOOP:
                is_serial = ~self.are_copies[number] & (loop.extent > 1)
                last = np.where(is_serial, number, last)
        return last

    @cached_property
    def serial(self) -> Floats:
        """[rows]: iterations of the loops that are not copied."""
        iterations = np.ones(self.rows)
        for number, loop in enumerate(self.nest.loops):
            if self.roles[number] is LoopRole.LOOP:
                iterations = iterations * np.where(self.are_copies[number], 1, loop.extent)
        return iterations

    @cached_property
    def last_term(self) -> IntArray:
        """[rows]: the place of the innermost loop that adds up terms; -1 without one.

        Even where it is unrolled, what is loaded inside is loaded again for each copy outside.
        """
        last = np.full(self.rows, -1)
        for number, loop in enumerate(self.nest.loops):
            if loop.is_reduce and self.roles[number] is LoopRole.LOOP:
                last = np.where(loop.extent > 1, number, last)
        return last

    @cached_property
    def are_inner(self) -> tuple[BoolArray, ...]:
        """For each loop [rows]: whether it is copied, and its copies share what they load."""
        never = np.zeros(self.rows, dtype=bool)
        inner: list[BoolArray] = []
        for number, loop in enumerate(self.nest.loops):
            is_copy = self.are_copies[number]
            if self.roles[number] is not LoopRole.LOOP:
                is_copy = never
            elif loop.thread != "vthread":
                is_copy = is_copy & (number > self.last_serial) & (number >= self.last_term)
            inner.append(is_copy)
        return tuple(inner)

    @cached_property
    def results(self) -> Floats:
        """[rows]: the results, none of which needs another, that it adds to side by side."""
        count = np.ones(self.rows)
        for number, loop in enumerate(self.nest.loops):
            is_result = self.are_inner[number] & (not loop.is_reduce)
            count = count * np.where(is_result, loop.extent, 1)
        return count

    @cached_property
    def accesses(self) -> tuple[ThreadAccess, ...]:
        """Return its stores, then its loads."""
        return tuple(self._accesses())

    def _accesses(self) -> Iterator[ThreadAccess]:
        op = self.stage.op
        for buffer in (op.part if op.overwrites else op).buffers:
            yield self._access(buffer, [result_forms(op)], is_store=True)
        for buffer, group in group_loads(op):
            yield self._access(buffer, group, is_store=False)

    def _access(
        self, buffer: Buffer, group: Sequence[tuple[IndexForm, ...]], *, is_store: bool
    ) -> ThreadAccess:
        source = self.nests.state.source(buffer.name)
        space = MemorySpace.GLOBAL
        shape: Sequence[int | IntArray | None] = buffer.shape
        if source is not None and not source.op.overwrites:
            shape = memory_shape(source)
            if isinstance(source.attach, At):
                space = MemorySpace.SHARED if source.scope == "shared" else MemorySpace.PRIVATE
        sizes = [self.nests.array(extent).astype(np.float64) for extent in shape]
        forms = group[0]
        if is_flat(self.stage):
            forms, sizes = self._in_order(forms, sizes)
        steps = [self.nest.steps(form.terms) for form in forms]
        moved = tuple(
            tuple(
                None
                if (step := steps[axis][number]) is None or role is LoopRole.NONE
                else as_floats(step)
                for axis in range(len(steps))
            )
            for number, role in enumerate(self.roles)
        )
        held = 0
        if space is not MemorySpace.GLOBAL and source is not None:
            held = self.nests.nest(source).own
        return ThreadAccess(self, buffer, space, tuple(sizes), moved, held, len(group), is_store)

    def _in_order(
        self, forms: tuple[IndexForm, ...], sizes: list[Floats]
    ) -> tuple[tuple[IndexForm, ...], list[Floats]]:
        """Return the indices of a flat stage as forms of the number of an element.

        If the tensor has all axes, this is one index over all elements. Otherwise it is the index
        that changes most often, by less than one element at a time.
        """
        axes = self.stage.op.axes
        inner = {a.name: prod(b.extent for b in axes[n + 1 :]) for n, a in enumerate(axes)}
        moved = [(inner[axis], n, f) for n, form in enumerate(forms) for axis, f in form.terms]
        if not moved:
            return forms, sizes
        each, dimension, factor = min(moved)
        last = axes[-1].name
        only = [IndexForm(())] * len(forms)
        only[dimension] = IndexForm(((last, factor / each),))
        if each == 1 and len(forms) == len(axes):
            sizes[dimension] = reduce(np.multiply, sizes)
        return tuple(only), sizes

    @cached_property
    def extents(self) -> Mapping[str, int]:
        """Return the extents of the axes that the loops move along."""
        axes = self.stage.op.axes
        if is_flat(self.stage):
            return {axes[-1].name: prod(axis.extent for axis in axes)}
        return {axis.name: axis.extent for axis in axes}


def _role(loop: NestLoop, *, is_dropped: bool) -> LoopRole:
    """Return who runs the iterations of `loop`."""
    if loop.thread.startswith("blockIdx"):
        return LoopRole.BLOCK
    if loop.thread.startswith("threadIdx"):
        return LoopRole.NONE if is_dropped else LoopRole.THREAD
    return LoopRole.NONE if is_dropped and loop.thread == "vthread" else LoopRole.LOOP


@dataclass(frozen=True, eq=False)
class ThreadAccess:
    """The loads of one tensor that move alike, or a store."""

    statement: ThreadStatement
    buffer: Buffer
    space: MemorySpace
    sizes: tuple[Floats, ...]
    """The extents of its dimensions in memory."""
    moved: tuple[tuple[Floats | None, ...], ...]
    """For each loop, and each dimension, how far one iteration moves the index."""
    held: int
    """Loops outside of what holds the tensor: they do not move it there, unless over threads."""
    count: int
    """Loads that move alike, at other places."""
    is_store: bool

    @cached_property
    def steps(self) -> tuple[Floats | None, ...]:
        """Return how many elements one iteration of each loop moves in memory, None for none."""
        pitches = self._pitches
        moved_by: list[Floats | None] = []
        for number, moves in enumerate(self.moved):
            role = self.statement.roles[number]
            total: Floats | None = None
            is_virtual = self.statement.nest.loops[number].thread == "vthread"
            is_outside = number < self.held and (
                role is LoopRole.BLOCK or (role is LoopRole.LOOP and not is_virtual)
            )
            is_private = self.space is MemorySpace.PRIVATE and number < self.held
            for move, pitch in zip(moves, pitches, strict=True):
                if move is not None and not is_outside and not is_private:
                    total = move * pitch if total is None else total + move * pitch
            moved_by.append(total)
        return tuple(moved_by)

    @cached_property
    def _pitches(self) -> list[Floats]:
        """Return how far apart neighbours lie along each dimension, in elements."""
        pitches: list[Floats] = []
        pitch = np.ones(self.statement.rows)
        for size in reversed(self.sizes):
            pitches.insert(0, pitch)
            pitch = pitch * size
        return pitches

    @cached_property
    def width(self) -> IntArray:
        """[rows]: elements that one instruction loads or stores."""
        most = max(1, VECTOR_BYTES // self.buffer.dtype.bytes)
        widest = np.ones(self.statement.rows, dtype=np.int64)
        is_explicit = self.space is MemorySpace.GLOBAL  # nothing tells where a parameter begins
        for number, step in enumerate(self.steps):
            loop = self.statement.nest.loops[number]
            if step is None or loop.thread or (is_explicit and not loop.is_vector):
                continue
            fitting = np.gcd(self.sizes[-1].astype(np.int64), most)
            lanes = np.gcd(loop.extent.astype(np.int64), fitting)
            fits = (np.abs(step) == 1) & self.statement.are_inner[number]
            widest = np.where(fits, np.maximum(widest, lanes), widest)
        return widest

    @cached_property
    def requests(self) -> Floats:
        """[rows]: instructions of it that a thread executes.

        What does not move is loaded once: for all copies, and before serial loops inside of which
        nothing moves it.
        """
        rows = self.statement.rows
        executed = np.full(rows, float(self.count))
        is_moved, is_repeated = False, np.zeros(rows, dtype=bool)
        for number, loop in reversed(list(enumerate(self.statement.nest.loops))):
            if self.statement.roles[number] is not LoopRole.LOOP:
                continue
            is_copy = self.statement.are_copies[number]
            if self.steps[number] is not None:
                is_moved = True
                executed = executed * loop.extent
            else:
                again = is_repeated & (loop.thread != "vthread")
                counts = np.where(is_copy, again, is_moved or number < self.held)
                executed = executed * np.where(counts, loop.extent, 1)
            if is_moved:
                is_repeated = is_repeated | ((loop.extent > 1) & (~is_copy | loop.is_reduce))
        return executed / self.width * self.statement.more_rounds

    @cached_property
    def registers(self) -> Floats:
        """[rows]: elements that a thread has of it at a time, in the copies of one step."""
        elements = np.full(self.statement.rows, float(self.count))
        for number, step in enumerate(self.steps):
            extent = self.statement.nest.loops[number].extent
            is_held = self.statement.are_inner[number] & (step is not None)
            elements = elements * np.where(is_held, extent, 1)
        return elements

    @cached_property
    def lanes(self) -> tuple[tuple[Floats, Floats], ...]:
        """Return the extents and steps of the digits of a thread's number, the slowest first."""
        zeros = np.zeros(self.statement.rows)
        loops = self.statement.nest.loops
        return tuple(
            (loops[number].extent.astype(np.float64), zeros if step is None else step)
            for number, step in enumerate(self.steps)
            if self.statement.roles[number] is LoopRole.THREAD
        )

    def is_in(self, space: MemorySpace) -> bool:
        """Return whether the tensor is in memory of this kind."""
        return self.space is space

    @cached_property
    def sectors(self) -> Floats:
        """[rows]: sectors of 32 bytes that a request of a warp touches."""
        return self.count_requests(sectors)

    @cached_property
    def wavefronts(self) -> Floats:
        """[rows]: cycles of the banks that a request of a warp takes."""
        return self.count_requests(wavefronts)

    def count_requests(self, count: Callable[[IntArray, int], IntArray]) -> Floats:
        """Return [rows]: what `count` says of the addresses of a warp and the bytes of a thread."""
        threads = self.statement.product(LoopRole.THREAD)
        digits = [number for digit in self.lanes for number in digit]
        kinds = kinds_of_warps(self.width, threads, *digits)
        counter = request_counter(self.statement.nests.state.dag, count, self.buffer.dtype.bytes)
        return apply(counter, kinds, self.width, threads, *digits)

    @cached_property
    def block_elements(self) -> Floats:
        """[rows]: different elements that a block touches in the whole kernel."""
        total = np.ones(self.statement.rows)
        loops = self.statement.nest.loops
        for axis, size in enumerate(self.sizes):
            reach, values = np.ones(self.statement.rows), np.ones(self.statement.rows)
            for number, moves in enumerate(self.moved):
                move = moves[axis]
                if self.statement.roles[number] is LoopRole.BLOCK or move is None:
                    continue
                reach = reach + np.abs(move) * (loops[number].extent - 1)
                values = values * loops[number].extent
            total = total * np.minimum(np.minimum(reach, values * self.count), size)
        return total

    @cached_property
    def depends_on(self) -> tuple[Floats, ...]:
        """For each loop over blocks, the fastest first: whether other elements are touched."""
        ones, zeros = np.ones(self.statement.rows), np.zeros(self.statement.rows)
        depends = [
            zeros if all(move is None for move in self.moved[number]) else ones
            for number, role in enumerate(self.statement.roles)
            if role is LoopRole.BLOCK
        ]
        return tuple(reversed(depends))

    @property
    def part_of(self) -> str:
        """Return the tensor's name, and which of its dimensions each loop over blocks moves."""
        moved = (
            [number for number, move in enumerate(moves) if move is not None]
            for role, moves in zip(self.statement.roles, self.moved, strict=True)
            if role is LoopRole.BLOCK
        )
        return f"{self.buffer.name}{list(moved)}"
