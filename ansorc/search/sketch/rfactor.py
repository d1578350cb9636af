"""Rules that make a reduction parallel or vectorised by an rfactor (paper, Table 1, rule 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, product
from math import log, prod

from ansorc.lang.access import has_data_reuse
from ansorc.lang.compute_op import Axis
from ansorc.lang.reducer import Reducer
from ansorc.schedule.schedule import replay
from ansorc.schedule.steps import Fuse, Reorder, RFactor, Split
from ansorc.search.sketch.loops import adjoining_terms, terms_adjoin
from ansorc.search.sketch.predicates import (
    CHUNKS_PER_CORE,
    is_made,
    is_rfactored,
    needs_rfactor,
    needs_tiling,
)
from ansorc.search.sketch.rule import PartialSketch, Verdict
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.tiles import divisors


@dataclass(frozen=True)
class AddRfactor:
    """Reduce shares of a reduction on their own, then the partial results (paper, Table 1, rule 6).

        for i, k: C[i] += A[i, k]   ->   for k0, i, k1: C.rf[k0, i] += A[i, k0 * n + k1]
                                         for i, k0: C[i] += C.rf[k0, i]

                                    or   for i, k0, k1: C.rf[i, k1] += A[i, k0 * n + k1]
                                         for i, k1: C[i] += C.rf[i, k1]

    The first has k0 to run in parallel, and is tiled where the reduction would be; the second has
    k1 to be vectorised. The shape of `C.rf` is part of the sketch: each length is one of its own.
    """

    parts_per_core: tuple[int, ...] = (4,)
    """The shares that run in parallel, for each core."""
    vectors: tuple[int, ...] = (4,)
    """The vectors of partial results, where they lie in lanes."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether the space loops of `stage` leave cores without work."""
        return Verdict.APPLY if needs_rfactor(partial, stage) else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield a sketch for each number of shares and of vectors that the reduction fills."""
        axes = partial.stage(stage).op.reduce_axes
        terms = prod(axis.extent for axis in axes)
        wanted = {min(terms, each * partial.target.cores) for each in self.parts_per_core}
        for parts in sorted(wanted):
            yield _in_parts(partial, stage, parts)
        along = adjoining_terms(partial, partial.stage(stage).op)
        for count in self.vectors if along is not None else ():
            length = count * partial.lanes(partial.stage(stage).op)
            axis = next(axis for axis in axes if axis.name == along)
            if length < axis.extent:
                yield _in_lanes(partial, stage, axis, length)


@dataclass(frozen=True)
class TuplesInLanes:
    """Reduce tuples along a row, such as (value, index), in the lanes of vectors.

        for i, k: (V, I)[i] = best of A[i, k]
    ->  for i, k0, k1: (V.rf, I.rf)[i, k1] = best of A[i, k0 * n + k1]
        for i, k1: (V, I)[i] = best of (V.rf, I.rf)[i, k1]

    Passes make partial results of sums and extremes alone (`vectorize_reductions`).
    """

    vectors: tuple[int, ...] = (4,)
    """The vectors of partial results."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether the tuples of one result adjoin in memory, and fill the lanes twice."""
        is_fit = self._axis(partial, stage) is not None
        return Verdict.APPLY_AND_STOP if is_fit else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield a sketch for each number of vectors."""
        axis = self._axis(partial, stage)
        assert axis is not None
        for count in self.vectors:
            yield _in_lanes(partial, stage, axis, count * partial.lanes(partial.stage(stage).op))

    def _axis(self, partial: PartialSketch, name: str) -> Axis | None:
        stage = partial.stage(name)
        op, is_made_here = stage.op, is_rfactored(partial, name)
        if not isinstance(op.combiner, Reducer) or not stage.is_untouched or is_made_here:
            return None
        if stage.scope or needs_rfactor(partial, name):
            return None
        longest = max(self.vectors) * partial.lanes(op)
        fitting = [axis for axis in op.reduce_axes if axis.extent >= 2 * longest]
        return next((axis for axis in reversed(fitting) if terms_adjoin(op, axis.name)), None)


def _in_parts(partial: PartialSketch, stage: str, parts: int) -> PartialSketch:
    """Return the sketch with the outermost reduce loops' outer part as the first axis.

    The loops are fused if they are short.
    """
    axes = list(dropwhile(lambda axis: axis.extent == 1, partial.stage(stage).op.reduce_axes))
    terms = [prod(each.extent for each in axes[: n + 1]) for n in range(len(axes))]
    count = 1 + sum(product < parts for product in terms)
    loop, extent = axes[0].name, terms[count - 1]
    if count > 1:
        fuse = Fuse(stage, tuple(each.name for each in axes[:count]))
        partial, loop = partial.then(fuse), fuse.made
    length = -(-extent // _close_divisor(extent, parts))
    is_tiled = needs_tiling(partial, stage)
    split = Split(stage, loop, (length,))
    divided = partial.then(split, RFactor(stage, split.made[0], axis=0))
    (shares,) = divided.state.beyond(partial.state)
    divided = divided.with_trace(f"rfactor {stage} in {-(-extent // length)} parts")
    return divided.with_pending(shares.name) if is_tiled else divided


def _in_lanes(partial: PartialSketch, stage: str, axis: Axis, length: int) -> PartialSketch:
    """Return the sketch with a reduce loop's inner part as the last axis and innermost loop."""
    split = Split(stage, axis.name, (length,))
    factored = split.made[1]
    made = partial.then(split, RFactor(stage, factored))
    (shares,) = made.state.beyond(partial.state)
    others = tuple(it.name for it in shares.iterators if it.name != factored)
    words = f"rfactor {stage} in {length} lanes"
    return made.then(Reorder(shares.name, (*others, factored))).with_trace(words)


def _close_divisor(extent: int, parts: int) -> int:
    """Return the divisor of `extent` next to `parts`, within a factor of 2; else `parts`."""
    near = [n for n in divisors(extent) if parts <= 2 * n and n <= 2 * parts]
    return min(near, key=lambda n: abs(log(n / parts)), default=parts)


@dataclass(frozen=True)
class AddOpenRfactor:
    """Reduce shares of a reduction on their own, then the partial results (paper, Table 1, rule 6).

        for i, k: C[i] += A[i, k]   ->   for i, k0, k1: C.rf[i, k0] += A[i, k0 * 1 + k1]
                                         for i, k0: C[i] += C.rf[i, k0]

                                    or   for i, k0, k1: C.rf[i, k1] += A[i, k0 * 1 + k1]
                                         for i, k1: C[i] += C.rf[i, k1]

    All reduce loops are fused before, and neither stage is visited again. The length of k1 is not
    chosen yet: `with_lengths` makes a sketch of each.
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is a reduction longer than wide (HasMoreReductionParallel)."""
        candidate = partial.stage(stage)
        is_new = candidate.is_untouched and not is_made(partial, stage)
        terms = prod(axis.extent for axis in candidate.op.reduce_axes)
        if not is_new or terms == 1:
            return Verdict.SKIP
        cores = partial.target.cores
        is_long = terms > cores
        if has_data_reuse(candidate.op):
            space = prod(axis.extent for axis in candidate.op.axes)
            is_long = space <= min(terms, CHUNKS_PER_CORE * cores)
        return Verdict.APPLY if is_long else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield a sketch with the outer and one with the inner part as an axis of its own."""
        axes = tuple(axis.name for axis in partial.stage(stage).op.reduce_axes)
        loop = axes[0]
        if len(axes) > 1:
            fuse = Fuse(stage, axes)
            partial, loop = partial.then(fuse), fuse.made
        split = Split(stage, loop, (1,))
        partial = partial.then(split)
        outer, inner = split.made
        yield partial.then(RFactor(stage, outer)).with_trace(f"rfactor {stage} by {outer}")
        factored = partial.then(RFactor(stage, inner))
        (shares,) = factored.state.beyond(partial.state)
        order = tuple(it.name for it in shares.iterators if it.name != inner)
        factored = factored.then(Reorder(shares.name, (*order, inner)))
        yield factored.with_trace(f"rfactor {stage} by {inner}")


def with_lengths(sketch: Sketch, limit: int, most: int) -> Iterator[Sketch]:
    """Yield `sketch` for each way to choose the lengths that `AddOpenRfactor` left open.

    They divide the reduction and are at most `limit`. Of more than `most` ways an even choice is
    made. A sketch without such steps is yielded as it is.
    """
    places = list(_open_splits(sketch))
    lengths = [[n for n in divisors(extent) if n <= limit] for _, extent in places]
    chosen = list(product(*lengths))
    for values in chosen[:: -(-len(chosen) // most)]:
        steps = list(sketch.steps)
        words = [sketch.name] if sketch.name else []
        for (number, _), length in zip(places, values, strict=True):
            split = steps[number]
            assert isinstance(split, Split)
            steps[number] = replace(split, lengths=(length,))
            words.append(f"{split.made[1]} of {length}")
        yield replace(sketch, name=", ".join(words), steps=tuple(steps))


def _open_splits(sketch: Sketch) -> Iterator[tuple[int, int]]:
    """Yield the position of each split whose length is open, and the extent that it divides."""
    open_stages = {a.stage for a in sketch.derivation if a.rule == AddOpenRfactor.__name__}
    for number, step in enumerate(sketch.steps[1:]):
        split = sketch.steps[number]
        if isinstance(step, RFactor) and isinstance(split, Split) and step.stage in open_stages:
            loops = replay(sketch.dag, sketch.steps[:number]).stage(split.stage).iterators
            extent = next(loop.extent for loop in loops if loop.name == split.iterator)
            assert isinstance(extent, int)
            yield number, extent
