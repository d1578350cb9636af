"""The kernels of a population as `KernelDescription`s, which the model of a GPU makes times of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from ansorc.ir.operator import MATRIX_FUNCTIONS
from ansorc.ir.passes.gpu.pipeline_shared_copies import is_copy
from ansorc.ir.substitute import free_vars
from ansorc.schedule.extent import BoolArray, Extent, IntArray
from ansorc.schedule.stage import Mark
from ansorc.schedule.state import State
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.features.operations import operation_counts
from ansorc.search.gpu.kernels import REGISTER_BYTES, ThreadKernel, kernels_of, stages_of
from ansorc.search.gpu.statements import (
    Floats,
    LoopRole,
    MemorySpace,
    ThreadAccess,
    ThreadStatement,
)
from ansorc.search.memo import memoize
from ansorc.target import Target
from ansorc.target.code_facts import ASYNC_COPY_BYTES, JOINED_RESULTS
from ansorc.target.gpu import WARP_THREADS
from ansorc.target.gpu_kernel import GlobalAccess, KernelDescription, SharedAccess, as_floats
from ansorc.target.gpu_model import MATRIX_STEP, seconds

SPECIAL_OPERATIONS = 2
"""Instructions of the special function units for one call, such as exp or a division."""
CALL_OPERATIONS = 12
"""Further ones of the other lanes."""
LOOP_OPERATIONS = 2
"""Operations of each iteration of a loop that is not unrolled: a count and a jump."""
ADDRESS_OPERATIONS = 2
"""Operations of each access to memory."""
GUARD_OPERATIONS = 2
"""Operations of each result that may lie beyond the extent."""
EXCHANGE_OPERATIONS = 4
"""For each vector that a thread gives others: three of four choose, one exchanges."""
LOADS_TOGETHER = 2.0
"""Loads of a copy that the compiler has a thread begin before it waits for the first, where they
pass registers."""
SECTOR_BYTES = 32
INSTRUCTION_BYTES = 16
SHARED_BYTES = 128
"""Bytes of shared memory in a cycle of the banks."""
MATRICES = 4
"""Loaded by one instruction, each in a cycle of the banks."""
_MATRIX_DTYPES: dict[str, Literal["float16", "bfloat16", "tfloat32", "int8"]] = {
    "mma_f16": "float16", "mma_bf16": "bfloat16", "mma_tf32": "tfloat32", "mma_s8": "int8",
}  # fmt: skip


def descriptions(
    state: State, rows: int, choices: Mapping[str, Extent] | None = None
) -> tuple[KernelDescription, ...]:
    """Return the kernels of the `rows` programs that `state` stands for, in their order."""
    nests = LoopNests(state, rows, {} if choices is None else choices)
    return tuple(each.description for each in analyse_kernels(nests))


@dataclass(frozen=True, eq=False)
class AnalysedKernel:
    """A kernel, its statements, producers first, and what they come to."""

    kernel: ThreadKernel
    statements: tuple[ThreadStatement, ...]
    description: KernelDescription


@memoize
def analyse_kernels(nests: LoopNests) -> tuple[AnalysedKernel, ...]:
    """Return the kernels of the programs of `nests`, in their order."""
    return tuple(_analyse(nests, kernel) for kernel in kernels_of(nests.state))


def _analyse(nests: LoopNests, kernel: ThreadKernel) -> AnalysedKernel:
    statements = tuple(ThreadStatement(nests, stage) for stage in kernel.stages)
    return AnalysedKernel(kernel, statements, _description(kernel, statements))


def _description(kernel: ThreadKernel, statements: Sequence[ThreadStatement]) -> KernelDescription:
    """Return the description of a kernel, added up over its statements."""
    rows = statements[0].rows
    root = statements[-1]
    accesses = [access for statement in statements for access in statement.accesses]
    in_global = [access for access in accesses if access.is_in(MemorySpace.GLOBAL)]
    shared = [request for each in statements for request in _list_shared_accesses(each, kernel)]
    private = [each for each in statements if each.stage.scope != "shared"]
    loading = [each for each in private if _loads_global(each)]
    copies = [_around(each) for each in statements if each.stage.scope == "shared"]
    active = [each for each in statements if operation_counts(each.stage.op).total]
    requests = (as_floats(request.requests) for request in (*in_global, *shared))
    addresses = ADDRESS_OPERATIONS * _sum(requests, rows)
    functions = [function for each in statements if (function := _matrix_function(each))]
    excess = _excess(root, kernel.threads)
    is_part = root.product(LoopRole.THREAD) > kernel.threads
    grid = _grid(root, excess)
    return KernelDescription(
        grid=grid,
        threads=_row(kernel.threads, rows),
        registers=_row(kernel.registers, rows),
        shared_bytes=_row(kernel.shared_bytes, rows),
        multiply_adds=_sum(map(_arithmetic, statements), rows),
        integer_operations=_sum((_integers(each, is_part) for each in statements), rows)
        + addresses
        + EXCHANGE_OPERATIONS * _sum((a.requests * (_exchanging(a) > 1) for a in in_global), rows),
        global_accesses=tuple(
            _global(access, root, excess, len(grid), bypasses=kernel.is_by_matrix_units)
            for access in in_global
        ),
        shared_accesses=tuple(shared),
        independent=_most((each.results for each in active), rows, 1.0),
        steps=_most(copies, rows, 1.0),
        stages=float(max((stages_of(kernel.state, each) for each in kernel.inside), default=1)),
        waits=_most((each.serial for each in private), rows, 1.0),
        global_waits=_most((each.serial for each in loading), rows, 0.0),
        barriers=2 * _most(copies, rows, 0.0),
        special_operations=_sum(map(_special, statements), rows),
        matrix_multiply_adds=_sum(map(_matrix_multiply_adds, statements), rows),
        matrix_dtype=_MATRIX_DTYPES[functions[0]] if functions else "float16",
        code_bytes=INSTRUCTION_BYTES * _most(map(_code, statements), rows, 0.0),
    )


def _sum(numbers: Iterable[Floats], rows: int) -> Floats:
    return sum(numbers, np.zeros(rows))


def _most(numbers: Iterable[Floats], rows: int, least: float) -> Floats:
    return reduce(np.maximum, numbers, np.full(rows, least))


def _loads_global(statement: ThreadStatement) -> bool:
    """Return whether the statement loads from global memory."""
    return any(a.is_in(MemorySpace.GLOBAL) and not a.is_store for a in statement.accesses)


def _matrix_function(statement: ThreadStatement) -> str:
    """Return the function of the matrix units that the statement uses, empty for none."""
    marked = [it for it in statement.stage.iterators if it.mark is Mark.MATRIX]
    return marked[0].function if marked else ""


def _matrix_multiply_adds(statement: ThreadStatement) -> Floats:
    """Return the multiply-adds of a whole warp by matrix units."""
    is_by_units = bool(_matrix_function(statement))
    return statement.iterations * (WARP_THREADS if is_by_units else 0)


def _arithmetic(statement: ThreadStatement) -> Floats:
    """Return the floating-point instructions of one thread."""
    if _matrix_function(statement):
        return np.zeros(statement.rows)
    counts = operation_counts(statement.stage.op)
    calls = counts.called + counts.divided
    return statement.iterations * (counts.total - counts.fused + (CALL_OPERATIONS - 1) * calls)


def _special(statement: ThreadStatement) -> Floats:
    """Return the instructions of one thread for the special function units."""
    counts = operation_counts(statement.stage.op)
    return statement.iterations * SPECIAL_OPERATIONS * (counts.called + counts.divided)


def _code(statement: ThreadStatement) -> Floats:
    """Return the instructions in the code of a statement, with its copies."""
    requests = [access.requests for access in statement.accesses]
    by_units = _matrix_multiply_adds(statement) / MATRIX_STEP
    requests = requests[:1] if _matrix_function(statement) else requests
    executed = _sum((_arithmetic(statement), by_units, *requests), statement.rows)
    return executed / statement.serial


def _integers(statement: ThreadStatement, is_part: BoolArray) -> Floats:
    """Return the instructions of one thread for indices and loops, without addresses.

    With `is_part` the threads of a block are a part of fused axes, so no guard is needed.
    """
    if _matrix_function(statement):
        return statement.serial * LOOP_OPERATIONS
    counts = operation_counts(statement.stage.op)
    guards = np.where(is_part, 0, _guards(statement))
    each = counts.integer + counts.selected + guards
    return statement.iterations * each + statement.serial * LOOP_OPERATIONS


def _row(values: IntArray, rows: int) -> IntArray:
    return np.broadcast_to(values, (rows,))


def _excess(root: ThreadStatement, threads: IntArray) -> dict[int, Floats]:
    """Return how many threads each thread loop would make, as a multiple of those of a block.

    Threads over fused axes have a part of the slowest digit that they reach, which is rounded up:
    64 of rows of 28 are 3 rows.
    """
    factors: dict[int, Floats] = {}
    left = np.maximum(1, root.product(LoopRole.THREAD) / threads)
    for loop, role in enumerate(root.roles):
        if role is LoopRole.THREAD:
            is_it = root.nest.loops[loop].extent > 1
            factors[loop] = np.where(is_it, left, 1.0)
            left = np.where(is_it, 1.0, left)
    return factors


def _grid(root: ThreadStatement, excess: Mapping[int, Floats]) -> tuple[Floats, ...]:
    """Return the extents of the loops that blocks run over, the fastest first."""
    places = [loop for loop, role in enumerate(root.roles) if role is LoopRole.BLOCK]
    extents = [root.nest.loops[loop].extent.astype(np.float64) for loop in places]
    axes = [_axis(root, loop) for loop in places]
    extents, axes = (extents, axes) if axes else ([np.ones(root.rows)], [""])
    beyond = _beyond(root)
    for loop, more in excess.items():
        axis = _axis(root, loop)
        dimension = axes.index(axis) if axis in axes else 0
        extents[dimension] = extents[dimension] * np.where(more > 1, more / beyond, 1.0)
    return tuple(reversed(extents))


def _axis(statement: ThreadStatement, loop: int) -> str:
    """Return the axis that a loop moves along, empty for none."""
    nest = statement.nest
    return next((axis for axis in statement.extents if nest.axes[axis][loop] is not None), "")


def _beyond(statement: ThreadStatement) -> Floats:
    """Return by which factor the rounded loops compute more results than there are."""
    share = np.ones(statement.rows)
    for axis, extent in statement.extents.items():
        for loop, step in zip(statement.nest.loops, statement.nest.axes[axis], strict=True):
            share = share if step is None else share * loop.extent
        share = share / extent
    return share


def _around(statement: ThreadStatement) -> Floats:
    """Return how often a block makes a copy."""
    times = np.ones(statement.rows)
    loops = statement.nest.loops[: statement.nest.own]
    for loop, role in zip(loops, statement.roles, strict=False):
        times = times * loop.extent if role is LoopRole.LOOP else times
    return times


def _guards(statement: ThreadStatement) -> Floats:
    """Return the operations that guard results of tiles beyond the extents."""
    operations = np.zeros(statement.rows)
    stage, nest = statement.stage, statement.nest
    terms = {axis.name: axis.extent for axis in stage.op.reduce_axes}
    for axis, extent in (*statement.extents.items(), *terms.items()):
        covered = np.ones(statement.rows)
        for loop, step in zip(nest.loops, nest.axes[axis], strict=True):
            covered = covered if step is None else covered * loop.extent
        is_ragged = (covered != extent) & (stage.scope != "shared")
        operations = operations + np.where(is_ragged, GUARD_OPERATIONS, 0)
    return operations


def _global(
    access: ThreadAccess,
    root: ThreadStatement,
    excess: Mapping[int, Floats],
    dimensions: int,
    *,
    bypasses: bool,
) -> GlobalAccess:
    """Return the access of a statement to global memory, in a grid of so many dimensions.

    With `bypasses` copies are not kept in the first-level cache, so its banks do not matter.
    """
    lanes = np.minimum(32, access.statement.product(LoopRole.THREAD))
    exchanging = _exchanging(access)
    each = access.width * exchanging * access.buffer.dtype.bytes
    touched = np.where(exchanging > 1, lanes * each / SECTOR_BYTES, access.sectors)
    asked = touched * SECTOR_BYTES / np.maximum(1, lanes * each)
    is_ahead = stages_of(access.statement.nests.state, access.statement.stage) > 1
    is_alone = _is_asynchronous(access)
    elements = access.block_elements
    if access.statement is root:
        for number, times in excess.items():
            is_moved = any(move is not None for move in access.moved[number])
            elements = elements / times if is_moved else elements
    depends = access.depends_on
    depends = (*depends, *[np.zeros(access.statement.rows)] * (dimensions - len(depends)))
    return GlobalAccess(
        requests=access.requests / exchanging,
        sectors=touched,
        wavefronts=np.where((is_ahead | is_alone) & bypasses, 0.0, access.wavefronts),
        block_bytes=elements * access.buffer.dtype.bytes * np.maximum(1, asked),
        depends_on=depends[:dimensions],
        is_store=access.is_store,
        tensor=access.part_of,
        tensor_bytes=access.buffer.bytes * np.maximum(1, asked),
        is_asynchronous=is_ahead | is_alone,
        waits=0.0 if is_ahead else _waits(access),
    )


def _is_asynchronous(access: ThreadAccess) -> BoolArray:
    """Return [rows]: whether an asynchronous copy moves what is loaded to shared memory."""
    stage, size = access.statement.stage, access.width * access.buffer.dtype.bytes
    is_shared = stage.scope == "shared" and not access.is_store
    is_fitting = reduce(np.bitwise_or, (size == bytes for bytes in ASYNC_COPY_BYTES))
    return is_fitting & (is_shared and is_copy(stage.op.body))


def _waits(access: ThreadAccess) -> Floats:
    """Return [rows]: how often a thread waits for what it copies, besides once in each step."""
    if access.statement.stage.scope != "shared":
        return np.zeros(access.statement.rows)
    return np.maximum(0.0, access.requests / LOADS_TOGETHER - _around(access.statement))


def _exchanging(access: ThreadAccess) -> IntArray:
    """Return [rows]: neighbours that exchange what they store, for longer vectors.

    See `join_stores`.
    """
    ones = np.ones(access.statement.rows, dtype=np.int64)
    if not access.is_store or not access.is_in(MemorySpace.GLOBAL) or not access.lanes:
        return ones
    if not access.sizes:
        return ones  # a tensor without dimensions
    extent, step = access.lanes[-1]
    size = access.width * access.buffer.dtype.bytes
    pays = (access.width > 1) & (size <= REGISTER_BYTES) & (step == access.width)
    pays = pays & (extent % JOINED_RESULTS[0] == 0) & (extent * size < SECTOR_BYTES)
    vectors = access.sizes[-1].astype(np.int64) // access.width
    return np.where(pays, np.gcd(vectors, JOINED_RESULTS[0]), ones)


def _list_shared_accesses(
    statement: ThreadStatement, kernel: ThreadKernel
) -> Iterator[SharedAccess]:
    """Yield the accesses of a statement to shared memory.

    Around matrix units no bank conflicts occur (`pad_shared`).
    """
    function = _matrix_function(statement)
    for access in statement.accesses:
        if not access.is_in(MemorySpace.SHARED):
            continue
        if function:
            yield SharedAccess(_matrix_loads(access, function), MATRICES)
        elif kernel.is_by_matrix_units:
            cycles = access.width * access.buffer.dtype.bytes * WARP_THREADS / SHARED_BYTES
            yield SharedAccess(access.requests, np.maximum(1, cycles), access.is_store)
        else:
            yield SharedAccess(access.requests, access.wavefronts, access.is_store)


def _matrix_loads(access: ThreadAccess, function: str) -> Floats:
    """Return the loads of four matrices each.

    Each loads 16 rows, or 16 columns, with the terms of one step.
    """
    statement = access.statement
    loads = np.ones(statement.rows)
    op = statement.stage.op
    own_loads = (load for load in op.loads if load.buffer.name == access.buffer.name)
    is_column = any(
        op.axes[-1].name in free_vars(index) for load in own_loads for index in load.indices
    )
    for number, loop in enumerate(statement.nest.loops):
        is_moved = loop.is_reduce or access.steps[number] is not None
        if statement.roles[number] is LoopRole.LOOP and is_moved:
            loads = loads * loop.extent
    return loads / MATRIX_FUNCTIONS[function] / (MATRICES if is_column else MATRICES // 2)


def seconds_of_kernel(kernel: KernelDescription, target: Target) -> Floats:
    """Return [rows]: the estimated seconds, infinite where a kernel cannot be launched."""
    return seconds(kernel, target.gpu)
