"""AddRfactor: divide a long reduction among the cores, or among the lanes of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from math import log, prod

from ansorc.lang.compute_op import Axis
from ansorc.schedule.steps import Fuse, Reorder, RFactor, Split
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.loops import adjoining_terms
from ansorc.search.sketch.predicates import needs_rfactor, needs_tiling
from ansorc.search.sketch.rule import Verdict
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

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return whether the space loops of `stage` leave cores without work."""
        return Verdict.APPLY if needs_rfactor(draft, stage) else Verdict.SKIP

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield a draft for each number of shares and of vectors that the reduction fills."""
        axes = draft.stage(stage).op.reduce_axes
        terms = prod(axis.extent for axis in axes)
        wanted = {min(terms, each * draft.target.cores) for each in self.parts_per_core}
        for parts in sorted(wanted):
            yield _in_parts(draft, stage, parts)
        along = adjoining_terms(draft, draft.stage(stage).op)
        for count in self.vectors if along is not None else ():
            length = count * draft.lanes(draft.stage(stage).op)
            axis = next(axis for axis in axes if axis.name == along)
            if length < axis.extent:
                yield _in_lanes(draft, stage, axis, length)


def _in_parts(draft: Draft, stage: str, parts: int) -> Draft:
    """The outer part of the outermost reduce loops, fused if short, becomes the first axis."""
    axes = list(dropwhile(lambda axis: axis.extent == 1, draft.stage(stage).op.reduce_axes))
    terms = [prod(each.extent for each in axes[: n + 1]) for n in range(len(axes))]
    count = 1 + sum(product < parts for product in terms)
    loop, extent = axes[0].name, terms[count - 1]
    if count > 1:
        fuse = Fuse(stage, tuple(each.name for each in axes[:count]))
        draft, loop = draft.then(fuse), fuse.made
    length = -(-extent // _close_divisor(extent, parts))
    is_tiled = needs_tiling(draft, stage)
    split = Split(stage, loop, (length,))
    divided = draft.then(split, RFactor(stage, split.made[0], axis=0))
    (partial,) = divided.state.beyond(draft.state)
    divided = divided.saying(f"rfactor {stage} in {-(-extent // length)} parts")
    return divided.visiting(partial.name) if is_tiled else divided


def _in_lanes(draft: Draft, stage: str, axis: Axis, length: int) -> Draft:
    """The inner part of a reduce loop becomes the last axis and the innermost loop."""
    split = Split(stage, axis.name, (length,))
    factored = split.made[1]
    made = draft.then(split, RFactor(stage, factored))
    (partial,) = made.state.beyond(draft.state)
    others = tuple(it.name for it in partial.iterators if it.name != factored)
    words = f"rfactor {stage} in {length} lanes"
    return made.then(Reorder(partial.name, (*others, factored))).saying(words)


def _close_divisor(extent: int, parts: int) -> int:
    """The divisor of `extent` next to `parts`, if one is within a factor of 2; else `parts`."""
    near = [n for n in divisors(extent) if parts <= 2 * n and n <= 2 * parts]
    return min(near, key=lambda n: abs(log(n / parts)), default=parts)
