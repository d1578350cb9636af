"""The search space of a toy machine: blocks whose sides are powers of two, held in a scratchpad."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ansorc.lang import ComputeDAG
from ansorc.schedule.extent import BoolArray, Hole
from ansorc.schedule.steps import Reorder, Split
from ansorc.search.cost_model import Float64Array
from ansorc.search.evolution.by_estimate import EverySketch
from ansorc.search.features import FeatureSet, estimate_cycles, estimating_set
from ansorc.search.features.columns import LOG, FloatArray, columns_of, values_of
from ansorc.search.features.loop_nest import LoopNest, LoopNests
from ansorc.search.options import SearchOptions
from ansorc.search.sketch import PartialSketch, Sketch, SketchRule, UnrollLimit, Verdict
from ansorc.search.sketch.rules import Skip
from ansorc.search.sketch.sketch import TileVariable
from ansorc.search.space import Genes, SearchSpace, extract, tiles
from ansorc.search.space.protocol import DefaultWishes, UntunedSearch
from ansorc.search.tiles import TileTable
from ansorc.target import Target

SCRATCHPAD, LARGEST_SIDE = 256, 32
"""Elements of a block, and of a side of it, at most."""
START, STEP = 40.0, 2.0
"""Cycles to begin a block, and of each iteration."""


@dataclass(frozen=True)
class InBlocks:
    """Go along a matrix in blocks: i, j, rest -> i.0, j.0, i.1, j.1, rest."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether the stage has two axes at least."""
        found = partial.stage(stage)
        fits = found.is_untouched and len(found.op.axes) > 1
        return Verdict.APPLY_AND_STOP if fits else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the last two axes in blocks, their sides open."""
        op = partial.stage(stage).op
        pair = op.axes[-2:]
        sides = [
            TileVariable(f"{stage}.{a.name}", a.extent, 2, LARGEST_SIDE, stage=stage, axis=a.name)
            for a in pair
        ]
        splits = [Split(stage, side.axis, (Hole(side.name, (1,)),)) for side in sides]
        order = [f"{axis.name}.{level}" for level in (0, 1) for axis in pair]
        rest = [axis.name for axis in op.reduce_axes]
        outer = [axis.name for axis in op.axes[:-2]]
        opened = replace(partial, variables=(*partial.variables, *sides))
        blocked = opened.then(*splits, Reorder(stage, (*outer, *order, *rest)))
        yield blocked.with_trace(f"{stage} in blocks")


@dataclass(frozen=True, eq=False)
class BlockFeatures:
    """The loops of a statement."""

    iterations: FloatArray = field(metadata=LOG)
    """Of all loops."""
    innermost: FloatArray
    """Of the innermost loop of more than one."""


@dataclass(frozen=True, eq=False)
class BlockEstimate:
    """About how long a statement takes."""

    cycles: FloatArray = field(metadata=LOG)
    """START of each innermost loop, and STEP of each iteration."""


def _describe(nests: LoopNests, nest: LoopNest, target: Target) -> Iterator[FloatArray]:
    iterations = nest.inside[0]
    innermost = nest.extents.reshape(-1).take(nest.innermost) if len(nest.loops) else iterations
    yield from values_of(BlockFeatures(iterations, innermost))
    yield from values_of(BlockEstimate(iterations * (STEP + START / innermost)))


(ESTIMATE,) = columns_of(BlockEstimate, "estimate")
FEATURES = estimating_set("toy", 1, columns_of(BlockFeatures, "block"), ESTIMATE, _describe)


class ToySpace:
    """What the search asks about the toy machine."""

    features: FeatureSet = FEATURES

    def require_options(self, options: SearchOptions) -> None:
        """Take all of them; few mean something here."""

    def rules(self, options: SearchOptions) -> tuple[SketchRule, ...]:
        return (InBlocks(), Skip())

    def complete(
        self, derived: Sequence[Sketch], options: SearchOptions
    ) -> Iterator[tuple[Sketch, Iterable[Sketch]]]:
        for sketch in derived:
            stages = [stage.name for stage in sketch.state.stages if stage.op.reduce_axes]
            yield sketch, (replace(sketch, choices=tuple(UnrollLimit(s, (0, 4)) for s in stages)),)

    def table(self, variable: TileVariable) -> TileTable:
        """Return the powers of two up to the extent; each has two neighbours at most."""
        count = min(variable.extent, variable.innermost_limit).bit_length()
        sides = 1 << np.arange(count)
        rows = np.column_stack([-(-variable.extent // sides), sides])
        pairs = [(n, m) for n in range(count) for m in (n - 1, n + 1) if 0 <= m < count]
        sources, targets = np.array(pairs, np.int64).reshape(-1, 2).T
        starts = np.searchsorted(sources, np.arange(count + 1))
        return TileTable(rows, starts, targets, is_complete=True)

    def legal(self, sketch: Sketch, genes: Genes, options: SearchOptions) -> BoolArray:
        """Return whether the block of each stage fits the scratchpad."""
        sizes = dict[str, np.ndarray]()
        lengths = tiles(sketch, genes)
        for variable in sketch.variables:
            side = lengths[variable.name][:, 1]
            sizes[variable.stage] = sizes.get(variable.stage, np.ones_like(side)) * side
        good = [size <= SCRATCHPAD for size in sizes.values()]
        return np.logical_and.reduce(good) if good else np.ones(len(genes), dtype=bool)

    def sample(
        self, sketch: Sketch, rows: int, rng: np.random.Generator, options: SearchOptions
    ) -> Genes:
        counts = [len(self.table(variable)) for variable in sketch.variables]
        counts += [len(choice.values) for choice in sketch.choices]
        drawn = rng.integers(np.array(counts, np.int64), size=(64 * rows, len(counts)))
        return drawn[self.legal(sketch, drawn, options)][:rows]

    def estimate(self, sketch: Sketch, genes: Genes) -> Float64Array:
        return estimate_cycles(extract(sketch, genes, sketch.target)).sum(axis=1)

    def untuned(self, dag: ComputeDAG, target: Target, wishes: DefaultWishes) -> UntunedSearch:
        return EverySketch(dag, target)


SPACE: SearchSpace = ToySpace()
