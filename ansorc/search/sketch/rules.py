"""The rules of Table 1 of the paper, but for rfactor: skip, inline, tile, fuse, cache write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import CacheWrite, ComputeAt, ComputeInline, Reorder, Split
from ansorc.search.sketch.predicates import (
    CACHE_SCOPE,
    fusible_consumer,
    is_cache_write,
    is_inlineable,
    needs_tiling,
)
from ansorc.search.sketch.rule import PartialSketch, Verdict
from ansorc.search.sketch.tiling import (
    SSRSRS,
    Tiling,
    add_tile_vars,
    apply_tiling,
    is_split,
    variable_name,
)
from ansorc.search.sketch.windows import SHORT_WORK, count_repeated_work, count_work_along_others


@dataclass(frozen=True)
class Skip:
    """Always applies where no rule before it has stopped (paper, Table 1, rule 1)."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return APPLY."""
        return Verdict.APPLY

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch unchanged."""
        yield partial


@dataclass(frozen=True)
class AlwaysInline:
    """Inline a stage that is element-wise, cheap and not an output (paper, Table 1, rule 2).

    Beyond the paper, a stage that is read in windows is inlined only if that repeats little work.
    """

    most_repeated: int | None = SHORT_WORK
    """Operations and loads that each element of a reader may repeat; None for any number."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` is strictly inlineable."""
        if not is_inlineable(partial, stage) or self._repeats_much(partial, stage):
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the stage inlined."""
        yield partial.then(ComputeInline(stage)).with_trace(f"inline {stage}")

    def _repeats_much(self, partial: PartialSketch, stage: str) -> bool:
        most, source = self.most_repeated, partial.stage(stage).op
        return most is not None and any(
            count_repeated_work(reader.op, source) > most
            or count_work_along_others(partial.state, reader.op, source) > most
            for reader in partial.state.readers(stage)
        )


@dataclass(frozen=True)
class MultiLevelTiling:
    """Split all axes of a stage with data reuse by `tiling` (paper, Table 1, rule 3).

    for i: for j: for k: C[i, j] += …   ->
        for i0: for j0: for i1: for j1: for k0: for i2: for j2: for k1: for i3: for j3: C += …
    """

    tiling: Tiling = SSRSRS

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` reads some element for several of its results."""
        return Verdict.APPLY_AND_STOP if needs_tiling(partial, stage) else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the stage tiled where it is."""
        opened = add_tile_vars(partial, partial.stage(stage), self.tiling)
        yield apply_tiling(opened, stage, self.tiling).with_trace(f"tile {stage}")


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

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` has reuse and one consumer that reads it element by element.

        A stage made by a cache write is of use only inside its consumer: no other rule is asked.
        """
        if not needs_tiling(partial, stage) or fusible_consumer(partial, stage) is None:
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP if is_cache_write(partial, stage) else Verdict.APPLY

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield one sketch for each level of fusion."""
        consumer = fusible_consumer(partial, stage)
        assert consumer is not None
        opened = add_tile_vars(partial, partial.stage(stage), self.tiling)
        for level in self.tiling.fusible(self.levels):
            yield fuse(opened, stage, consumer, self.tiling, level)


def fuse(
    partial: PartialSketch, stage: str, consumer: Stage, tiling: Tiling, level: int
) -> PartialSketch:
    """Return the sketch with `stage` tiled inside tile `level` of `consumer`.

    The axes of the consumer are the first of those of the stage; it reduces inside of the tiles.
    The tile variables of `stage` are declared.
    """
    axes = len(consumer.op.axes)
    opened, levels = share_tiles(partial, stage, consumer, axes, tiling, level)
    at = ComputeAt(stage, consumer.name, levels[level - 1][-1])
    words = f"tile {stage} in {consumer.name} at {level}"
    return apply_tiling(opened.then(at), stage, tiling, fused=level).with_trace(words)


def share_tiles(
    partial: PartialSketch, stage: str, consumer: Stage, axes: int, tiling: Tiling, level: int
) -> tuple[PartialSketch, list[list[str]]]:
    """Return the sketch with the first `axes` of a consumer in the outer tiles of `stage`.

    And the consumer's loops by level. Its other loops come inside.
    """
    producer = partial.stage(stage)
    pairs = list(zip(producer.op.axes, consumer.op.axes[:axes], strict=False))
    for tiled_axis, axis in pairs:
        if is_split(axis):
            inner = tuple(range(level, tiling.space_levels))
            groups = [*((above,) for above in range(1, level)), inner]
            lengths = tuple(Hole(variable_name(producer, tiled_axis), group) for group in groups)
            partial = partial.then(Split(consumer.name, axis.name, lengths))
    divided = partial.stage(consumer.name)
    by_level = [
        [divided.loop(a.name, depth) for _, a in pairs if depth == 0 or is_split(a)]
        for depth in range(level + 1)
    ]
    order = [name for names in by_level for name in names]
    order += [axis.name for axis in consumer.op.axes[len(pairs) :]]
    order += [axis.name for axis in consumer.op.reduce_axes]
    opened = partial.then(Reorder(consumer.name, tuple(order)))
    return opened, by_level


@dataclass(frozen=True)
class AddCacheWrite:
    """Compute a stage with reuse in a local tile and copy that (paper, Table 1, rule 5).

    for i, j, k: C += …   ->   for i, j, k: C.local += …
                               for i, j: C = C.local
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` has reuse but no consumer to be fused with, nor a hint not to."""
        if not needs_tiling(partial, stage) or fusible_consumer(partial, stage) is not None:
            return Verdict.SKIP
        is_refused = "no_cache_write" in dict(partial.stage(stage).op.hints)
        return Verdict.SKIP if is_refused else Verdict.APPLY

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the computing stage to be visited next."""
        written = partial.then(CacheWrite(stage, CACHE_SCOPE)).with_trace(f"cache write {stage}")
        (computing,) = written.state.beyond(partial.state)
        yield written.with_pending(computing.name)
