"""AlwaysInline: compute a cheap element-wise stage where it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.schedule.steps import ComputeInline
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.predicates import is_inlineable
from ansorc.search.sketch.rule import Verdict


@dataclass(frozen=True)
class AlwaysInline:
    """Inline a stage that is element-wise, cheap and not an output (paper, Table 1, rule 2)."""

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return whether `stage` is strictly inlineable."""
        return Verdict.APPLY_AND_STOP if is_inlineable(draft, stage) else Verdict.SKIP

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield the draft with the stage inlined."""
        yield draft.then(ComputeInline(stage)).saying(f"inline {stage}")
