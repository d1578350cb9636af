"""A rough time for every program of a population, from first principles and without any data.

For each stage it adds up the cycles of the register tile (arithmetic, loads, latency, spills), of
filling and emptying it, and of moving data into each cache. It serves the untuned default only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import affine
from ansorc.ir.expr import Call, Expr
from ansorc.ir.passes.lane_groups import vector_pieces
from ansorc.ir.passes.vectorize_reductions import INDEPENDENT_SUMS
from ansorc.ir.substitute import free_vars
from ansorc.lang.flops import op_flops
from ansorc.schedule.extent import Extent, as_array
from ansorc.schedule.stage import IteratorKind, Mark, Stage
from ansorc.schedule.state import State
from ansorc.search.dot_estimate import dot_cycles, is_tensorized
from ansorc.search.features.operations import CALL_INSTRUCTIONS
from ansorc.search.footprint import footprints
from ansorc.target import Target

Cycles = npt.NDArray[np.float64]
Number = npt.NDArray[np.int64]
FLOPS_PER_CYCLE = 4.0
"""Vector operations that one core starts in a cycle: two multiply-adds."""
LOADS_PER_CYCLE = 2.0
GATHERED = 3
"""Loads that each element of a vector counts as, if they do not adjoin: to put it in its place
takes instructions besides the load."""
INSTRUCTIONS_PER_CYCLE = 4.0
LATENCY = 4.0
"""Cycles until the result of an addition can be added to again."""
CALL_INSTRUCTIONS_PER_CYCLE = 2.0
"""Instructions of `exp`, `tanh`, … that one core starts in a cycle."""
OTHER_CALL_INSTRUCTIONS = 10
"""What a root counts as; the rounding functions are cheaper, and rare."""
LOOP_CYCLES = 1.0
VISIT_CYCLES = 10.0
"""Cycles lost where a register tile begins and ends, besides loading and storing it."""
FILL_BYTES_PER_CYCLE = (32.0, 12.0, 4.0)
"""Bytes per cycle into the first cache, into the second, and from memory."""
FORK_CYCLES = 15_000.0
"""Cycles to wake the threads and to wait for them."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """What one iteration of the innermost, marked loops of a stage does, one number a row."""

    elements: Number
    """Elements computed."""
    vectors: Number
    """Vectors that hold them."""
    loads: Number
    """Vectors or scalars read for them."""
    operands: Number
    """Vectors read along the vectorised loop, which stay in registers beside the results."""
    sums: Number
    """Vectors of results or sums that are kept in registers."""


def stage_cycles(state: State, stage: Stage, target: Target, rows: int) -> Cycles:
    """Return [rows]: the cycles of all runs of `stage` on one core."""
    op = stage.op
    if is_tensorized(stage):
        return np.broadcast_to(dot_cycles(state, stage, target), rows)
    inner = _lanes(stage, target, rows, state.rewritten)
    around = [iterator for _, iterator in state.around(stage)]
    loops = [it.extent for it in (*around, *stage.iterators)]
    iterations = _product(loops, rows) / inner.elements
    flops = max(1.0, op_flops(op) / prod(a.extent for a in (*op.axes, *op.reduce_axes)))
    names = [node.name for node in op.nodes() if isinstance(node, Call)]
    calls = sum(CALL_INSTRUCTIONS.get(name, OTHER_CALL_INSTRUCTIONS) for name in names)
    calls = calls / CALL_INSTRUCTIONS_PER_CYCLE
    busy = inner.vectors * (flops / FLOPS_PER_CYCLE + calls)
    busy = np.maximum(busy, inner.loads / LOADS_PER_CYCLE)
    if not target.is_x86:  # where arithmetic does not read memory, loads take the place of it
        instructions = inner.vectors * flops / 2 + inner.loads
        busy = np.maximum(busy, instructions / INSTRUCTIONS_PER_CYCLE)
    if op.reduce_axes:
        busy = np.maximum(busy, LATENCY) + _spilled(inner, target)
    total = iterations * (busy + LOOP_CYCLES)
    if op.reduce_axes:
        total += iterations / _kept(stage, rows) * (2 * inner.sums + VISIT_CYCLES)
    return total + _moving(state, stage, target, rows)


def parallel_speed(extents: list[Extent], serial: Cycles, cores: int) -> tuple[Number, Cycles]:
    """Return how many outer loops to fuse and the cycles then, both [rows].

    An uneven last round of chunks and the start of the threads are counted.
    """
    best = serial.copy()
    count = np.zeros(len(serial), dtype=np.int64)
    chunks = np.ones(len(serial), dtype=np.int64)
    for place, extent in enumerate(extents, start=1):
        chunks = chunks * as_array(extent)
        rounds = -(-chunks // cores)
        cycles = serial * rounds / chunks + FORK_CYCLES
        better = cycles < 0.98 * best
        best = np.where(better, cycles, best)
        count = np.where(better, place, count)
    return count, best


def _spilled(inner: Lanes, target: Target) -> Cycles:
    """Cycles of each step for the vectors that the registers cannot hold besides the sums.

    Arithmetic of x86 reads operands from memory; elsewhere they are in registers, and the scheduler
    of LLVM loads some for the step that follows.
    """
    if target.is_x86:
        return np.maximum(0, 1.25 * inner.sums + 1 - target.vector_registers)
    return 2.0 * np.maximum(0, inner.sums + inner.operands + 4 - target.vector_registers)


def _lanes(stage: Stage, target: Target, rows: int, rewritten: tuple[str, ...]) -> Lanes:
    """Vectorised and unrolled loops, those at the end of the loop order."""
    widest = max(buffer.dtype.bytes for buffer in (*stage.op.buffers, *stage.op.reads))
    lanes = max(1, target.vector_bytes // widest)
    is_masked = target.masks_remainders(in_registers=bool(stage.op.reduce_axes))
    parts = stage.parts
    elements = vectors = sums = np.ones(rows, dtype=np.int64)
    marked: list[tuple[str, Number, bool]] = []
    for iterator in stage.iterators:
        if iterator.mark in (Mark.VECTORIZE, Mark.UNROLL):
            extent = as_array(iterator.extent)
            is_vector = iterator.mark is Mark.VECTORIZE
            marked.append((parts[iterator.name][0].axis, extent, is_vector))
            elements = elements * extent
            pieces = vector_pieces(extent, lanes, is_masked=is_masked) if is_vector else extent
            vectors = vectors * pieces
            in_lanes = is_vector and iterator.kind is IteratorKind.REDUCE
            kept = np.maximum(1, INDEPENDENT_SUMS // sums) if in_lanes else pieces
            sums = sums * np.minimum(kept, pieces)
    loads = operands = np.zeros(rows, dtype=np.int64)
    terms = {axis.name for axis in stage.op.reduce_axes}
    for node in stage.op.loads:
        count = np.ones(rows, dtype=np.int64)
        for axis, extent, is_vector in marked:
            if any(axis in free_vars(index) for index in node.indices):
                is_row = node.buffer.name in rewritten or _coefficient(node.indices[-1], axis) == 1
                is_along = is_vector and is_row
                scalars = extent * GATHERED if is_vector else extent
                pieces = vector_pieces(extent, lanes, is_masked=is_masked) if is_along else scalars
                held = np.minimum(pieces, INDEPENDENT_SUMS) if axis in terms else pieces
                operands = operands + (held if is_along else 0)
                count = count * pieces
        loads = loads + count
    return Lanes(elements, vectors, loads, operands, sums)


def _kept(stage: Stage, rows: int) -> Number:
    """Iterations of the reduce loops across which the register tile stays in registers."""
    kept = np.ones(rows, dtype=np.int64)
    alive = np.ones(rows, dtype=bool)
    for iterator in reversed(stage.iterators):
        if iterator.mark in (Mark.VECTORIZE, Mark.UNROLL):
            continue
        extent = as_array(iterator.extent)
        if iterator.kind is IteratorKind.REDUCE:
            kept = np.where(alive, kept * extent, kept)
        else:
            alive &= extent == 1
    return kept


def _moving(state: State, stage: Stage, target: Target, rows: int) -> Cycles:
    """Cycles to move what the stage touches into each cache.

    A loop whose data fits a cache loads them once for each run of the loop.
    """
    fits: list[Cycles] = [np.full(rows, np.inf) for _ in target.cache_bytes]
    for runs, boxes in footprints(state, stage, rows):
        touched = np.sum([box.moved for box in boxes], axis=0)
        for level, size in enumerate(target.cache_bytes):
            needs = (box.held(size, is_first=level == 0) for box in boxes)
            held = np.max([touched, *needs], axis=0)
            fits[level] = np.where(
                held <= size, np.minimum(fits[level], runs * touched), fits[level]
            )
    total = np.zeros(rows)
    for moved, speed in zip(fits, FILL_BYTES_PER_CYCLE, strict=True):
        total += np.where(np.isfinite(moved), moved, 0) / speed
    return total


def _product(extents: list[Extent] | list[Number], rows: int) -> Cycles:
    total = np.ones(rows)
    for extent in extents:
        total = total * as_array(extent)
    return total


def _coefficient(index: Expr, axis: str) -> int:
    form = affine(index)
    return 0 if form is None else form.coefficient(axis)
