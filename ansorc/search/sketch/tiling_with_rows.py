"""TilingWithRows: tile a stage in blocks of the rows that its readers reduce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.ir.expr import Var
from ansorc.lang.access import reads_of
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import ComputeAt
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.predicates import is_tiled_first
from ansorc.search.sketch.rule import Verdict
from ansorc.search.sketch.tiling import SSRSRS, Tiling, declared, is_split, tiled
from ansorc.search.sketch.tiling_with_fusion import shared_tiles


@dataclass(frozen=True)
class TilingWithRows:
    """Compute a few rows of a stage, and all that becomes of them, while they are in a cache.

        for i, j, k: C += …                     for i0:
        for i, j: M[i] = max(M[i], C)               for i1, j1, k0, i2, j2, k1, i3, j3: C += …
        for i, j: E = exp(C - M[i])      ->         for i1':
        for i, j: D = E / …                             for j: M = max(M, C)
                                                        for j: E = exp(C - M)
                                                        for j: D = E / …

    Beyond the paper, which fuses a stage with element-wise consumers only: a softmax reads its
    operand three times.
    """

    tiling: Tiling = SSRSRS

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return whether `stage` has reuse, and readers that work on rows of it."""
        if not is_tiled_first(draft, stage) or not self.tiling.fusible((1,)):
            return Verdict.SKIP
        return Verdict.APPLY if _row_stages(draft, stage) else Verdict.SKIP

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield drafts with the last reader in blocks of rows, and the others by block or row."""
        *between, last = _row_stages(draft, stage)
        rows = len(last.op.axes) - 1
        opened = declared(draft, draft.stage(stage), self.tiling)
        opened, (blocks, inside) = shared_tiles(opened, stage, last, rows, self.tiling, 1)
        for place, word in ((inside[-1], "rows"), (blocks[-1], "blocks of rows")):
            made = opened
            for reader in reversed(between):
                made = made.then(ComputeAt(reader.name, last.name, place))
            made = made.then(ComputeAt(stage, last.name, blocks[-1]))
            words = f"tile {stage} in {word} of {last.name}"
            yield tiled(made, stage, self.tiling, fused=1).saying(words)


def _row_stages(draft: Draft, name: str) -> tuple[Stage, ...]:
    """Return what reads the stage, and what reads that, where all of it works row by row.

    The last one is read by none of them, and has the shape of the stage; one at least reduces.
    Empty where it is otherwise.
    """
    stage = draft.stage(name)
    found = _readers(draft, stage)
    if len(found) < 2 or stage.is_output or any(not reader.is_untouched for reader in found):
        return ()
    *between, last = found
    extents = [axis.extent for axis in stage.op.axes]
    rows = len(extents) - 1
    is_like = extents == [axis.extent for axis in last.op.axes] and not last.op.reduce_axes
    if not is_like or rows < 1 or not is_split(stage.op.axes[rows - 1]):
        return ()
    if any(reader.is_output for reader in between) or draft.state.readers(last.name):
        return ()
    sources = [stage, *between]
    is_by_row = all(_reads_own_row(r, source, rows) for r in found for source in sources)
    reduces = any(reader.op.reduce_axes for reader in between)
    return tuple(found) if is_by_row and reduces else ()


def _readers(draft: Draft, stage: Stage) -> list[Stage]:
    """All stages that need the results of `stage`, producers first."""
    needed = {stage.name}
    found: list[Stage] = []
    for other in draft.state.stages:
        if any(other in draft.state.readers(name) for name in needed):
            needed.add(other.name)
            found.append(other)
    return found


def _reads_own_row(reader: Stage, source: Stage, rows: int) -> bool:
    """Whether the first indices of each load of `source` are the first axes of `reader`."""
    own = [Var(axis.name) for axis in reader.op.axes[:rows]]
    if len(own) != rows:
        return False
    return all(list(access[:rows]) == own for access in reads_of(reader.op, source.op))
