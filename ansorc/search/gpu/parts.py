"""Long sums of few results in parts, by more blocks than the results have (split-K).

    for i, j, k: C += A * B    ->    for k0, i, j, k1: C.rf[k0, i, j] += A * B
                                     for i, j: C.local = (Σ C.rf[k0, i, j] over k0), C = C.local

The first is tiled as C would be. Beyond the paper, whose rule for such sums has the threads of one
block make them. A second kernel adds up the parts, always in the same order, so there are no atomic
operations. The number of parts is one of the sketch, see
`docs/decisions/0016-rfactor-lengths-are-sketches.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, log

from ansorc.lang.compute_op import Axis
from ansorc.schedule.stage import AxisKind, Root, Stage
from ansorc.schedule.steps import CacheWrite, ComputeAt, Reorder, RFactor, Split, Unroll, Vectorize
from ansorc.search.gpu.tiling import results_of
from ansorc.search.sketch.predicates import fusible_consumer, is_parallel_rfactor, is_tiled_first
from ansorc.search.sketch.rule import PartialSketch, Verdict
from ansorc.search.tiles import divisors

TILE_RESULTS = 64 * 64
"""Results of a block, about: with fewer multiprocessors' worth of them some have nothing to do."""
LEAST_TERMS, MAX_PARTS = 64, 256
"""Terms of each part, and a number that the terms of a part are a multiple of, if all are."""


@dataclass(frozen=True)
class SplitK:
    """Make the sums of a stage with few results in parts, for which there are more blocks."""

    blocks: tuple[float, ...] = (1.0, 4.0)
    """Blocks of `TILE_RESULTS` for each multiprocessor."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether multiprocessors are idle while a sum is long."""
        is_new = partial.stage(stage).is_untouched and is_tiled_first(partial, stage)
        return Verdict.APPLY if is_new and self._parts(partial, stage) else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield a sketch for each number of parts; the parts are to be tiled next."""
        axis = _longest(partial.stage(stage))
        for parts in self._parts(partial, stage):
            split = Split(stage, axis.name, (axis.extent // parts,))
            divided = partial.then(split, RFactor(stage, split.made[0], axis=0))
            (shares,) = divided.state.beyond(partial.state)
            if fusible_consumer(divided, stage) is None:
                divided = divided.then(CacheWrite(stage, "local"))
            yield divided.with_pending(shares.name).with_trace(f"{stage} in {parts} parts")

    def _parts(self, partial: PartialSketch, stage: str) -> list[int]:
        """Return the numbers of parts.

        There are none where one part is enough, or the terms have no such divisor.
        """
        candidate = partial.stage(stage)
        if not candidate.op.reduce_axes:
            return []
        terms = _longest(candidate).extent
        tiles = results_of(candidate.op) / TILE_RESULTS
        wanted = [each * partial.target.gpu.multiprocessors / tiles for each in self.blocks]
        possible = [
            parts for parts in divisors(terms // gcd(terms, LEAST_TERMS))
            if 2 <= parts <= MAX_PARTS and terms // parts >= LEAST_TERMS
        ]  # fmt: skip
        near = [
            min(possible, key=lambda parts: abs(log(parts / number)))
            for number in wanted
            if number >= 1.5 and possible
        ]
        return sorted(set(near))


def _longest(stage: Stage) -> Axis:
    """Return the longest reduce axis."""
    return max(stage.op.reduce_axes, key=lambda axis: axis.extent)


def adds_up_parts(partial: PartialSketch, stage: Stage) -> bool:
    """Return whether `stage` adds up what `SplitK` made, and one other stage reads it."""
    is_sum = isinstance(stage.attach, Root) and stage.is_untouched and bool(stage.op.reduce_axes)
    is_sum &= stage.op.ragged_axis is None
    sources = [partial.state.source(buffer.name) for buffer in stage.op.reads] if is_sum else []
    is_of_parts = any(
        source is not None
        and isinstance(source.attach, Root)
        and not source.op.reduce_axes  # it is tiled: its sums are in registers
        and is_parallel_rfactor(partial, source.name)
        for source in sources
    )
    return is_of_parts and fusible_consumer(partial, stage.name) is not None


def add_up_parts(partial: PartialSketch, name: str) -> PartialSketch:
    """Return the sketch with stage `name` computed by the threads of its only reader."""
    (reader,) = partial.state.readers(name)
    thread = next(it.name for it in reader.iterators if it.thread == "threadIdx.x")
    partial = partial.then(ComputeAt(name, reader.name, thread))
    loops = partial.stage(name).iterators
    space = [it.name for it in loops if it.kind is AxisKind.SPACE]
    parts = [it.name for it in loops if it.kind is AxisKind.REDUCE]
    partial = partial.then(Reorder(name, (*parts, *space)))
    return partial.then(*(Unroll(name, it) for it in space[:-1]), Vectorize(name, space[-1]))
