"""EstimateFeatures: about how long a statement takes, by counting what the machine can overlap.

A roofline with one roof for each of: arithmetic, load ports, the latency of sums, and the bandwidth
below each cache level (`ansorc.target.costs`). What matters is the order of programs, and the
trained model corrects the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from ansorc.ir.dtype import INT16
from ansorc.ir.expr import dtype_of
from ansorc.ir.operator import DOT_FUNCTIONS
from ansorc.ir.passes.lane_groups import vector_pieces
from ansorc.schedule.dot_body import PAIRS, factors
from ansorc.schedule.extent import as_array
from ansorc.schedule.stage import At, AxisKind, Mark, Stage
from ansorc.schedule.state import State
from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.loops import LoopFeatures
from ansorc.search.features.memory import CacheFeatures
from ansorc.search.features.operations import OperationCounts, chain_length
from ansorc.search.features.registers import RegisterFeatures
from ansorc.target import Target
from ansorc.target.costs import CoreCosts
from ansorc.target.dot_products import DotProduct, dot_products
from ansorc.target.matrix_units import MATRIX_UNITS, MatrixUnit


@dataclass(frozen=True, eq=False)
class EstimateFeatures:
    """Times of one statement in cycles; those of the cores for the busiest core."""

    arithmetic_cycles: FloatArray = field(metadata=LOG)
    """Arithmetic, loads and stores of the vector instructions, with the latency of sums."""
    l1_cycles: FloatArray = field(metadata=LOG)
    """Moving bytes between the first and the second cache level."""
    l2_cycles: FloatArray = field(metadata=LOG)
    """Moving bytes between the second and the third level."""
    l3_cycles: FloatArray = field(metadata=LOG)
    """Moving bytes between the third level and memory."""
    total_cycles: FloatArray = field(metadata=LOG)
    """All of it, the starting of the cores included."""
    efficiency: FloatArray
    """Cycles that the float operations need at the machine's peak, as a share of the total."""


@dataclass(frozen=True, eq=False)
class Conversions:
    """What a sum of products of 16-bit floats does where it loads its factors."""

    factors: int
    """The factors that it widens."""
    instructions: FloatArray
    """Instructions for those loads of one step."""


def estimate_features(
    state: State,
    stage: Stage,
    counts: OperationCounts,
    loops: LoopFeatures,
    registers: RegisterFeatures,
    caches: CacheFeatures,
    conversions: Conversions,
    target: Target,
) -> EstimateFeatures:
    """Return the estimates of a statement that does `counts` in each iteration."""
    costs = target.costs
    cores = loops.parallel_extent / np.ceil(loops.parallel_extent / target.cores)
    mark = stage.iterators[-1].mark if stage.iterators else Mark.NONE
    if mark is Mark.TENSORIZE:
        steps = _dot_products(state, stage, target)
    elif mark is Mark.MATRIX and (unit := _unit_of(stage)) is not None:
        steps = _tile_products(state, stage, unit, target)
    else:
        steps = _arithmetic(stage, counts, registers, conversions, target)
    arithmetic = steps / cores
    l1 = _bytes_moved(caches.l1_bytes, caches.l1_iterations, loops) / costs.fill_bytes[0] / cores
    begun = costs.piece * _bytes_moved(caches.l2_pieces, caches.l2_iterations, loops)
    l2 = _bytes_moved(caches.l2_bytes, caches.l2_iterations, loops) / costs.fill_bytes[1] / cores
    l3 = _bytes_moved(caches.l3_bytes, caches.l3_iterations, loops) / costs.memory_bytes
    roofs = (arithmetic, l1, l2, l3)
    highest = reduce(np.maximum, roofs)
    total = highest + costs.overlap * (sum(roofs[1:], roofs[0]) - highest)
    total = total + begun / cores + costs.fork * loops.parallel_starts
    lanes = target.vector_bytes / 4
    peak = loops.iterations * counts.total / (2 * target.vector_ports * lanes * target.cores)
    return EstimateFeatures(arithmetic, l1, l2, l3, total, np.minimum(peak / total, 1))


def _bytes_moved(moved: FloatArray, inside: FloatArray, loops: LoopFeatures) -> FloatArray:
    """Bytes moved into a level: none where it keeps all that the statement touches between runs."""
    return np.where(inside >= loops.iterations, 0, moved)


def _has_loads(stage: Stage, target: Target) -> bool:
    """Whether loads are instructions of their own: on x86 those that widen narrow numbers."""
    width = stage.op.buffer.dtype.bits
    return not target.is_x86 or any(1 < buffer.dtype.bits < width for buffer in stage.op.reads)


def _arithmetic(
    stage: Stage, counts: OperationCounts, registers: RegisterFeatures, conversions: Conversions,
    target: Target,
) -> FloatArray:  # fmt: skip
    """Cycles of one core for all steps of the statement of `stage`."""
    has_loads, is_scan = _has_loads(stage, target), stage.op.scan is not None
    costs = target.costs
    ports = target.vector_ports
    vectors = registers.vectors
    in_registers = registers.is_promoted > 0
    busy = (counts.vector_instructions(costs) - conversions.factors) * vectors
    busy = busy + conversions.instructions
    stores = np.where(in_registers & (not is_scan), 0, vectors * (1 + 7 * registers.scattered))
    control = costs.step_instructions * (busy + vectors + registers.loads) / registers.step_code
    latency = _latency(registers, busy + registers.loads + control, costs)
    latency = latency * chain_length(stage.op) if is_scan else latency
    is_late = np.maximum(registers.step_code / costs.code_limit, 1)
    limits = [busy / ports, registers.reloads / ports, stores, latency]
    if has_loads:  # where arithmetic does not read memory, loads take the place of it
        together = ports if target.is_x86 else costs.instructions
        limits.append((busy + registers.reloads) / together)
    step = np.maximum.reduce(limits) * is_late
    step = step + control / costs.scalar_ports + _spilling(registers, target, has_loads=has_loads)
    results = np.where(registers.sums_in_lanes > 0, registers.sums + costs.combine_lanes, vectors)
    tile = costs.tile + np.where(in_registers, results, 0)
    cycles = registers.steps * step + registers.tiles * tile
    direct = registers.steps * np.maximum(busy / ports, stores)
    return np.where(registers.is_read_out > 0, direct, cycles)


def _spilling(registers: RegisterFeatures, target: Target, *, has_loads: bool) -> FloatArray:
    """Cycles of a step for what does not stay in registers: sums first need their neighbours.

    Where arithmetic reads no memory, a step has its operands in registers, and some of the next.
    """
    costs = target.costs
    spilled = costs.spill * registers.spilled
    beside = registers.reloads if has_loads else (costs.crowding - 1) * registers.sums
    crowded = registers.sums + beside + 1 - target.vector_registers
    return np.where(registers.is_promoted > 0, np.maximum(spilled, crowded), spilled)


def _latency(registers: RegisterFeatures, instructions: FloatArray, costs: CoreCosts) -> FloatArray:
    """Cycles that a step of so many instructions waits for the sums that it adds to."""
    share = registers.sums_beside / registers.sums
    overlap = np.maximum(costs.window / (registers.beside_terms * instructions * share), 1)
    is_kept = (registers.is_promoted > 0) & (registers.spilled == 0)
    chain = np.where(registers.sums_in_lanes > 0, registers.vectors / registers.sums, 1) / share
    latency = np.where(is_kept, costs.late * costs.add_latency * chain, costs.memory_add_latency)
    return latency / np.where(registers.is_promoted > 0, overlap, registers.sum_distance)


def _dot_products(state: State, stage: Stage, target: Target) -> FloatArray:
    """Cycles of one core where an instruction does the innermost loop of `stage`."""
    costs = target.costs
    lanes = target.vector_bytes // stage.op.buffer.dtype.bytes
    is_masked = target.masks_remainders(in_registers=True)
    rows = vectors = visits = repeats = np.asarray(1, dtype=np.int64)
    around = [iterator for _, iterator in state.around(stage)]
    for iterator in (*around, *stage.iterators[:-1]):
        extent = as_array(iterator.extent)
        if iterator.mark is Mark.UNROLL:
            rows = rows * extent
        elif iterator.mark is Mark.VECTORIZE:
            vectors = vectors * vector_pieces(extent, lanes, is_masked=is_masked)
        elif iterator.kind is AxisKind.REDUCE:
            repeats = repeats * extent
        else:
            visits = visits * extent
    dots = rows * vectors
    instruction = _instruction(stage, target)
    is_added = instruction is None or instruction.adds
    if instruction is None or instruction.adds:
        busy = np.maximum(dots, rows + vectors) / target.vector_ports
        busy, kept = np.maximum(busy, costs.dot_latency), 1
    else:  # only the addition waits for the sums
        parts = 2 * dots if instruction.in_pairs else dots
        busy = costs.dot_in_two * (parts + rows + vectors) / target.vector_ports
        kept = np.where(vectors > 1, 2, 1)
    spilled = np.maximum(0, dots + vectors + kept - target.vector_registers)
    busy = busy + costs.dot_spill * spilled + costs.loop
    is_laid_out = any(buffer.name in state.rewritten for buffer in stage.op.reads)
    if not _reads_panel(state, stage) and (is_added or not is_laid_out):
        busy = busy + costs.far_load * vectors
    return visits * (repeats * busy + 2.0 * dots + costs.dot_visit)


def _instruction(stage: Stage, target: Target) -> DotProduct | None:
    """Return the instruction of the dot product of `stage`; None if the target has none."""
    pair, function = factors(stage.op.body), stage.iterators[-1].function
    assert pair is not None, "the step has checked it"
    terms, left, right = DOT_FUNCTIONS[function], *(dtype_of(factor) for factor in pair)
    if function == "dot2" and left.is_integer:
        left = right = INT16
    found = dot_products(target, terms, left.name, right.name, in_pairs=function == PAIRS)
    return found[0] if found else None


def _tile_products(state: State, stage: Stage, unit: MatrixUnit, target: Target) -> FloatArray:
    """Cycles of one core where a matrix unit computes tiles of `stage`.

    Its products wait for each other, for the sums that they add to, or for the loads of tiles.
    """
    costs = target.costs
    tall = wide = visits = repeats = np.asarray(1, dtype=np.int64)
    space = [it for it in stage.iterators if it.kind is AxisKind.SPACE]
    row, column = space[-2:]
    own = stage.iterators[:-1]
    outside = [it for _, it in state.around(stage)]
    if len(space) > len(stage.op.axes):  # in blocks of terms: what is outside of the loop of tiles
        outside += own[: own.index(space[-3]) + 1]
    for iterator in (*outside, *(it for it in own if it not in outside)):
        extent = as_array(iterator.extent)
        is_inside = iterator not in outside
        if is_inside and iterator.kind is AxisKind.REDUCE:
            repeats = repeats * extent
        elif iterator is row:
            tall = -(-extent // unit.rows)
        elif iterator is column:
            wide = -(-extent // unit.columns)
        else:
            visits = visits * extent
    groups = next(it for it in reversed(own) if it.kind is AxisKind.REDUCE)
    repeats = repeats // as_array(groups.extent)
    step = np.maximum(unit.cycles * tall * wide, costs.tile_load * (tall + wide))
    step = np.maximum(step, unit.latency)
    return visits * (repeats * step + 2.0 * unit.rows * tall * wide + costs.tile_visit)


def _unit_of(stage: Stage) -> MatrixUnit | None:
    """Return a unit of CPUs that computes the innermost loop of `stage`, if it is one of theirs."""
    function = stage.iterators[-1].function
    return next((unit for unit in MATRIX_UNITS if unit.function == function), None)


def _reads_panel(state: State, stage: Stage) -> bool:
    """Whether an operand was copied to, or computed in, a place inside the loops."""
    inner = {s.name for s in state.stages if isinstance(s.attach, At) and s is not stage}
    return any(buffer.name in inner for buffer in stage.op.reads)
