"""The kernels of a population as `KernelDescription`s, which the model of a GPU makes times of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ansorc.schedule.extent import Extent, IntArray
from ansorc.schedule.state import State
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.features.operations import operation_counts
from ansorc.search.gpu.kernels import ThreadKernel, kernels_of
from ansorc.search.gpu.statements import (
    Floats,
    LoopRole,
    MemorySpace,
    ThreadAccess,
    ThreadStatement,
)
from ansorc.search.memo import memoized
from ansorc.target import Target
from ansorc.target.gpu_kernel import GlobalAccess, KernelDescription, SharedAccess
from ansorc.target.gpu_occupancy import resident_blocks, warps_of

SPECIAL_OPERATIONS = 2
"""Instructions of the special function units for one call, such as exp or a division."""
CALL_OPERATIONS = 12
"""Further ones of the other lanes."""
LOOP_OPERATIONS = 2
"""Of each iteration of a loop that is not unrolled: a count and a jump."""
ADDRESS_OPERATIONS = 2
"""Of each access to memory."""
GUARD_OPERATIONS = 2
"""Of each result that may lie beyond the extent."""
SECTOR_BYTES = 32
_STEP, _ALONE, _L2_SPEED = 400, 4, 3


def descriptions(
    state: State, rows: int, choices: Mapping[str, Extent] | None = None
) -> tuple[KernelDescription, ...]:
    """Return the kernels of the `rows` programs that `state` stands for, in their order."""
    nests = LoopNests(state, rows, {} if choices is None else choices)
    return tuple(each.description for each in analysed(nests))


@dataclass(frozen=True, eq=False)
class AnalysedKernel:
    """A kernel, its statements, producers first, and what they come to."""

    kernel: ThreadKernel
    statements: tuple[ThreadStatement, ...]
    description: KernelDescription


@memoized
def analysed(nests: LoopNests) -> tuple[AnalysedKernel, ...]:
    """Return the kernels of the programs of `nests`, in their order."""
    return tuple(_analysed(nests, kernel) for kernel in kernels_of(nests.state))


def _analysed(nests: LoopNests, kernel: ThreadKernel) -> AnalysedKernel:
    statements = tuple(ThreadStatement(nests, stage) for stage in kernel.stages)
    return AnalysedKernel(kernel, statements, _description(kernel, statements))


def _description(kernel: ThreadKernel, statements: Sequence[ThreadStatement]) -> KernelDescription:
    rows = statements[0].rows
    root = statements[-1]
    in_global: list[GlobalAccess] = []
    in_shared: list[SharedAccess] = []
    arithmetic = integers = special = np.zeros(rows)
    steps = np.ones(rows)
    barriers, independent = np.zeros(rows), np.ones(rows)
    for statement in statements:
        counts = operation_counts(statement.stage.op)
        times = statement.iterations
        calls = counts.called + counts.divided
        arithmetic = arithmetic + times * (counts.total - counts.fused - calls)
        arithmetic = arithmetic + times * CALL_OPERATIONS * calls
        special = special + times * SPECIAL_OPERATIONS * calls
        integers = integers + times * (counts.integer + counts.selected)
        integers = integers + statement.serial * LOOP_OPERATIONS
        integers = integers + _guards(statement) * times
        if statement.stage.scope == "shared":
            steps = np.maximum(steps, _around(statement))
            barriers = np.maximum(barriers, 2 * steps)
        if counts.total:
            independent = np.maximum(independent, statement.results)
        for access in statement.accesses:
            if access.space is MemorySpace.GLOBAL:
                in_global.append(_global(access, root))
            elif access.space is MemorySpace.SHARED:
                in_shared.append(_shared(access))
            if access.space is not MemorySpace.PRIVATE:
                integers = integers + ADDRESS_OPERATIONS * access.requests
    return KernelDescription(
        grid=_grid(root), threads=_row(kernel.threads, rows),
        registers=_row(kernel.registers, rows), shared_bytes=_row(kernel.shared_bytes, rows),
        multiply_adds=arithmetic,
        integer_operations=integers, global_accesses=tuple(in_global),
        shared_accesses=tuple(in_shared), independent=independent, steps=steps,
        barriers=barriers, special_operations=special,
    )  # fmt: skip


def _row(values: IntArray, rows: int) -> IntArray:
    return np.broadcast_to(values, (rows,))


def _grid(statement: ThreadStatement) -> tuple[Floats, ...]:
    """The loops that blocks run over, the fastest first."""
    extents = [
        loop.extent.astype(np.float64)
        for loop, role in zip(statement.nest.loops, statement.roles, strict=True)
        if role is LoopRole.BLOCK
    ]
    return tuple(reversed(extents)) or (np.ones(statement.rows),)


def _around(statement: ThreadStatement) -> Floats:
    """How often a block makes a copy."""
    found = np.ones(statement.rows)
    loops = statement.nest.loops[: statement.nest.own]
    for loop, role in zip(loops, statement.roles, strict=False):
        found = found * (loop.extent if role is LoopRole.LOOP else 1)
    return found


def _guards(statement: ThreadStatement) -> Floats:
    """Operations for each result of a stage whose tiles may reach beyond its extents."""
    found = np.zeros(statement.rows)
    stage, nest = statement.stage, statement.nest
    for axis in (*stage.op.axes, *stage.op.reduce_axes):
        covered = np.ones(statement.rows)
        for loop, step in zip(nest.loops, nest.axes[axis.name], strict=True):
            covered = covered * (1 if step is None else loop.extent)
        is_ragged = (covered != axis.extent) & (stage.scope != "shared")
        found = found + np.where(is_ragged, GUARD_OPERATIONS, 0)
    return found


def _global(access: ThreadAccess, root: ThreadStatement) -> GlobalAccess:
    touched = access.sectors
    lanes = np.minimum(32, access.statement.product(LoopRole.THREAD))
    asked = touched * SECTOR_BYTES / np.maximum(1, lanes * access.width * access.buffer.dtype.bytes)
    dimensions = len(_grid(root))
    depends = access.depends_on
    depends = (*depends, *[np.zeros(access.statement.rows)] * (dimensions - len(depends)))
    return GlobalAccess(
        requests=access.requests,
        sectors=touched,
        wavefronts=access.wavefronts,
        block_bytes=access.block_elements * access.buffer.dtype.bytes * np.maximum(1, asked),
        depends_on=depends[:dimensions],
        is_store=access.is_store,
    )


def _shared(access: ThreadAccess) -> SharedAccess:
    return SharedAccess(access.requests, access.wavefronts, access.is_store)


def estimated_seconds(
    state: State, target: Target, rows: int, choices: Mapping[str, Extent] | None = None
) -> Floats:
    """Return the estimated seconds of each kernel: [rows, kernels]."""
    found = [seconds_of_kernel(each, target) for each in descriptions(state, rows, choices)]
    return np.stack([np.broadcast_to(each, (rows,)) for each in found], axis=1)


def seconds_of_kernel(kernel: KernelDescription, target: Target) -> Floats:
    """Return [rows]: the longest of the times of arithmetic, issue, shared and global memory."""
    gpu = target.gpu
    machine = gpu.architecture
    blocks = np.prod(np.broadcast_arrays(*kernel.grid), axis=0)
    resident = resident_blocks(machine, kernel.threads, kernel.registers, kernel.shared_bytes)
    held = np.maximum(resident, 1e-3)
    rounds = np.ceil(blocks / (gpu.multiprocessors * held)) * held
    warps = warps_of(kernel.threads)
    banks = np.zeros(len(blocks))
    for access in kernel.shared_accesses:
        banks = banks + access.requests * access.wavefronts
    asked = np.zeros(len(blocks))
    for access in kernel.global_accesses:
        asked = asked + access.requests * access.sectors * SECTOR_BYTES
        banks = banks + access.requests * access.wavefronts
    issued = kernel.multiply_adds + kernel.integer_operations + banks
    own = kernel.multiply_adds / 4 + issued / machine.schedulers + _STEP * kernel.steps
    cycles = np.maximum.reduce([
        rounds * warps * kernel.multiply_adds * 32 / machine.fp32_lanes,
        rounds * warps * issued / machine.schedulers,
        rounds * warps * banks,
        np.where(blocks > 0, own * _ALONE, 0),
    ])  # fmt: skip
    moved = asked * warps * blocks / (_L2_SPEED * gpu.dram_bytes_per_second)
    return np.where(resident > 0, np.maximum(cycles / gpu.clock_hz, moved), np.inf)
