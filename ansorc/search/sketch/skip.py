"""Skip: leave a stage as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.rule import Verdict


@dataclass(frozen=True)
class Skip:
    """Always applies where no rule before it has stopped (paper, Table 1, rule 1)."""

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return APPLY."""
        return Verdict.APPLY

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield the draft unchanged."""
        yield draft
