"""EstimateFeatures: about how long a statement takes, by counting what the machine can overlap.

A roofline with one roof for each of: arithmetic, load ports, the latency of sums, and the bandwidth
below each cache level (`ansorc.target.costs`). What matters is the order of programs, and the
trained model corrects the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.loops import LoopFeatures
from ansorc.search.features.memory import CacheFeatures
from ansorc.search.features.operations import OperationCounts
from ansorc.search.features.registers import RegisterFeatures
from ansorc.target import Target
from ansorc.target.costs import CORE


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
    l1 = caches.l1_bytes / CORE.fill_bytes[0] / cores
    l2 = caches.l2_bytes / CORE.fill_bytes[1] / cores
    l3 = caches.l3_bytes / CORE.memory_bytes
    roofs = (arithmetic, l1, l2, l3)
    highest = reduce(np.maximum, roofs)
    total = highest + CORE.overlap * (sum(roofs[1:], roofs[0]) - highest)
    total = total + CORE.fork * loops.parallel_starts
    lanes = target.vector_bytes / 4
    peak = loops.iterations * counts.total / (2 * target.vector_ports * lanes * target.cores)
    return EstimateFeatures(arithmetic, l1, l2, l3, total, np.minimum(peak / total, 1))


def _arithmetic(counts: OperationCounts, registers: RegisterFeatures, ports: int) -> FloatArray:
    """Cycles of one core for all steps."""
    vectors = registers.vectors
    in_registers = registers.is_promoted > 0
    busy = counts.vector_instructions * vectors
    stores = np.where(in_registers, 0, vectors * (1 + 7 * registers.scattered))
    control = CORE.step_instructions * (busy + vectors + registers.loads) / registers.step_code
    latency = _latency(registers, busy + registers.loads + control)
    is_late = np.maximum(registers.step_code / CORE.code_limit, 1)
    step = np.maximum.reduce([busy / ports, registers.loads / ports, stores, latency]) * is_late
    step = step + control / CORE.scalar_ports + CORE.spill * registers.spilled
    results = np.where(registers.sums_in_lanes > 0, registers.sums + CORE.combine_lanes, vectors)
    tile = CORE.tile + np.where(in_registers, results, 0)
    return registers.steps * step + registers.tiles * tile


def _latency(registers: RegisterFeatures, instructions: FloatArray) -> FloatArray:
    """Cycles that a step of so many instructions waits for the sums that it adds to."""
    overlap = np.maximum(CORE.window / (registers.inner_terms * instructions), 1)
    is_kept = (registers.is_promoted > 0) & (registers.spilled == 0)
    chain = np.where(registers.sums_in_lanes > 0, registers.vectors / registers.sums, 1)
    return np.where(is_kept, CORE.add_latency * chain, CORE.memory_add_latency) / np.where(
        registers.is_promoted > 0, overlap, registers.sum_distance
    )
