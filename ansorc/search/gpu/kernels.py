"""The kernels of a state: what each computes, its blocks, threads, memory and registers.

Numbers are ints for one program, arrays [rows] for a population.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from ansorc.ir.dtype import FLOAT16
from ansorc.ir.substitute import free_vars
from ansorc.schedule.extent import IntArray, as_array, multiply
from ansorc.schedule.memory import memory_shape
from ansorc.schedule.stage import At, AxisKind, Loop, Mark, Root, Stage
from ansorc.schedule.state import State

BASE_REGISTERS = 24
"""Registers of each thread for indices, addresses and the like, about."""
REGISTER_BYTES = 4
"""The bytes of one register of a thread."""
MOST_COPIED = 48
"""Registers of what a thread copies at a time, at most."""
_FACTOR_REGISTERS = 2
"""Registers for the factors of a matrix product, of each row or column of a thread."""
PADDING_BYTES = 16
"""Padding of rows in shared memory that matrix units load in parts, against bank conflicts."""
ONE = np.asarray(1, dtype=np.int64)


def kernels_of(state: State) -> tuple[ThreadKernel, ...]:
    """Return the kernels of `state`, in the order in which they are launched."""
    return tuple(
        ThreadKernel(state, stage, tuple(_inside(state, stage)))
        for stage in state.stages
        if isinstance(stage.attach, Root)
    )


def _inside(state: State, stage: Stage) -> Iterator[Stage]:
    """Yield the stages computed in the loops of `stage`, producers first."""
    for iterator in stage.iterators:
        for inner in state.stages_inside(stage.name, iterator.name):
            yield from _inside(state, inner)
            yield inner


@dataclass(frozen=True, eq=False)
class ThreadKernel:
    """A root stage, with the stages that are computed inside its loops, producers first."""

    state: State
    root: Stage
    inside: tuple[Stage, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages that it computes, producers first."""
        return (*self.inside, self.root)

    @property
    def is_bound(self) -> bool:
        """Return whether its work is divided among blocks or threads."""
        return any(loop.thread for stage in self.stages for loop in stage.iterators)

    @property
    def is_by_matrix_units(self) -> bool:
        """Return whether matrix units make any of its sums."""
        return any(is_by_matrix_units(stage) for stage in self.inside)

    @cached_property
    def blocks(self) -> IntArray:
        """Blocks of the grid."""
        return self._extent_of("blockIdx.x")

    @cached_property
    def threads(self) -> IntArray:
        """Threads of a block."""
        return self._extent_of("threadIdx.x") * self._extent_of("threadIdx.y")

    @cached_property
    def vthreads(self) -> IntArray:
        """Virtual threads of a thread."""
        return self._extent_of("vthread")

    def _extent_of(self, thread: str) -> IntArray:
        """Return the largest extent of the loops bound to `thread`."""
        loops = [loop for stage in self.stages for loop in stage.iterators if loop.thread == thread]
        return reduce(np.maximum, (as_array(loop.extent) for loop in loops), ONE)

    @cached_property
    def shared_bytes(self) -> IntArray:
        """Bytes that the threads of a block share, with the padding that matrix units need."""
        shared = [stage for stage in self.inside if stage.scope == "shared"]
        padding = PADDING_BYTES if self.is_by_matrix_units else 0
        sizes = ((bytes_of(x) + padding * _rows_of(x)) * stages_of(self.state, x) for x in shared)
        return sum(sizes, 0 * ONE)

    @cached_property
    def registers(self) -> IntArray:
        """Registers of a thread, about: its tiles, what a step loads, indices and addresses."""
        private = [stage for stage in self.inside if stage.scope != "shared"]
        shared = [stage for stage in self.inside if stage.scope == "shared"]
        held = [_result_registers(stage) * self.vthreads for stage in private]
        loaded = [self._loading_registers(stage) for stage in private]
        copied = [_copy_registers(stage) for stage in shared if not self.is_by_matrix_units]
        return (
            BASE_REGISTERS + sum(held, 0 * ONE) + reduce(np.maximum, loaded, 0 * ONE) + sum(copied)
        )

    def _loading_registers(self, stage: Stage) -> IntArray:
        """Return the registers for the factors in one step of the register tile of `stage`."""
        virtual = vthread_extents(self.root)
        registers = _FACTOR_REGISTERS if self.is_by_matrix_units else 1
        names = [axis.name for axis in self.root.op.axes]
        total = 0 * ONE
        for load in stage.op.loads:
            moving = {name for index in load.indices for name in free_vars(index)}
            elements = ONE
            for dimension, axis in enumerate(stage.op.axes):
                if axis.name in moving:
                    extents = [it.extent for it in innermost(stage) if it.axis == axis.name]
                    around = virtual.get(names[dimension], ONE) if dimension < len(names) else ONE
                    elements = elements * as_array(multiply(extents)) * around
            total = total + registers * elements * -(-load.buffer.dtype.bytes // REGISTER_BYTES)
        return total


def is_by_matrix_units(stage: Stage) -> bool:
    """Return whether matrix units make the sums of `stage`."""
    return any(iterator.mark is Mark.MATRIX for iterator in stage.iterators)


def innermost(stage: Stage) -> tuple[Loop, ...]:
    """Return the loops of `stage` inside its last loop that is a reduction."""
    kinds = [iterator.kind for iterator in stage.iterators]
    if AxisKind.REDUCE not in kinds:
        return ()
    last = len(kinds) - 1 - kinds[::-1].index(AxisKind.REDUCE)
    return stage.iterators[last + 1 :]


def vthread_extents(stage: Stage) -> Mapping[str, IntArray]:
    """Return how many virtual threads there are along each axis of a stage."""
    extents: dict[str, IntArray] = {}
    for iterator in stage.iterators:
        if iterator.thread == "vthread":
            for part in stage.parts[iterator.name]:
                extents[part.axis] = extents.get(part.axis, ONE) * as_array(part.extent)
    return extents


def bytes_of(stage: Stage) -> IntArray:
    """Return the bytes that hold what `stage` computes in its place."""
    elements = as_array(multiply(memory_shape(stage)))
    return elements * sum(buffer.dtype.bytes for buffer in stage.op.buffers)


def _result_registers(stage: Stage) -> IntArray:
    """Return the registers for the results of `stage` that a thread keeps.

    One holds a number, or two of float16 that matrix units add up.
    """
    if is_by_matrix_units(stage) and stage.op.buffer.dtype == FLOAT16:
        return -(-bytes_of(stage) // REGISTER_BYTES)
    words = sum(-(-buffer.dtype.bytes // REGISTER_BYTES) for buffer in stage.op.buffers)
    return as_array(multiply(memory_shape(stage))) * words


def _rows_of(stage: Stage) -> IntArray:
    """Return the rows that `stage` has in memory."""
    return as_array(multiply(memory_shape(stage)[:-1]))


def stages_of(state: State, stage: Stage) -> int:
    """Return for how many steps of the loop around it `stage` is held in shared memory at once."""
    if not isinstance(stage.attach, At):
        return 1
    return max(1, dict(state.stage(stage.attach.stage).pragmas).get("async_stages", 1))


def vector_lengths(stage: Stage) -> IntArray:
    """Return the elements of the vectors that `stage` is computed in."""
    lengths = [it.extent for it in stage.iterators if it.mark is Mark.VECTORIZE]
    return as_array(multiply(lengths))


def _copy_registers(stage: Stage) -> IntArray:
    """Return the registers for what a thread copies at a time.

    The compiler loads much of it before it stores. Each vector has an address.
    """
    words = -(-vector_lengths(stage) * stage.op.buffer.dtype.bytes // REGISTER_BYTES)
    loops = [it.extent for it in stage.iterators if it.mark is Mark.NONE]
    return np.minimum(as_array(multiply(loops)) * (words + 1), MOST_COPIED)
