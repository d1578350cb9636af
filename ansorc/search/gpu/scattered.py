"""A rule for terms that go to places on a GPU: each thread brings some of them, atomically."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from ansorc.schedule.extent import Hole
from ansorc.schedule.steps import BindThread, Fuse, Reorder, Split
from ansorc.search.gpu.binding import MAX_THREADS
from ansorc.search.sketch.rule import PartialSketch, Verdict
from ansorc.search.sketch.sketch import TileVariable

MOST_LANES = 128
"""Neighbours of a row that threads of a block bring together."""


@dataclass(frozen=True)
class AtomicUpdates:
    """Share out the terms that go to places among blocks and threads, which update them atomically.

        for n, d: S[I[n], d] += V[n, d]   ->   blockIdx.x n0: threadIdx.y n1: for d0:
                                                   threadIdx.x d1: atomic S[I[n], d] += V[n, d]

    Threads along x bring neighbours of a row, where there are rows.
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether the terms of `stage` go to places."""
        candidate = partial.stage(stage)
        is_scattered = bool(candidate.op.places) and candidate.is_untouched
        return Verdict.APPLY_AND_STOP if is_scattered else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the loops bound."""
        op = partial.stage(stage).op
        partial, terms = _fused(partial, stage, [axis.name for axis in op.reduce_axes])
        row = prod(axis.extent for axis in op.loop_axes)
        lanes = min(MOST_LANES, 1 << (row - 1).bit_length())
        most = MAX_THREADS // lanes
        threads = TileVariable(f"{stage}.threads", most, 2, most, stage=stage)
        partial = replace(partial, variables=(*partial.variables, threads))
        split = Split(stage, terms, (Hole(threads.name, (1,)),))
        block, thread = split.made
        partial = partial.then(split, BindThread(stage, block, "blockIdx.x"))
        if op.loop_axes:
            partial, along = _fused(partial, stage, [axis.name for axis in op.loop_axes])
            across = Split(stage, along, (lanes,))
            order = (block, thread, *across.made)
            partial = partial.then(
                across,
                Reorder(stage, order),
                BindThread(stage, thread, "threadIdx.y"),
                BindThread(stage, across.made[1], "threadIdx.x"),
            )
        else:
            partial = partial.then(BindThread(stage, thread, "threadIdx.x"))
        yield partial.with_trace(f"update {stage} atomically")


def _fused(partial: PartialSketch, stage: str, loops: list[str]) -> tuple[PartialSketch, str]:
    """Return the sketch with neighbouring loops fused, and the name of the one loop."""
    if len(loops) == 1:
        return partial, loops[0]
    fuse = Fuse(stage, tuple(loops))
    return partial.then(fuse), fuse.made
