"""The search space of CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import BoolArray
from ansorc.search.cost_model import Float64Array
from ansorc.search.cpu.default import UntunedOnCpu, estimate_cycles
from ansorc.search.cpu.register_tiles import table_on_cpu, within_registers
from ansorc.search.cpu.rules import complete_on_cpu, rules_of
from ansorc.search.cpu.sampling import sample_on_cpu
from ansorc.search.features import MACHINE_FEATURES, FeatureSet
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.sketch import Sketch, TileVariable
from ansorc.search.space import Genes, SearchSpace
from ansorc.search.space.protocol import DefaultWishes, UntunedSearch
from ansorc.search.tiles import TileTable
from ansorc.target import Target


class CpuSpace:
    """Tiles of registers and caches, vectors, parallel loops."""

    features: FeatureSet = MACHINE_FEATURES

    def require_options(self, options: SearchOptions) -> None:
        """Take all options: each means something here."""

    def rules(self, options: SearchOptions) -> tuple[SketchRule, ...]:
        """Return the rules of the space that `options` name."""
        return rules_of(options)

    def complete(
        self, derived: Sequence[Sketch], options: SearchOptions
    ) -> Iterator[tuple[Sketch, Iterable[Sketch]]]:
        """Yield the sketches with all stages placed, packed or not."""
        return complete_on_cpu(derived, options)

    def table(self, variable: TileVariable) -> TileTable:
        """Return divisors, and ragged innermost lengths."""
        return table_on_cpu(variable)

    def legal(self, sketch: Sketch, genes: Genes, options: SearchOptions) -> BoolArray:
        """Return whether no register tile is too large."""
        return within_registers(sketch, genes, options.max_register_ratio)

    def sample(
        self, sketch: Sketch, rows: int, rng: np.random.Generator, options: SearchOptions
    ) -> Genes:
        """Return random programs whose register tiles fit."""
        return sample_on_cpu(sketch, rows, rng, options)

    def estimate(self, sketch: Sketch, genes: Genes) -> Float64Array:
        """Return the cycles of all statements."""
        return estimate_cycles(sketch, genes)

    def untuned(self, dag: ComputeDAG, target: Target, wishes: DefaultWishes) -> UntunedSearch:
        """Return a search in thousands of tilings of a few structures."""
        return UntunedOnCpu.of(dag, target, wishes)


SPACE: SearchSpace = CpuSpace()
