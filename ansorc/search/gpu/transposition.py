"""Stages that read rows and write columns: a block turns a tile round in shared memory.

    for i, j: T[i, j] = A[j, i]    ->    blockIdx.x i0@j0:
                                           A.shared = …          along the rows of A
                                           threadIdx.x i2@j1: T = A.shared

Beyond the paper: threads of a warp then touch neighbours in both tensors.
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.errors import ScheduleError
from ansorc.lang.access import find_shifted_axis
from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.extent import Hole, HoleProduct
from ansorc.schedule.stage import Root, Stage
from ansorc.schedule.steps import CacheRead, ComputeAt, Reorder, Split, Vectorize
from ansorc.search.gpu.binding import is_bound
from ansorc.search.gpu.tiling import bind_loops, cooperative
from ansorc.search.sketch.rule import PartialSketch
from ansorc.search.sketch.sketch import TileVariable

MAX_SIDE = 64
"""The longest side of a tile."""


def transpose_via_shared(partial: PartialSketch) -> PartialSketch | None:
    """Return the sketch with each transposition made in shared memory; None without one."""
    turned = None
    for stage in partial.state.stages:
        turn = _turn(stage)
        if turn is not None and isinstance(stage.attach, Root) and not is_bound(partial, stage):
            try:
                turned = _turn_tiles(turned or partial, stage, *turn)
            except ScheduleError:
                continue  # the tensor is read elsewhere in the stage by other indices
    return None if turned is None else turned.with_trace("turn tiles round")


def _turn(stage: Stage) -> tuple[str, str] | None:
    """Return the tensor that a stage reads across, and the axis along that tensor's rows."""
    op: ComputeOp = stage.op
    if op.reduce_axes or op.scan is not None or len(op.axes) < 2 or not stage.is_untouched:
        return None
    last = op.axes[-1]
    extents = {axis.name: axis.extent for axis in op.axes}
    for load in op.loads:
        moved = [find_shifted_axis(index) for index in load.indices]
        if not moved or None in moved or moved[-1] == last.name or last.name not in moved:
            continue
        along = str(moved[-1])
        if min(extents[along], last.extent) > 1:
            return load.buffer.name, along
    return None


def _turn_tiles(partial: PartialSketch, stage: Stage, tensor: str, along: str) -> PartialSketch:
    """Return the sketch with tiles of `tensor` transposed in shared memory."""
    name, last = stage.name, stage.op.axes[-1].name
    lanes = partial.lanes(stage.op)
    down = TileVariable(f"{name}.{along}", MAX_SIDE, 3, MAX_SIDE, stage=name)
    wide = TileVariable(f"{name}.{last}", MAX_SIDE, 3, lanes, stage=name)
    partial = replace(partial, variables=(*partial.variables, down, wide))
    rows = Split(name, along, (Hole(down.name, (1,)), Hole(down.name, (2,))))
    columns = Split(name, last, (Hole(wide.name, (1,)), Hole(wide.name, (2,))))
    partial = partial.then(rows, columns)
    others = [axis.name for axis in stage.op.axes if axis.name not in (along, last)]
    blocks = [*others, rows.made[0], columns.made[0]]
    threads = [rows.made[2], columns.made[1]]
    order = (*blocks, *threads, rows.made[1], columns.made[2])
    partial = bind_loops(partial.then(Reorder(name, order)), name, blocks, "blockIdx.x")
    partial = bind_loops(partial, name, threads, "threadIdx.x").then(
        Vectorize(name, columns.made[2])
    )
    block = next(it.name for it in partial.stage(name).iterators if it.thread == "blockIdx.x")
    read = partial.then(CacheRead(tensor, "shared", (name,)))
    (copy,) = read.state.beyond(partial.state)
    opened = read.then(ComputeAt(copy.name, name, block))
    count = HoleProduct((Hole(down.name, (2,)), Hole(wide.name, (1,))))
    return cooperative(opened, copy.name, count, lanes)
