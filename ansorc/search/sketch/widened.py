"""WidenFactors: factors of 16 bits are widened once, where no instruction multiplies them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.lang.definitions import widened_factors
from ansorc.schedule.steps import Redefine
from ansorc.search.sketch.predicates import is_tiled_first
from ansorc.search.sketch.rule import PartialSketch, Verdict


@dataclass(frozen=True)
class WidenFactors:
    """Read factors of float16 and bfloat16 that serve many results from a copy in float32.

        for i, j, k: C += float32(A) * float32(B)   ->   for i, k: A.widened = float32(A)
                                                         for i, j, k: C += A.widened * float32(B)

    Beyond the paper. In registers each element would be converted on its own for each tile of
    columns. The copy is placed like any stage: whole, or in a loop of the product. What a
    dot-product instruction computes has its own rule.
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is to be tiled, and has such factors."""
        if not is_tiled_first(partial, stage):
            return Verdict.SKIP
        is_there = widened_factors(partial.stage(stage).op) is not None
        return Verdict.APPLY_AND_STOP if is_there else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the copies, and the stage to be visited again."""
        made = partial.then(Redefine(stage, "widened"))
        yield made.with_pending(stage).with_trace(f"widen the factors of {stage}")
