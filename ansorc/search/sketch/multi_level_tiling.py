"""MultiLevelTiling: tile a stage that reuses its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.predicates import needs_tiling
from ansorc.search.sketch.rule import Verdict
from ansorc.search.sketch.tiling import SSRSRS, Tiling, declared, tiled


@dataclass(frozen=True)
class MultiLevelTiling:
    """Split all axes of a stage with data reuse by `tiling` (paper, Table 1, rule 3).

    for i: for j: for k: C[i, j] += …   ->
        for i0: for j0: for i1: for j1: for k0: for i2: for j2: for k1: for i3: for j3: C += …
    """

    tiling: Tiling = SSRSRS

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return whether `stage` reads some element for several of its results."""
        return Verdict.APPLY_AND_STOP if needs_tiling(draft, stage) else Verdict.SKIP

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield the draft with the stage tiled where it is."""
        opened = declared(draft, draft.stage(stage), self.tiling)
        yield tiled(opened, stage, self.tiling).saying(f"tile {stage}")
