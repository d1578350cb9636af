"""StageAnalysis: the analysis of one statement for a whole population, made once for all that ask.

The learned model's features and the choice of the untuned default read the same numbers: loops,
accesses, footprints, reuse, the register tile, the shares of the cores, and the cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ansorc.schedule.stage import At, Stage
from ansorc.search.features.access import Access, Places, accesses_of, in_panels, places_of
from ansorc.search.features.columns import FloatArray
from ansorc.search.features.estimate import Conversions, EstimateFeatures, estimate_features
from ansorc.search.features.loop_nest import LoopNest, LoopNests
from ansorc.search.features.loops import LoopFeatures, loop_features
from ansorc.search.features.memory import CacheFeatures, Level, cache_features, levels_of
from ansorc.search.features.operations import (
    OperationCounts,
    operation_counts,
    widened_factors,
)
from ansorc.search.features.registers import (
    RegisterFeatures,
    Tile,
    Vectors,
    register_features,
    tile_of,
    vectors_of,
)
from ansorc.target import Target


@dataclass(frozen=True, eq=False)
class StageAnalysis:
    """The statement of `nest` in each program of `nests`, on `target`."""

    nests: LoopNests
    nest: LoopNest
    target: Target

    @cached_property
    def counts(self) -> OperationCounts:
        """Return what one iteration does."""
        return operation_counts(self.nest.stage.op)

    @cached_property
    def accesses(self) -> list[Access]:
        """Return what it writes, then what it reads."""
        accesses = accesses_of(self.nests, self.nest, self.target)
        return [in_panels(self.nests, access) for access in accesses]

    @cached_property
    def places(self) -> Places:
        """Return what it touches inside each of its loops."""
        return places_of(self.nest, self.accesses)

    @cached_property
    def loops(self) -> LoopFeatures:
        """The loops around it."""
        return loop_features(self.nest, self.nests.rows, self.target.cores)

    @cached_property
    def vectors(self) -> Vectors:
        """The vectorised loops."""
        return vectors_of(self.nest, self.accesses, self.target)

    @cached_property
    def tile(self) -> Tile:
        """The register tile."""
        return tile_of(self.nest, self.accesses, self.vectors, self.target)

    @cached_property
    def registers(self) -> RegisterFeatures:
        """The register tile against the machine."""
        instructions = self.counts.vector_instructions(self.target.costs)
        return register_features(
            self.tile, self.vectors, self.accesses, self.places, instructions, self.target,
            self._is_read_out(),
        )  # fmt: skip

    @property
    def inside(self) -> list[Stage]:
        """The stages inside loops that it reads."""
        sources = [self.nests.state.source(buffer.name) for buffer in self.nest.stage.op.reads]
        return [s for s in sources if s is not None and isinstance(s.attach, At)]

    def _is_read_out(self) -> FloatArray:
        """1 where all that it reads of other statements inside its loops is in register tiles."""
        op, inside = self.nest.stage.op, self.inside
        is_read_out = np.full(self.nests.rows, bool(inside) and op.combiner is None)
        most = self.target.costs.tile_ratio * self.target.vector_registers * self.vectors.lanes
        for source in inside:
            is_sum = source.op.combiner is not None
            is_read_out &= is_sum & self.nests.nest(source).is_tile(most)
        return is_read_out.astype(np.float32)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Return what moves between the cache levels, for each access."""
        return levels_of(self.accesses, self.places, self.loops, self.target)

    @cached_property
    def caches(self) -> CacheFeatures:
        """The cache levels."""
        operations = self.places.inside[0] * self.counts.total
        return cache_features(self.levels, self.places, operations)

    @cached_property
    def estimate(self) -> EstimateFeatures:
        """About how long it takes."""
        return estimate_features(
            self.nests.state, self.nest.stage, self.counts, self.loops, self.registers,
            self.caches, self._conversions(), self.target,
        )  # fmt: skip

    def _conversions(self) -> Conversions:
        """Return what it does to widen the factors that it loads."""
        names, costs = widened_factors(self.nest.stage.op), self.target.costs
        total = np.zeros(self.nests.rows, dtype=np.float32)
        for access, loads in zip(self.accesses, self.tile.loads, strict=True):
            if access.buffer.name in names and access.is_read:
                vector = self.vectors.loop
                is_alone = vector is not None and not access.moving[vector]
                alone = costs.widen_element if is_alone else 1.0
                bits = costs.widen_bfloat if access.buffer.dtype.is_bfloat else costs.widen_float16
                total = total + loads * bits * alone
        return Conversions(len(names), total)
