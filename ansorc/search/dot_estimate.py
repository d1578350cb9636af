"""A rough time for a stage that a dot-product instruction computes, for the untuned default."""

from __future__ import annotations

import numpy as np

from ansorc.ir.passes.lane_groups import vector_pieces
from ansorc.schedule.extent import as_array
from ansorc.schedule.stage import At, IteratorKind, Mark, Stage
from ansorc.schedule.state import State
from ansorc.target import Target

DOTS_PER_CYCLE, LOADS_PER_CYCLE = 2.0, 2.0
LATENCY = 5.0
"""Cycles until the result of a dot product can be added to again."""
SPILL_CYCLES, LOOP_CYCLES = 8.0, 1.0
"""Cycles for a sum that is in memory, which the register allocator shuffles others for."""
VISIT_CYCLES = 12.0
"""Cycles lost where a register tile begins and ends, besides filling and storing it."""
FAR_LOAD_CYCLES = 2.0
"""Extra cycles for a vector of a matrix whose rows collide in the first cache."""


def is_tensorized(stage: Stage) -> bool:
    """Whether an instruction does the innermost loop of `stage`."""
    return bool(stage.iterators) and stage.iterators[-1].mark is Mark.TENSORIZE


def dot_cycles(state: State, stage: Stage, target: Target) -> np.ndarray:
    """Return [rows]: the cycles of all runs of the tensorized `stage` on one core."""
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
        elif iterator.kind is IteratorKind.REDUCE:
            repeats = repeats * extent
        else:
            visits = visits * extent
    dots = rows * vectors
    busy = np.maximum(dots / DOTS_PER_CYCLE, (rows + vectors) / LOADS_PER_CYCLE)
    spilled = np.maximum(0, dots + vectors + 1 - target.vector_registers)
    busy = np.maximum(busy, LATENCY) + SPILL_CYCLES * spilled + LOOP_CYCLES
    if not _reads_panel(state, stage):
        busy = busy + FAR_LOAD_CYCLES * vectors
    return visits * (repeats * busy + 2.0 * dots + VISIT_CYCLES)


def _reads_panel(state: State, stage: Stage) -> bool:
    """Whether an operand was copied to, or computed in, a place inside the loops."""
    inner = {s.name for s in state.stages if isinstance(s.attach, At) and s is not stage}
    return any(buffer.name in inner for buffer in stage.op.reads)
