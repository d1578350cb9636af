"""Reductions that the threads of a block make together, alone or for the rows of their reader.

    for i, k: S[i] += A[i, k]    ->    blockIdx.x i0, threadIdx.y i1:
                                         threadIdx.x k1: S[i] += (Σ A[i, k0 * threads + k1] over k0)

Paper, §4.1 ("cross-thread reduction"). The sums of one thread stay in a register; then the threads
of a warp exchange theirs.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ansorc.errors import ScheduleError
from ansorc.lang.access import reads_of, simple_access
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Root, Stage
from ansorc.schedule.steps import BindThread, ComputeAt, Fuse, RFactor, Split
from ansorc.search.gpu.binding import is_bound
from ansorc.search.sketch.rule import PartialSketch
from ansorc.search.sketch.sketch import TileVariable

MAX_ROWS = 8
"""Results of one block at most, each by threads of its own."""
LEAST_TERMS = 33
"""A sum of fewer terms is made by one thread."""


def long_reductions(partial: PartialSketch) -> list[Stage]:
    """Return the reductions that no rule has tiled and that are longer than a warp."""
    return [
        stage
        for stage in partial.state.stages
        if isinstance(stage.attach, Root)
        and stage.op.reduce_axes
        and not is_bound(partial, stage)
        and terms_of(stage) >= LEAST_TERMS
    ]


def terms_of(stage: Stage) -> int:
    """Return how many terms each sum of `stage` has."""
    return prod(axis.extent for axis in stage.op.reduce_axes)


def reduced_together(partial: PartialSketch, threads: int) -> PartialSketch:
    """Return the sketch with each long reduction made by `threads` threads."""
    for stage in long_reductions(partial):
        if threads < 2 * terms_of(stage):
            partial, loop = _factored(partial, stage, threads)
            partial = _in_blocks(partial, stage.name, loop)
    return partial.with_trace(f"reduce by {threads} threads")


def with_rows(partial: PartialSketch, threads: int) -> PartialSketch | None:
    """Return the sketch with the long reductions made by the blocks of their reader's rows.

    None where they are not of the rows of one stage that is element-wise.
    """
    stages = long_reductions(partial)
    reader = _row_reader(partial, stages)
    if reader is None or any(threads >= 2 * terms_of(stage) for stage in stages):
        return None
    rows = len(stages[0].op.axes)
    partial, row = _rows_bound(partial, reader, rows, threads)
    try:
        for stage in reversed(stages):
            partial, loop = _factored(partial, stage, threads)
            partial = partial.then(
                ComputeAt(stage.name, reader.name, row), BindThread(stage.name, loop, "threadIdx.x")
            )
            partial = _with_partial_sums(partial, stage.name, loop)
    except ScheduleError:
        return None  # something else reads a reduction
    return partial.with_trace(f"rows of {reader.name} by {threads} threads")


def _row_reader(partial: PartialSketch, stages: list[Stage]) -> Stage | None:
    """The stage whose rows all of `stages` reduce, and which alone reads them."""
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


def _rows_bound(
    partial: PartialSketch, reader: Stage, rows: int, threads: int
) -> tuple[PartialSketch, str]:
    """The reader with a block for each row, and the loop over the rows."""
    name = reader.name
    outer = [axis.name for axis in reader.op.axes[:rows]]
    inner = [axis.name for axis in reader.op.axes[rows:]]
    partial, row = _fused(partial, name, outer)
    partial, column = _fused(partial, name, inner)
    split = Split(name, column, (threads,))
    return (
        partial.then(
            split,
            BindThread(name, row, "blockIdx.x"),
            BindThread(name, split.made[1], "threadIdx.x"),
        ),
        row,
    )


def _factored(partial: PartialSketch, stage: Stage, threads: int) -> tuple[PartialSketch, str]:
    """The sketch with the sums of `stage` in `threads` shares, and the loop over these."""
    name = stage.name
    partial, loop = _fused(partial, name, [axis.name for axis in stage.op.reduce_axes])
    split = Split(name, loop, (threads,))
    return partial.then(split, RFactor(name, split.made[1])), split.made[1]


def _in_blocks(partial: PartialSketch, name: str, loop: str) -> PartialSketch:
    """A block for some results, a row of threads for each."""
    space = [axis.name for axis in partial.stage(name).op.axes]
    if space:
        partial, fused = _fused(partial, name, space)
        rows = TileVariable(f"{name}.rows", MAX_ROWS, 2, MAX_ROWS, stage=name)
        partial = replace(partial, variables=(*partial.variables, rows))
        split = Split(name, fused, (Hole(rows.name, (1,)),))
        partial = partial.then(
            split,
            BindThread(name, split.made[0], "blockIdx.x"),
            BindThread(name, split.made[1], "threadIdx.y"),
        )
    partial = partial.then(BindThread(name, loop, "threadIdx.x"))
    return _with_partial_sums(partial, name, loop)


def _with_partial_sums(partial: PartialSketch, name: str, loop: str) -> PartialSketch:
    stage = partial.stage(name)
    sources = [partial.state.source(buffer.name) for buffer in stage.op.reads]
    (shares,) = {
        source.name for source in sources if source is not None and source.origin.source == name
    }
    return partial.then(ComputeAt(shares, name, loop))


def _fused(partial: PartialSketch, stage: str, loops: list[str]) -> tuple[PartialSketch, str]:
    if len(loops) == 1:
        return partial, loops[0]
    fuse = Fuse(stage, tuple(loops))
    return partial.then(fuse), fuse.made
