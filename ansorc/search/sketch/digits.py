"""TermsOfDigits: sums over quotients and remainders, with a term for each remainder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.lang.definitions import DEFINITIONS
from ansorc.schedule.stage import Making, Root
from ansorc.schedule.steps import Redefine
from ansorc.search.sketch.rule import PartialSketch, Verdict

_DEFINITION = "digits"


@dataclass(frozen=True)
class TermsOfDigits:
    """Write a sum whose terms read `k // c` and `k % c` as one over `k // c` of c terms.

    for k: y += nibble(w[k // 2], k % 2) * x[k]
    ->  for k: y += low(w[k]) * x[k * 2] + high(w[k]) * x[k * 2 + 1]
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is such a sum."""
        candidate = partial.stage(stage)
        is_free = candidate.is_untouched and isinstance(candidate.attach, Root)
        is_made = candidate.origin.making is not Making.DEFINITION or _is_redefined(partial, stage)
        if not is_free or is_made or not candidate.op.reduce_axes or candidate.scope:
            return Verdict.SKIP
        return Verdict.APPLY if DEFINITIONS[_DEFINITION](candidate.op) else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the other definition, which is visited again."""
        made = partial.then(Redefine(stage, _DEFINITION))
        yield made.with_pending(stage).with_trace(f"{_DEFINITION} of {stage}")


def _is_redefined(partial: PartialSketch, stage: str) -> bool:
    steps = (step for step in partial.state.steps if isinstance(step, Redefine))
    return any(step.stage == stage for step in steps)
