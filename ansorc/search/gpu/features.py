"""Features of GPU programs for the learned model: a statement, its kernel and its accesses.

The paper's features of GPUs (extents of blockIdx, threadIdx and virtual threads) are among them;
most others are counted exactly from the loops: sectors of a request, bank conflicts, occupancy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ansorc.search.features.columns import LOG, FloatArray, columns_of, values_of
from ansorc.search.features.feature_set import estimating_set
from ansorc.search.features.loop_nest import LoopNest, LoopNests
from ansorc.search.features.operations import (
    OperationFeatures,
    operation_counts,
    operation_features,
)
from ansorc.search.gpu.description import AnalysedKernel, analyse_kernels, seconds_of_kernel
from ansorc.search.gpu.statements import MemorySpace, ThreadAccess, ThreadStatement
from ansorc.search.memo import memoize
from ansorc.target import Target
from ansorc.target.gpu import WARP_THREADS
from ansorc.target.gpu_occupancy import occupancy, resident_blocks


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """The kernel that a statement is in."""

    blocks: FloatArray = field(metadata=LOG)
    """Blocks of the grid."""
    threads: FloatArray = field(metadata=LOG)
    """Threads of a block."""
    virtual_threads: FloatArray = field(metadata=LOG)
    """Virtual threads of a thread."""
    registers: FloatArray
    """Registers of a thread, about."""
    shared_bytes: FloatArray = field(metadata=LOG)
    """Shared memory of a block."""
    resident_blocks: FloatArray
    """Blocks that a multiprocessor holds at a time."""
    occupancy: FloatArray
    """Share of the warps of a multiprocessor that they fill."""
    waves: FloatArray = field(metadata=LOG)
    """Rounds of blocks that all multiprocessors take."""
    last_wave: FloatArray
    """How full the last round is."""
    multiply_adds: FloatArray = field(metadata=LOG)
    """Arithmetic instructions of a thread."""
    matrix_multiply_adds: FloatArray = field(metadata=LOG)
    """Multiply-adds of a warp by matrix units."""
    integer_operations: FloatArray = field(metadata=LOG)
    """Its instructions for indices and loops."""
    special_operations: FloatArray = field(metadata=LOG)
    """Its instructions of the special function units."""
    global_requests: FloatArray = field(metadata=LOG)
    """Its loads and stores of global memory."""
    global_bytes: FloatArray = field(metadata=LOG)
    """Bytes of whole sectors that all blocks ask for."""
    shared_requests: FloatArray = field(metadata=LOG)
    """Its loads and stores of shared memory."""
    shared_wavefronts: FloatArray = field(metadata=LOG)
    """Cycles of the banks that they take."""
    independent: FloatArray = field(metadata=LOG)
    """Multiply-adds in a row of which none needs another's result."""
    steps: FloatArray = field(metadata=LOG)
    """Copies to shared memory, one after the other."""
    intensity: FloatArray = field(metadata=LOG)
    """Arithmetic instructions of all threads for each byte asked of global memory."""


@dataclass(frozen=True, eq=False)
class ThreadStatementFeatures:
    """A statement as one thread executes it."""

    iterations: FloatArray = field(metadata=LOG)
    """How often."""
    serial: FloatArray = field(metadata=LOG)
    """Iterations of the loops that are not copied."""
    results: FloatArray = field(metadata=LOG)
    """Copies inside the innermost loop that is not."""
    is_shared: FloatArray
    """1 if it fills shared memory."""
    is_root: FloatArray
    """1 for the statement that the kernel is named after."""


@dataclass(frozen=True, eq=False)
class GpuAccessFeatures:
    """One tensor that a statement stores or loads; all 0 where it has fewer."""

    is_global: FloatArray
    """1 in global memory."""
    is_shared: FloatArray
    """1 in shared memory."""
    requests: FloatArray = field(metadata=LOG)
    """Instructions of a thread; 0 in registers."""
    width: FloatArray
    """Elements of each."""
    sectors: FloatArray
    """Sectors of 32 bytes that a warp touches with one; 0 unless in global memory."""
    wavefronts: FloatArray
    """Cycles that one takes of the banks of shared memory or of the first-level cache."""
    block_bytes: FloatArray = field(metadata=LOG)
    """Different bytes that a block touches."""
    held: FloatArray = field(metadata=LOG)
    """Elements that a thread has of it at a time."""


@dataclass(frozen=True, eq=False)
class GpuEstimate:
    """About how long a statement takes; the whole kernel's time is that of its root."""

    total_cycles: FloatArray = field(metadata=LOG)
    """Nominal cycles of 1 ns."""


ACCESSES = 5
"""Accesses with features of their own: the store, then the loads of the largest tensors."""


@memoize
def _seconds(nests: LoopNests, target: Target) -> tuple[FloatArray, ...]:
    return tuple(seconds_of_kernel(each.description, target) for each in analyse_kernels(nests))


def _describe(nests: LoopNests, nest: LoopNest, target: Target) -> Iterator[FloatArray]:
    """Yield the columns of one statement in order, the estimate last."""
    _, each, statement = _find(nests, nest)
    rows = nests.rows
    yield from values_of(_kernel_features(each, target, rows))
    yield from values_of(
        ThreadStatementFeatures(
            iterations=statement.iterations, serial=statement.serial, results=statement.results,
            is_shared=np.full(rows, float(statement.stage.scope == "shared")),
            is_root=np.full(rows, float(statement.stage is each.kernel.root)),
        )
    )  # fmt: skip
    threads = np.broadcast_to(each.kernel.blocks * each.kernel.threads, (rows,))
    counts = operation_counts(statement.stage.op)
    yield from values_of(operation_features(counts, statement.iterations * threads))
    store, *loads = statement.accesses
    loads.sort(key=lambda access: -access.buffer.bytes)
    chosen = [store, *loads][:ACCESSES]
    for access in chosen:
        yield from values_of(_access_features(access))
    missing = (ACCESSES - len(chosen)) * len(columns_of(GpuAccessFeatures, ""))
    yield from [np.zeros(rows)] * missing
    yield _estimate(nests, nest, target)


def _estimate(nests: LoopNests, nest: LoopNest, target: Target) -> FloatArray:
    """Return [rows]: the cycles of 1 ns of the kernel whose root is the stage of `nest`, else 0."""
    number, each, statement = _find(nests, nest)
    if statement.stage is not each.kernel.root:
        return np.zeros(nests.rows)
    return np.minimum(_seconds(nests, target)[number], 1e3) * 1e9


def _find(nests: LoopNests, nest: LoopNest) -> tuple[int, AnalysedKernel, ThreadStatement]:
    """Return the kernel of the stage of `nest`, its number, and the statement."""
    for number, each in enumerate(analyse_kernels(nests)):
        for statement in each.statements:
            if statement.stage.name == nest.stage.name:
                return number, each, statement
    raise KeyError(nest.stage.name)


def _kernel_features(each: AnalysedKernel, target: Target, rows: int) -> KernelFeatures:
    """Return the features of a kernel for all `rows`."""
    kernel, machine = each.description, target.gpu.architecture
    taken = (kernel.threads, kernel.registers, kernel.shared_bytes)
    resident = resident_blocks(machine, *taken)
    blocks = np.broadcast_to(np.prod(np.broadcast_arrays(*kernel.grid), axis=0), (rows,))
    rounds = blocks / (target.gpu.multiprocessors * np.maximum(resident, 1))
    warps = blocks * -(-kernel.threads // WARP_THREADS)
    asked = [access.requests * access.sectors * 32.0 for access in kernel.global_accesses]
    moved = _total(asked, rows) * warps
    banks = [access.requests * access.wavefronts for access in kernel.shared_accesses]
    return KernelFeatures(
        blocks=blocks, threads=np.asarray(kernel.threads),
        virtual_threads=_total([each.kernel.vthreads], rows),
        registers=np.asarray(kernel.registers), shared_bytes=np.asarray(kernel.shared_bytes),
        resident_blocks=_total([resident], rows), occupancy=occupancy(machine, *taken),
        waves=rounds,
        last_wave=rounds / np.ceil(rounds), multiply_adds=np.asarray(kernel.multiply_adds),
        matrix_multiply_adds=np.asarray(kernel.matrix_multiply_adds),
        integer_operations=np.asarray(kernel.integer_operations),
        special_operations=np.asarray(kernel.special_operations),
        global_requests=_total([a.requests for a in kernel.global_accesses], rows),
        global_bytes=moved,
        shared_requests=_total([a.requests for a in kernel.shared_accesses], rows),
        shared_wavefronts=_total(banks, rows), independent=np.asarray(kernel.independent),
        steps=np.asarray(kernel.steps),
        intensity=kernel.multiply_adds * warps * 32 / np.maximum(moved, 1),
    )  # fmt: skip


def _total(numbers: Sequence[Any], rows: int) -> FloatArray:
    return np.sum([np.broadcast_to(each, (rows,)) for each in numbers], axis=0) + np.zeros(rows)


def _access_features(access: ThreadAccess) -> GpuAccessFeatures:
    """Return the features of one access."""
    rows = access.statement.rows
    is_global, is_shared = access.is_in(MemorySpace.GLOBAL), access.is_in(MemorySpace.SHARED)
    is_memory = float(is_global or is_shared)
    return GpuAccessFeatures(
        is_global=np.full(rows, float(is_global)),
        is_shared=np.full(rows, float(is_shared)),
        requests=access.requests * is_memory,
        width=access.width * is_memory,
        sectors=access.sectors if is_global else np.zeros(rows),
        wavefronts=access.wavefronts if is_memory else np.zeros(rows),
        block_bytes=access.block_elements * access.buffer.dtype.bytes,
        held=access.registers,
    )


_OTHERS = (
    *columns_of(KernelFeatures, "kernel"),
    *columns_of(ThreadStatementFeatures, "thread"),
    *columns_of(OperationFeatures, "operations"),
    *(c for place in range(ACCESSES) for c in columns_of(GpuAccessFeatures, f"access{place}")),
)
"""All columns but the estimate."""
(_ESTIMATE,) = columns_of(GpuEstimate, "estimate")
GPU_FEATURES = estimating_set("gpu", 6, _OTHERS, _ESTIMATE, _describe)
