"""AddCacheWrite: give a stage with reuse a consumer to be fused with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.schedule.steps import CacheWrite
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.predicates import CACHE_SCOPE, fusible_consumer, needs_tiling
from ansorc.search.sketch.rule import Verdict


@dataclass(frozen=True)
class AddCacheWrite:
    """Compute a stage with reuse in a local tile and copy that (paper, Table 1, rule 5).

    for i, j, k: C += …   ->   for i, j, k: C.local += …
                               for i, j: C = C.local
    """

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return whether `stage` has reuse but no consumer to be fused with, nor a hint not to."""
        if not needs_tiling(draft, stage) or fusible_consumer(draft, stage) is not None:
            return Verdict.SKIP
        is_refused = "no_cache_write" in dict(draft.stage(stage).op.hints)
        return Verdict.SKIP if is_refused else Verdict.APPLY

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield the draft with the computing stage to be visited next."""
        written = draft.then(CacheWrite(stage, CACHE_SCOPE)).saying(f"cache write {stage}")
        (computing,) = written.state.beyond(draft.state)
        yield written.visiting(computing.name)
