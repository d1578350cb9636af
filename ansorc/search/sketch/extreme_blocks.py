"""ExtremesInBlocks: an argmax as the extreme of its terms, and then its place.

for i, k: (v, p) = best of x[i, k]    ->    for i: for k: best = max x[i, k]
                                                   for k: place = min (k if x[i, k] is best)
                                                   v, p = best, place
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.lang.definitions import DEFINITIONS
from ansorc.schedule.steps import Redefine
from ansorc.search.sketch.loops import terms_adjoin
from ansorc.search.sketch.predicates import is_made
from ansorc.search.sketch.rule import PartialSketch, Verdict

DEFINITION = "extreme"


@dataclass(frozen=True)
class ExtremesInBlocks:
    """Look for an extreme first and for its place then, if its terms adjoin in memory."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is an argmax or argmin whose terms fill vectors."""
        candidate = partial.stage(stage)
        op = candidate.op
        if not candidate.is_untouched or candidate.scope or is_made(partial, stage):
            return Verdict.SKIP
        is_fit = DEFINITIONS[DEFINITION](op) is not None
        return (
            Verdict.APPLY if is_fit and terms_adjoin(op, op.reduce_axes[-1].name) else Verdict.SKIP
        )

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the other definition, whose stages are visited."""
        made = partial.then(Redefine(stage, DEFINITION))
        for each in made.state.beyond(partial.state):
            made = made.with_pending(each.name)
        yield made.with_trace(f"{DEFINITION} of {stage}")
