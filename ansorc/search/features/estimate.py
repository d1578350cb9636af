"""EstimateFeatures: about how long a statement takes, by counting what the machine can overlap.

A roofline with one roof for each of: arithmetic, load ports, the latency of sums, and the bandwidth
below each cache level. The constants are those of current desktop and server cores; what matters is
the order of programs, and the trained model corrects the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from ansorc.search.features.caches import CacheFeatures
from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.loops import LoopFeatures
from ansorc.search.features.operations import OperationCounts
from ansorc.search.features.registers import RegisterFeatures
from ansorc.target import Target

SCALAR_PORTS = 2.0
"""Instructions of loop control that a core starts in a cycle beside those of vectors."""
SUM_LATENCY = 4.0
"""Cycles until a sum in a register can be added to again."""
MEMORY_SUM_LATENCY = 11.0
"""Cycles until a sum in memory, or one that was spilled, can be added to again."""
WINDOW = 250.0
"""Instructions that a core looks ahead: short sums overlap with the ones that follow them."""
SPILL_CYCLES = 2.0
"""Cycles of each step for each vector that does not fit into the registers."""
STEP_INSTRUCTIONS = 2.0
"""Instructions of loop control for each step that is not unrolled; two fit in a cycle."""
TILE_CYCLES = 4.0
"""Cycles of loop control and addresses for each tile, besides one for each vector of it."""
LANES_CYCLES = 12.0
"""Cycles to add up the lanes of a vector of sums."""
CODE_LIMIT = 1500.0
"""Instructions of straight-line code that the instruction caches hold."""
L1_BYTES, L2_BYTES, L3_BYTES = 32.0, 16.0, 8.0
"""Bytes a cycle below the first and second level, of each core, and from memory, of all cores."""
START_CYCLES = 10_000.0
"""Cycles to start the other cores and wait for the last one."""
OVERLAP = 0.25
"""Share of the other roofs' time that adds to the highest roof's."""


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


def estimate_features(
    counts: OperationCounts,
    loops: LoopFeatures,
    registers: RegisterFeatures,
    caches: CacheFeatures,
    target: Target,
) -> EstimateFeatures:
    """Return the estimates of a statement that does `counts` in each iteration."""
    cores = loops.parallel_extent / np.ceil(loops.parallel_extent / target.cores)
    arithmetic = _arithmetic(counts, registers, target.vector_ports) / cores
    l1 = caches.l1_bytes / L1_BYTES / cores
    l2 = caches.l2_bytes / L2_BYTES / cores
    l3 = caches.l3_bytes / L3_BYTES
    roofs = (arithmetic, l1, l2, l3)
    highest = reduce(np.maximum, roofs)
    total = highest + OVERLAP * (sum(roofs[1:], roofs[0]) - highest)
    total = total + START_CYCLES * loops.parallel_starts
    lanes = target.vector_bytes / 4
    peak = loops.iterations * counts.total / (2 * target.vector_ports * lanes * target.cores)
    return EstimateFeatures(arithmetic, l1, l2, l3, total, np.minimum(peak / total, 1))


def _arithmetic(counts: OperationCounts, registers: RegisterFeatures, ports: int) -> FloatArray:
    """Cycles of one core for all steps."""
    vectors = registers.vectors
    in_registers = registers.is_promoted > 0
    busy = counts.vector_instructions * vectors
    stores = np.where(in_registers, 0, vectors * (1 + 7 * registers.scattered))
    control = STEP_INSTRUCTIONS * (busy + vectors + registers.loads) / registers.step_code
    latency = _latency(registers, busy + registers.loads + control)
    is_late = np.maximum(registers.step_code / CODE_LIMIT, 1)
    step = np.maximum.reduce([busy / ports, registers.loads / ports, stores, latency]) * is_late
    step = step + control / SCALAR_PORTS + SPILL_CYCLES * registers.spilled
    results = np.where(registers.sums_in_lanes > 0, registers.sums + LANES_CYCLES, vectors)
    tile = TILE_CYCLES + np.where(in_registers, results, 0)
    return registers.steps * step + registers.tiles * tile


def _latency(registers: RegisterFeatures, instructions: FloatArray) -> FloatArray:
    """Cycles that a step of so many instructions waits for the sums that it adds to."""
    overlap = np.maximum(WINDOW / (registers.inner_terms * instructions), 1)
    is_kept = (registers.is_promoted > 0) & (registers.spilled == 0)
    chain = np.where(registers.sums_in_lanes > 0, registers.vectors / registers.sums, 1)
    return np.where(is_kept, SUM_LATENCY * chain, MEMORY_SUM_LATENCY) / np.where(
        registers.is_promoted > 0, overlap, registers.sum_distance
    )
