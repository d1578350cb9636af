"""Reductions that the threads of a block make together, alone or for the rows of their reader.

    for i, k: S[i] += A[i, k]    ->    blockIdx.x i0, threadIdx.y i1:
                                         threadIdx.x k1: S[i] += (Σ A[i, k0 * threads + k1] over k0)

Paper, §4.1 ("cross-thread reduction"). The sums of one thread stay in a register; then the threads
of a warp exchange theirs. Beyond the paper, a thread has the sums of as many neighbours as one
instruction loads, where the rows are made of such vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from ansorc.errors import ScheduleError
from ansorc.ir.buffer import Buffer
from ansorc.ir.substitute import free_vars
from ansorc.lang.access import reads_of, simple_access
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Making, Root, Stage
from ansorc.schedule.steps import (
    BindThread,
    ComputeAt,
    Fuse,
    Reorder,
    RFactor,
    Split,
    Unroll,
    Vectorize,
)
from ansorc.search.gpu.binding import is_bound, loads_run_along
from ansorc.search.gpu.parts import adds_up_parts
from ansorc.search.gpu.tiling import results_of
from ansorc.search.sketch.rule import PartialSketch
from ansorc.search.sketch.sketch import TileVariable
from ansorc.target.gpu import VECTOR_BYTES

MAX_ROWS = 8
"""Results of one block at most, each by threads of its own."""
LEAST_TERMS = 33
"""A sum of fewer terms is made by one thread."""
MANY_TERMS, MANY_THREADS = 1024, 1 << 18
"""Sums of as many terms are divided among blocks where their results are not work for the GPU."""


def long_reductions(partial: PartialSketch) -> list[Stage]:
    """Return the reductions that no rule has tiled and that are longer than a warp."""
    return [
        stage
        for stage in partial.state.stages
        if isinstance(stage.attach, Root)
        and stage.op.reduce_axes
        and stage.op.ragged_axis is None
        and not is_bound(partial, stage)
        and terms_of(stage) >= LEAST_TERMS
        and not adds_up_parts(partial, stage)
    ]


def terms_of(stage: Stage) -> int:
    """Return how many terms each sum of `stage` has."""
    return prod(axis.extent for axis in stage.op.reduce_axes)


def reduce_together(partial: PartialSketch, threads: int) -> PartialSketch:
    """Return the sketch with each long reduction made by `threads` threads."""
    for stage in long_reductions(partial):
        if threads < 2 * terms_of(stage):
            lanes = _lanes(stage.op, threads)
            partial, loop = _factor(partial, stage, threads, lanes)
            partial = _in_blocks(partial, stage.name, loop, lanes)
    return partial.with_trace(f"reduce by {threads} threads")


def with_rows(partial: PartialSketch, threads: int) -> PartialSketch | None:
    """Return the sketch with the long reductions made by the blocks of their reader's rows.

    None where they are not of the rows of one stage that is element-wise.
    """
    stages = long_reductions(partial)
    reader = row_reader(partial, stages)
    if reader is None or any(threads >= 2 * terms_of(stage) for stage in stages):
        return None
    rows = len(stages[0].op.axes)
    lanes = _lanes_along(reader.op.axes[rows:], reader.op.buffers, threads)
    partial, row = _bind_rows(partial, reader, rows, (threads, lanes))
    try:
        for stage in reversed(stages):
            own_lanes = _lanes(stage.op, threads)
            partial, loop = _factor(partial, stage, threads, own_lanes)
            partial = partial.then(
                ComputeAt(stage.name, reader.name, row), BindThread(stage.name, loop, "threadIdx.x")
            )
            partial = _with_partial_sums(partial, stage.name, loop, own_lanes)
    except ScheduleError:
        return None  # something else reads a reduction
    return partial.with_trace(f"rows of {reader.name} by {threads} threads")


def in_parts(partial: PartialSketch, parts: int) -> PartialSketch | None:
    """Return the sketch with long reductions of few results divided among blocks.

    for i, j, k: S[i] += A[i, j, k]    ->    for j0, i, j1, k: S.rf[j0, i] += A[i, j0 * n + j1, k]
                                             for i, j0: S[i] += S.rf[j0, i]
    """
    divided = partial
    for stage in long_reductions(partial):
        if is_divisible(stage, parts):
            first = stage.op.reduce_axes[0]
            split = Split(stage.name, first.name, (-(-first.extent // parts),))
            divided = divided.then(split, RFactor(stage.name, split.made[0], 0))
    return None if divided is partial else divided.with_trace(f"{parts} parts of sums")


def is_divisible(stage: Stage, parts: int) -> bool:
    """Return whether the sums of `stage` are few and long enough to be made in `parts` parts."""
    is_few = terms_of(stage) >= MANY_TERMS and parts * results_of(stage.op) <= MANY_THREADS
    return is_few and stage.op.reduce_axes[0].extent >= 2 * parts


def row_reader(partial: PartialSketch, stages: list[Stage]) -> Stage | None:
    """Return the stage whose rows all of `stages` reduce, and which alone reads them."""
    if not stages or not stages[0].op.axes:
        return None
    names = {stage.name for stage in stages}
    readers = {
        reader.name: reader
        for stage in stages
        for reader in partial.state.readers(stage.name)
        if reader.name not in names
    }
    if len(readers) != 1 or any(stage.is_output for stage in stages):
        return None
    (reader,) = readers.values()
    is_plain = isinstance(reader.attach, Root) and not reader.op.reduce_axes
    is_plain = is_plain and reader.op.scan is None
    if not is_plain or is_bound(partial, reader) or not reader.is_untouched:
        return None
    rows = [axis.extent for axis in stages[0].op.axes]
    if len(reader.op.axes) <= len(rows):
        return None
    fits = all(
        [axis.extent for axis in stage.op.axes] == rows
        and all(
            access is not None and access.axes == tuple(range(len(rows)))
            for reader in partial.state.readers(stage.name)
            for access in (simple_access(reader.op, a) for a in reads_of(reader.op, stage.op))
        )
        for stage in stages
    )
    return reader if fits else None


def _bind_rows(
    partial: PartialSketch, reader: Stage, rows: int, tile: tuple[int, int]
) -> tuple[PartialSketch, str]:
    """Return the sketch with a block for each row of the reader, and the loop over the rows.

    `tile` has the threads of a block, and the neighbours that each of them computes.
    """
    name = reader.name
    outer = [axis.name for axis in reader.op.axes[:rows]]
    inner = [axis.name for axis in reader.op.axes[rows:]]
    partial, row = _fuse(partial, name, outer)
    partial, column = _fuse(partial, name, inner)
    split = Split(name, column, tile if tile[1] > 1 else tile[:1])
    partial = partial.then(
        split,
        BindThread(name, row, "blockIdx.x"),
        BindThread(name, split.made[1], "threadIdx.x"),
    )
    return (partial.then(Vectorize(name, split.made[2])) if tile[1] > 1 else partial), row


def _factor(
    partial: PartialSketch, stage: Stage, threads: int, lanes: int
) -> tuple[PartialSketch, str]:
    """Return the sketch with the sums of `stage` in `threads` shares, and the loop over these.

    Where vectors are loaded, the shares are themselves sums, of one for each lane.
    """
    name = stage.name
    partial, loop = _fuse(partial, name, [axis.name for axis in stage.op.reduce_axes])
    split = Split(name, loop, (threads * lanes,))
    partial, loop = partial.then(split, RFactor(name, split.made[1])), split.made[1]
    if lanes > 1:
        of_lanes = Split(name, loop, (lanes,))
        loop = of_lanes.made[0]
        partial = partial.then(of_lanes, RFactor(name, loop))
    return partial, loop


def _lanes(op: ComputeOp, threads: int) -> int:
    """Return how many neighbours a thread loads at a time.

    All that it adds up has to lie along the last axis.
    """
    last = op.reduce_axes[-1]
    if len(op.buffers) > 1 or not loads_run_along(op, last.name):
        return 1
    moving = [load.buffer for load in op.loads if last.name in free_vars(load.indices[-1])]
    return _lanes_along(op.reduce_axes, moving, threads)


def _lanes_along(axes: Sequence[Axis], buffers: Iterable[Buffer], threads: int) -> int:
    """Return the lanes of the widest vectors that divide the last axis.

    They leave work for all threads.
    """
    lanes = min((VECTOR_BYTES // buffer.dtype.bytes for buffer in buffers), default=1)
    count = prod(axis.extent for axis in axes)
    while lanes > 1 and (axes[-1].extent % lanes or threads * lanes >= 2 * count):
        lanes //= 2
    return lanes


def _in_blocks(partial: PartialSketch, name: str, loop: str, lanes: int) -> PartialSketch:
    """Return the sketch with a block for some results, and a row of threads for each of them."""
    space = [axis.name for axis in partial.stage(name).op.axes]
    if space:
        partial, fused = _fuse(partial, name, space)
        rows = TileVariable(f"{name}.rows", MAX_ROWS, 2, MAX_ROWS, stage=name)
        partial = replace(partial, variables=(*partial.variables, rows))
        split = Split(name, fused, (Hole(rows.name, (1,)),))
        partial = partial.then(
            split,
            BindThread(name, split.made[0], "blockIdx.x"),
            BindThread(name, split.made[1], "threadIdx.y"),
        )
    partial = partial.then(BindThread(name, loop, "threadIdx.x"))
    return _with_partial_sums(partial, name, loop, lanes)


def _with_partial_sums(partial: PartialSketch, name: str, loop: str, lanes: int) -> PartialSketch:
    """Return the sketch with the sums of each thread computed in its loop.

    The sums of lanes are inside of them, as vectors.
    """
    shares = _shares_of(partial, name)
    partial = partial.then(ComputeAt(shares, name, loop))
    if lanes == 1:
        return partial
    of_lanes = _shares_of(partial, shares)
    *_, share, added = (iterator.name for iterator in partial.stage(shares).iterators)
    partial = partial.then(ComputeAt(of_lanes, shares, share), Unroll(shares, added))
    *others, lane, term = (iterator.name for iterator in partial.stage(of_lanes).iterators)
    return partial.then(Reorder(of_lanes, (*others, term, lane)), Vectorize(of_lanes, lane))


def _shares_of(partial: PartialSketch, name: str) -> str:
    """Return the stage that the sums of `name` were divided into."""
    sources = (partial.state.source(buffer.name) for buffer in partial.stage(name).op.reads)
    (share,) = {x.name for x in sources if x is not None and x.origin.making is Making.RFACTOR}
    return share


def _fuse(partial: PartialSketch, stage: str, loops: list[str]) -> tuple[PartialSketch, str]:
    """Return the sketch with `loops` fused, and the loop that they become."""
    if len(loops) == 1:
        return partial, loops[0]
    fuse = Fuse(stage, tuple(loops))
    return partial.then(fuse), fuse.made
