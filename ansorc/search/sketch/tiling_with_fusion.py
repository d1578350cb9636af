"""MultiLevelTilingWithFusion: tile a stage inside the tiles of its element-wise consumer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import ComputeAt, Reorder, Split
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.predicates import fusible_consumer, is_cache_write, needs_tiling
from ansorc.search.sketch.rule import Verdict
from ansorc.search.sketch.tiling import (
    SSRSRS,
    Tiling,
    declared,
    is_split,
    tiled,
    variable_name,
)


@dataclass(frozen=True)
class MultiLevelTilingWithFusion:
    """Tile a stage and its consumer alike, and compute it in one of the consumer's outer tiles.

        for i, j, k: C += …          for i0, j0:                  (level 1)
        for i, j: D = f(C)     ->        for i1, j1, k0, i2, j2, k1, i3, j3: C += …
                                         for i1', j1': D = f(C)

    Paper, Table 1, rule 4, for each of `levels`.
    """

    tiling: Tiling = SSRSRS
    levels: tuple[int, ...] = (1, 2)

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return whether `stage` has reuse and one consumer that reads it element by element.

        A stage made by a cache write is of use only inside its consumer: no other rule is asked.
        """
        if not needs_tiling(draft, stage) or fusible_consumer(draft, stage) is None:
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP if is_cache_write(draft, stage) else Verdict.APPLY

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield one draft for each level of fusion."""
        consumer = fusible_consumer(draft, stage)
        assert consumer is not None
        opened = declared(draft, draft.stage(stage), self.tiling)
        for level in self.tiling.fusible(self.levels):
            yield fused(opened, stage, consumer, self.tiling, level)


def fused(draft: Draft, stage: str, consumer: Stage, tiling: Tiling, level: int) -> Draft:
    """Return the draft with `stage` tiled inside tile `level` of `consumer`.

    The axes of the consumer are the first of those of the stage; it reduces inside of the tiles.
    The tile variables of `stage` are declared.
    """
    axes = len(consumer.op.axes)
    opened, levels = shared_tiles(draft, stage, consumer, axes, tiling, level)
    at = ComputeAt(stage, consumer.name, levels[level - 1][-1])
    words = f"tile {stage} in {consumer.name} at {level}"
    return tiled(opened.then(at), stage, tiling, fused=level).saying(words)


def shared_tiles(
    draft: Draft, stage: str, consumer: Stage, axes: int, tiling: Tiling, level: int
) -> tuple[Draft, list[list[str]]]:
    """Return the draft with the first `axes` of a consumer in the outer tiles of `stage`.

    And the consumer's loops by level. Its other loops come inside.
    """
    producer = draft.stage(stage)
    pairs = list(zip(producer.op.axes, consumer.op.axes[:axes], strict=False))
    for own, axis in pairs:
        if is_split(axis):
            inner = tuple(range(level, tiling.space_levels))
            groups = [*((above,) for above in range(1, level)), inner]
            lengths = tuple(Hole(variable_name(producer, own), group) for group in groups)
            draft = draft.then(Split(consumer.name, axis.name, lengths))
    divided = draft.stage(consumer.name)
    by_level = [
        [divided.loop(a.name, depth) for _, a in pairs if depth == 0 or is_split(a)]
        for depth in range(level + 1)
    ]
    order = [name for names in by_level for name in names]
    order += [axis.name for axis in consumer.op.axes[len(pairs) :]]
    order += [axis.name for axis in consumer.op.reduce_axes]
    opened = draft.then(Reorder(consumer.name, tuple(order)))
    return opened, by_level
