"""Stages that are not tiled: their loops are fused, split and bound to blocks and threads."""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod

from ansorc.ir.arith.affine import step_along
from ansorc.ir.expr import Var
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Root, Stage
from ansorc.schedule.steps import BindThread, Fuse, Reorder, Split, Vectorize
from ansorc.search.gpu.parts import add_up_parts, adds_up_parts
from ansorc.search.sketch.loops import follows_range
from ansorc.search.sketch.predicates import fusible_consumer
from ansorc.search.sketch.rule import PartialSketch, vector_axis
from ansorc.search.sketch.sketch import TileVariable

MAX_THREADS = 1024


def bind_untiled_stages(partial: PartialSketch) -> PartialSketch:
    """Return the sketch with each stage bound that no rule has divided among threads yet.

    What is summed up for one other stage, element by element, is computed by the threads of that.
    """
    sums = [stage.name for stage in partial.state.stages if _is_for_one(partial, stage)]
    for stage in partial.state.stages:
        is_free = isinstance(stage.attach, Root) and not is_bound(partial, stage)
        if is_free and stage.op.axes and stage.name not in sums:
            keeps_rows = any(buffer.name in sums for buffer in stage.op.reads)
            is_scan = stage.op.scan is not None
            partial = (
                _bind_scan(partial, stage)
                if is_scan
                else _bind(partial, stage, keeps_rows=keeps_rows)
            )
    for name in sums:
        partial = add_up_parts(partial, name)
    return partial


def _is_for_one(partial: PartialSketch, stage: Stage) -> bool:
    """Return whether the threads of one reader compute `stage`, element by element."""
    if not stage.op.axes:  # one thread makes its reader, too
        return False
    if adds_up_parts(partial, stage):
        return True
    is_sum = isinstance(stage.attach, Root) and stage.is_untouched and bool(stage.op.reduce_axes)
    is_sum &= stage.op.ragged_axis is None
    return is_sum and fusible_consumer(partial, stage.name) is not None


def is_bound(partial: PartialSketch, stage: Stage) -> bool:
    """Return whether a root stage is divided among blocks or threads already."""
    has_threads = any(iterator.thread for iterator in stage.iterators)
    return has_threads or bool(partial.state.stages_inside(stage.name))


def _bind(partial: PartialSketch, stage: Stage, *, keeps_rows: bool) -> PartialSketch:
    """Return the sketch with the space loops of `stage` bound to blocks and threads.

    Loops over short vectors stay inside. With `keeps_rows` no vector goes beyond the end of a row,
    as sums for it are made in whole rows.
    """
    name = stage.name
    loops = [axis.name for axis in stage.op.axes]
    vector = ""
    lanes = _lanes(partial, stage.op)
    if lanes > 1 and _lanes_of_all(partial, stage.op) == 1:
        contiguous = vector_axis(stage.op)
        assert contiguous is not None
        variable = TileVariable(f"{name}.vector", lanes, 2, lanes, stage=name)
        partial = replace(partial, variables=(*partial.variables, variable))
        split = Split(name, loops[contiguous], (Hole(variable.name, (1,)),))
        partial = partial.then(split)
        loops = [*loops[:contiguous], split.made[0]]
        vector = split.made[1]
        if terms := [axis.name for axis in stage.op.reduce_axes]:
            partial = partial.then(Reorder(name, (*loops, *terms, vector)))
    fused = loops[0]
    if len(loops) > 1:
        fuse = Fuse(name, tuple(loops))
        partial, fused = partial.then(fuse), fuse.made
    if not vector and not keeps_rows and (lanes := _lanes_of_all(partial, stage.op)) > 1:
        split = Split(name, fused, (lanes,))
        partial = partial.then(split)
        fused, vector = split.made
    partial = _share(partial, name, fused)
    return partial.then(Vectorize(name, vector)) if vector else partial


def _bind_scan(partial: PartialSketch, stage: Stage) -> PartialSketch:
    """Return the sketch with a thread for each row of a scan; a single row is left to one."""
    name, along = stage.name, stage.op.scan_axis
    rows = [axis.name for axis in stage.op.axes if axis.name != along]
    if not rows:
        return partial
    partial, fused = partial.then(Reorder(name, (*rows, along))), rows[0]
    if len(rows) > 1:
        fuse = Fuse(name, tuple(rows))
        partial, fused = partial.then(fuse), fuse.made
    return _share(partial, name, fused)


def _share(partial: PartialSketch, name: str, fused: str) -> PartialSketch:
    """Return the sketch with the loop `fused` of a stage divided among blocks and threads."""
    threads = TileVariable(f"{name}.threads", MAX_THREADS, 2, MAX_THREADS, stage=name)
    partial = replace(partial, variables=(*partial.variables, threads))
    share = Split(name, fused, (Hole(threads.name, (1,)),))
    return partial.then(
        share,
        BindThread(name, share.made[0], "blockIdx.x"),
        BindThread(name, share.made[1], "threadIdx.x"),
    )


def _lanes(partial: PartialSketch, op: ComputeOp) -> int:
    """Return the most elements of a vector: 1 if no vector divides the rows of `op`.

    A sum has vectors only if all that it loads is contiguous along the last axis.
    """
    contiguous = vector_axis(op)
    if contiguous is None or contiguous + 1 < len(op.axes):
        return 1
    axis = op.axes[contiguous]
    if follows_range(op, axis.name):
        return 1
    if op.reduce_axes and (len(op.buffers) > 1 or not loads_run_along(op, axis.name)):
        return 1
    return partial.lanes(op) if axis.extent % 2 == 0 else 1


def _lanes_of_all(partial: PartialSketch, op: ComputeOp) -> int:
    """Return the elements of a vector that may go beyond the end of a row.

    Return 1 where whole vectors make up the rows, or something is read in another order. Each lane
    reads for itself what is the same in a row, such as the bias of a channel.
    """
    shape = tuple(axis.extent for axis in op.axes)
    lanes = gcd(partial.lanes(op), prod(shape))
    order = tuple(Var(axis.name) for axis in op.axes)
    is_plain = not op.reduce_axes and len(op.buffers) == 1 and len(shape) > 1
    if not is_plain or op.axes[-1].extent % lanes == 0:
        return 1
    fits = all(
        (load.buffer.shape == shape and load.indices == order)
        or not any(op.axes[-1].name in free_vars(index) for index in load.indices)
        for load in op.loads
    )
    return lanes if fits else 1


def loads_run_along(op: ComputeOp, axis: str) -> bool:
    """Return whether all that `op` loads and that `axis` moves is contiguous along it."""
    moving = (load for load in op.loads if any(axis in free_vars(i) for i in load.indices))
    return all(step_along(load.indices[-1], axis) == 1 for load in moving)
