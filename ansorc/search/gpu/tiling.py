"""Multi-level tiling for GPUs: blocks, virtual threads, threads, and a tile in registers.

    for i, j, k: C += A * B    ->    blockIdx.x j0@i0@j1:
                                       vthread i2@j2:
                                         threadIdx.x i3@j3:
                                           for k0:
                                             A.shared, B.shared = …     by all threads
                                             for k1, i4, j4, k2, i5, j5: C.local += …
                                           for i45, j4, j5: C = C.local

Paper, §4.1: SSSRRSRS, a cache write to registers, and each input that is used again cached in
shared memory at the outermost reduce level. Beyond the paper, blocks walk along the columns in
groups (j1): those that run at a time then read few rows and few columns, not all of either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from ansorc.ir.expr import Select, Var
from ansorc.ir.substitute import free_vars
from ansorc.lang.access import strictly_inlineable
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.schedule.extent import Hole, HoleProduct
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import (
    BindThread,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Fuse,
    Pragma,
    Reorder,
    Split,
    Unroll,
    Vectorize,
)
from ansorc.search.gpu.block_order import MAX_GROUP, count_walked_axes, in_groups
from ansorc.search.sketch.predicates import (
    fusible_consumer,
    is_parallel_rfactor,
    needs_tiling,
)
from ansorc.search.sketch.rule import PartialSketch, Verdict, vector_axis
from ansorc.search.sketch.sketch import TileVariable
from ansorc.search.sketch.tiling import is_split, variable_name
from ansorc.target.gpu import VECTOR_BYTES

BLOCK, GROUP, VTHREAD, THREAD, OUTER, INNER = range(6)
"""The space levels of SSSRRSRS: blocks, of one axis in groups, virtual threads and threads are
bound, the last two are the register tile."""
SPACE_LEVELS, REDUCE_LEVELS = 6, 3
THREADS_OF_LEVEL = ("blockIdx.x", "vthread", "threadIdx.x")
MAX_TILES = (8, 256, 8)
"""The most virtual threads, threads and outer register tiles along one axis."""
MAX_INNER = 16
"""The largest innermost length of an axis that is not contiguous; else it is a vector."""
MAX_TERMS = (8, 64)
"""The largest inner lengths of a reduce axis."""


@dataclass(frozen=True)
class TilingForThreads:
    """Tile a stage with data reuse in blocks and threads, as the paper does for GPUs.

    The stage is computed in the tiles of its only consumer, if that reads it element by element, or
    of a copy. Beyond the paper, copies to shared memory may run ahead of the loop that reads them.
    """

    stages: tuple[int, ...] = (2, 3)
    """Steps whose copies are under way at a time, besides one."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is a reduction that reads some element for several results."""
        is_sum = bool(partial.stage(stage).op.reduce_axes)
        is_tiled = is_sum and needs_tiling(partial, stage)
        return Verdict.APPLY_AND_STOP if is_tiled else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the stage tiled, and what it reads in shared memory."""
        consumer = fusible_consumer(partial, stage)
        name, outer = stage, stage
        if consumer is None:
            written = partial.then(CacheWrite(stage, "local"))
            (computing,) = written.state.beyond(partial.state)
            partial, name = written, computing.name
        else:
            outer = consumer.name
        opened = _declare(partial, partial.stage(name))
        opened = _bind_tiles(opened, name, outer)
        opened = _register_tile(opened, name, outer)
        for tensor in _reads_to_cache(opened.stage(name).op):
            opened = _in_shared_memory(opened, name, tensor)
        opened = opened.with_trace(f"tile {name} in {outer} by threads")
        yield opened
        for stages in self.stages if opened.state.stages_inside(name) else ():
            ahead = opened.then(Pragma(name, "async_stages", stages))
            yield ahead.with_trace(f"copy {stages} steps of {name} at a time")


def _declare(partial: PartialSketch, stage: Stage) -> PartialSketch:
    """Return the sketch with a variable for each axis that is split."""
    contiguous = vector_axis(stage.op)
    lanes = partial.lanes(stage.op)
    variables: list[TileVariable] = []
    for number, axis in enumerate(stage.op.axes):
        is_grouped = number == contiguous and count_walked_axes(stage.op, number)
        inner = lanes if number == contiguous else MAX_INNER
        limits = (MAX_GROUP if is_grouped else 1, *MAX_TILES, inner)
        if number == 0 and is_parallel_rfactor(partial, stage.name):
            limits = (1,) * len(limits)  # parts of sums: of blocks of their own
        variables += [_variable(stage, axis, limits)] if is_split(axis) else []
    for axis in stage.op.reduce_axes:
        variable = _variable(stage, axis, MAX_TERMS)
        variables += [replace(variable, is_exact=True)] if is_split(axis) else []
    return replace(partial, variables=(*partial.variables, *variables))


def _variable(stage: Stage, axis: Axis, limits: tuple[int, ...]) -> TileVariable:
    return TileVariable(
        variable_name(stage, axis), axis.extent, len(limits) + 1, limits[-1],
        stage=stage.name, axis=axis.name, limits=limits,
    )  # fmt: skip


def _holes(stage: Stage, axis: Axis, *groups: tuple[int, ...]) -> tuple[Hole, ...]:
    return tuple(Hole(variable_name(stage, axis), group) for group in groups)


def _bind_tiles(partial: PartialSketch, name: str, outer: str) -> PartialSketch:
    """Return the sketch with the consumer's loops bound.

    Three levels are bound; inside of them is the tile of one thread.
    """
    stage, consumer = partial.stage(name), partial.stage(outer)
    pairs = list(zip(stage.op.axes, consumer.op.axes, strict=False))
    contiguous = vector_axis(stage.op)
    walked = 0 if contiguous is None else count_walked_axes(stage.op, contiguous)
    levels: list[list[str]] = [[axis.name for _, axis in pairs], [], []]
    deepest: list[str] = []
    group = ""
    for number, (tiled_axis, axis) in enumerate(pairs):
        if is_split(axis):
            is_last = number == contiguous
            is_grouped = is_last and walked > 0
            inner = ((OUTER,), (INNER,)) if is_last else ((OUTER, INNER),)
            bound_levels = [(GROUP,)] * is_grouped + [(VTHREAD,), (THREAD,)]
            split = Split(outer, axis.name, _holes(stage, tiled_axis, *bound_levels, *inner))
            partial = partial.then(split)
            levels[0][number], *made = split.made
            if is_grouped:
                group, *made = made
            levels[1].append(made[0])
            levels[2].append(made[1])
            deepest += made[-1:] if is_last else []
    if contiguous is not None and group:
        levels[0] = in_groups(levels[0], contiguous, group, walked)
    order = [loop for level in levels for loop in level]
    inside = [it.name for it in partial.stage(outer).iterators if it.name not in order]
    rest = [loop for loop in inside if loop not in deepest]
    partial = partial.then(Reorder(outer, (*order, *rest, *deepest)))
    for level, thread in zip(levels, THREADS_OF_LEVEL, strict=True):
        partial = bind_loops(partial, outer, level, thread)
    for loop in rest:
        partial = partial.then(Unroll(outer, loop))
    for loop in deepest:
        partial = partial.then(Vectorize(outer, loop))
    return partial


def bind_loops(
    partial: PartialSketch, stage: str, loops: Sequence[str], thread: str
) -> PartialSketch:
    """Return the sketch with neighbouring `loops` of `stage` fused and bound to `thread`."""
    fused = loops[0]
    if len(loops) > 1:
        fuse = Fuse(stage, tuple(loops))
        partial, fused = partial.then(fuse), fuse.made
    return partial.then(BindThread(stage, fused, thread))


def _register_tile(partial: PartialSketch, name: str, outer: str) -> PartialSketch:
    """Return the sketch with the tiled stage in the consumer's threads, as R R S R S."""
    thread = next(it for it in partial.stage(outer).iterators if it.thread == THREADS_OF_LEVEL[-1])
    partial = partial.then(ComputeAt(name, outer, thread.name))
    stage = partial.stage(name)
    for axis in stage.op.axes:
        if is_split(axis):
            partial = partial.then(Split(name, axis.name, _holes(stage, axis, (INNER,))))
    for axis in stage.op.reduce_axes:
        if is_split(axis):
            partial = partial.then(Split(name, axis.name, _holes(stage, axis, (1,), (2,))))
    divided = partial.stage(name)
    space = [
        [divided.loop(a.name, level) for a in stage.op.axes if level == 0 or is_split(a)]
        for level in range(2)
    ]
    reduce = [
        [divided.loop(a.name, level) for a in stage.op.reduce_axes if level == 0 or is_split(a)]
        for level in range(REDUCE_LEVELS)
    ]
    order = [*reduce[0], *reduce[1], *space[0], *reduce[2], *space[1]]
    partial = partial.then(Reorder(name, tuple(order)))
    contiguous = vector_axis(stage.op)
    along = "" if contiguous is None else divided.loop(stage.op.axes[contiguous].name, 1)
    for loop in (*space[0], *space[1]):
        mark = Vectorize if loop == along else Unroll
        partial = partial.then(mark(name, loop))
    return partial


def _reads_to_cache(op: ComputeOp) -> list[str]:
    """Return the tensors that a stage with reductions reads and uses again in one block."""
    if not any(is_split(axis) for axis in op.reduce_axes):
        return []
    return list(dict.fromkeys(load.buffer.name for load in op.loads if load.indices))


def threads_of(partial: PartialSketch, name: str) -> HoleProduct:
    """Return how many threads of a block compute the tiled stage `name`."""
    stage = partial.stage(name)
    return HoleProduct(
        tuple(_holes(stage, axis, (THREAD,))[0] for axis in stage.op.axes if is_split(axis))
    )


def _in_shared_memory(partial: PartialSketch, name: str, tensor: str) -> PartialSketch:
    """Copy what a block reads of `tensor` to shared memory, all its threads together."""
    stage = partial.stage(name)
    reduce = [it.name for it in stage.iterators if it.axis in _reduce_axes(stage) and it.level == 0]
    read = partial.then(CacheRead(tensor, "shared", (name,)))
    (copy,) = read.state.beyond(partial.state)
    opened = read.then(ComputeAt(copy.name, name, reduce[-1]))
    return cooperative(
        opened, copy.name, threads_of(partial, name), _lanes(partial, stage.op, tensor)
    )


def _reduce_axes(stage: Stage) -> set[str]:
    return {axis.name for axis in stage.op.reduce_axes}


def _lanes(partial: PartialSketch, reader: ComputeOp, tensor: str) -> int:
    """Return the most elements that a thread copies at a time.

    Return 1 for elements that are computed on the way. Borders do not matter if the elements are of
    one tensor and `reader` does not add them up: with whole vectors there is no padding that avoids
    bank conflicts of those that it does.
    """
    source = partial.state.source(tensor)
    if source is not None and not source.op.reduce_axes and not strictly_inlineable(source.op):
        terms = {axis.name for axis in reader.reduce_axes}
        loads = (load for load in reader.loads if load.buffer.name == tensor)
        if not _has_borders(source.op) or any(free_vars(x.indices[-1]) & terms for x in loads):
            return 1
    buffers = (*partial.state.inputs, *(() if source is None else source.op.buffers))
    (buffer,) = (buffer for buffer in buffers if buffer.name == tensor)
    return max(1, VECTOR_BYTES // buffer.dtype.bytes)


def _has_borders(op: ComputeOp) -> bool:
    """Return whether `op` copies vectors along its last axis, with borders only along others."""
    last = op.axes[-1].name
    tests = [part.condition for part in op.nodes() if isinstance(part, Select)]
    copies = all(load.indices and load.indices[-1] == Var(last) for load in op.loads)
    return copies and not any(last in free_vars(test) for test in tests)


def cooperative(
    partial: PartialSketch, copy: str, threads: HoleProduct, lanes: int
) -> PartialSketch:
    """Return the sketch with the loops of a copy divided among the threads of a block.

    ax0, ax1   ->   ax0@ax1.0 in steps of all threads, threadIdx.x, vectors along ax1.1
    """
    *others, last = (iterator.name for iterator in partial.stage(copy).iterators)
    inner = ""
    if lanes > 1:
        variable = TileVariable(f"{copy}.vector", lanes, 2, lanes, stage=copy, axis=last)
        partial = replace(partial, variables=(*partial.variables, variable))
        split = Split(copy, last, (Hole(variable.name, (1,)),))
        partial = partial.then(split)
        last, inner = split.made
    loops, fused = (*others, last), last
    if len(loops) > 1:
        fuse = Fuse(copy, loops)
        partial, fused = partial.then(fuse), fuse.made
    share = Split(copy, fused, (threads,))
    partial = partial.then(share, BindThread(copy, share.made[1], THREADS_OF_LEVEL[-1]))
    return partial.then(Vectorize(copy, inner)) if inner else partial


def results_of(op: ComputeOp) -> int:
    """Return how many results `op` computes."""
    return prod(axis.extent for axis in op.axes)
