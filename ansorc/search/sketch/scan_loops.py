"""The loops of scans: what is independent is computed beside each other inside each step.

Along a contiguous axis that is not the scan's, vectors hold the states:

    for t, j: X[t, j] = f(X[t - 1, j])    ->    for j0: for t: vectorize j1: X[t, j] = f(…)

If the scan runs along the contiguous axis, several rows advance together, so that the latency of
one step is hidden behind the others:

    for i, t: X[i, t] = f(X[i, t - 1])    ->    for i0: for t: unroll i1: X[i, t] = f(…)
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.ir.expr import Call
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import AxisKind, Mark, Root, Stage
from ansorc.schedule.steps import Reorder, Split, Unroll, Vectorize
from ansorc.search.sketch.rule import PartialSketch, vector_axis
from ansorc.search.sketch.sketch import TileVariable
from ansorc.search.sketch.tiling import tile_variable

ROWS = 16
"""Rows that advance together, at most."""
USUAL_ROWS = 8
"""Rows of which as many should advance together, even if they do not divide the axis."""
SUM_VECTORS = 8
"""Vectors of sums that are computed together in a step: they fit the registers beside others."""
CACHE_SHARE = 4
"""The states of a tile take this part of the first cache at most."""


def reorder_scan(partial: PartialSketch, stage: Stage) -> PartialSketch:
    """Return the sketch with the loops of an untouched scan in order, divided at root."""
    op = stage.op
    if op.mixed_axes:
        partial = _reorder(partial, stage.name, _steps_outside(op))
        is_at_root = isinstance(stage.attach, Root)
        return _divide_sums(partial, stage.name) if op.step_sums and is_at_root else partial
    beside = find_axis_beside(op)
    others = [a.name for a in op.axes if a.name != op.scan_axis]
    if beside is None:
        return _reorder(partial, stage.name, (*others, op.scan_axis))
    others.remove(beside.name)
    if not isinstance(stage.attach, Root):
        return _reorder(partial, stage.name, (*others, op.scan_axis, beside.name))
    variable = _variable(partial, stage, beside)
    partial = replace(partial, variables=(*partial.variables, variable))
    partial = partial.then(Split(op.name, beside.name, (Hole(variable.name, (1,)),)))
    divided = partial.stage(op.name)
    outer, inner = divided.loop(beside.name, 0), divided.loop(beside.name, 1)
    return _reorder(partial, op.name, (*others, outer, op.scan_axis, inner))


def mark_scan(partial: PartialSketch, stage: Stage) -> PartialSketch:
    """Return the sketch with the loop inside the steps of a scan vectorised or unrolled."""
    last = stage.iterators[-1]
    if last.kind is not AxisKind.SPACE or last.mark is not Mark.NONE:
        return partial
    contiguous = vector_axis(stage.op)
    is_last = contiguous is not None and stage.op.axes[contiguous].name == last.axis
    if is_in_vectors(stage.op) and (is_last or not stage.op.mixed_axes):
        return partial.then(Vectorize(stage.name, last.name))
    is_short = not isinstance(last.extent, int) or last.extent <= ROWS
    return partial.then(Unroll(stage.name, last.name)) if is_short else partial


def _steps_outside(op: ComputeOp) -> tuple[str, ...]:
    """Return the loops of a scan whose steps read states of other places."""
    rows = [a.name for a in op.axes if a.name not in {op.scan_axis, *op.mixed_axes}]
    mixed = [a.name for a in op.axes if a.name in op.mixed_axes]
    return (*rows, op.scan_axis, *mixed)


def find_axis_beside(op: ComputeOp) -> Axis | None:
    """Return the axis whose elements advance together: the last one that is not the scan's."""
    long = [axis for axis in op.axes if axis.extent > 1 and axis.name != op.scan_axis]
    return long[-1] if long else None


def is_in_vectors(op: ComputeOp) -> bool:
    """Return whether the states that advance together are lanes, not rows.

    Functions are far faster on vectors, wherever their operands come from.
    """
    contiguous = vector_axis(op)
    is_across = contiguous is not None and op.axes[contiguous].name != op.scan_axis
    return is_across or any(isinstance(node, Call) for node in op.nodes())


def _divide_sums(partial: PartialSketch, name: str) -> PartialSketch:
    """Return the sketch of a scan whose steps have sums: rows of one thread share what is read.

        for b: for t: for u: …    ->    for b0: for t: for b1: for u0: vectorize u1: …

    The sums of the innermost loop are in registers.
    """
    stage = partial.stage(name)
    op, loops = stage.op, [loop.name for loop in stage.iterators]
    length, last = SUM_VECTORS * partial.lanes(op), stage.iterators[-1]
    rows = [a for a in op.axes if a.name not in {op.scan_axis, *op.mixed_axes}]
    if rows and (share := -(-rows[-1].extent // partial.target.cores)) > 1:
        partial = partial.then(Split(name, rows[-1].name, (share,)))
        divided = partial.stage(name)
        outer, inner = divided.loop(rows[-1].name, 0), divided.loop(rows[-1].name, 1)
        place = loops.index(op.scan_axis)
        order = (*loops[: place - 1], outer, op.scan_axis, inner, *loops[place + 1 :])
        partial = _reorder(partial, name, order)
    is_long = isinstance(last.extent, int) and last.extent > length
    if not is_long or last.axis != op.axes[-1].name:
        return partial
    return partial.then(Split(name, last.name, (length,)))


def _variable(partial: PartialSketch, stage: Stage, axis: Axis) -> TileVariable:
    op, lanes = stage.op, partial.lanes(stage.op)
    if is_in_vectors(op):
        each = sum(buffer.dtype.bytes for buffer in op.buffers)
        limit = max(lanes, partial.target.cache_bytes[0] // (CACHE_SHARE * each))
        ragged = (lanes,) if axis.extent > lanes and axis.extent % lanes else ()
    else:
        lanes, limit = 0, ROWS
        ragged = (USUAL_ROWS,) if axis.extent > USUAL_ROWS and axis.extent % USUAL_ROWS else ()
    variable = tile_variable(stage, axis, 2, min(limit, axis.extent), lanes)
    return replace(variable, ragged=ragged)


def _reorder(partial: PartialSketch, name: str, order: tuple[str, ...]) -> PartialSketch:
    current = tuple(iterator.name for iterator in partial.stage(name).iterators)
    return partial if order == current else partial.then(Reorder(name, order))
