"""SearchSpace: what the search asks about the programs of one kind of machine.

Evolution, records, measuring, the untuned default and the task scheduler know nothing else of a
machine. `ansorc.search.cpu` and `ansorc.search.gpu` are two such spaces; a back end may name a
third, see `ansorc.codegen.base.SearchedBackend`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import BoolArray
from ansorc.schedule.names import Steps
from ansorc.search.cost_model import Float64Array
from ansorc.search.features.feature_set import FeatureSet
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.sketch import Sketch, TileVariable
from ansorc.search.tiles import TileTable
from ansorc.target import Target

Genes: TypeAlias = npt.NDArray[np.int64]
"""Programs of a sketch [rows, columns], or one of them [columns]; see the module `genes`."""


class SearchSpace(Protocol):
    """The programs that are searched for one kind of machine. It has no state."""

    @property
    def features(self) -> FeatureSet:
        """The numbers that cost models are asked about, with the estimate among them."""
        ...

    def require_options(self, options: SearchOptions) -> None:
        """Raise OptionError for options that mean nothing here."""
        ...

    def rules(self, options: SearchOptions) -> tuple[SketchRule, ...]:
        """Return the rules that derive sketches, in the order in which they are asked."""
        ...

    def complete(
        self, derived: Sequence[Sketch], options: SearchOptions
    ) -> Iterator[tuple[Sketch, Iterable[Sketch]]]:
        """Yield each derived sketch with the whole sketches that it is the structure of.

        Whole sketches hold every step and list what is open: tile variables and choices. They are
        made as they are iterated over, so an error belongs to the derived sketch.
        """
        ...

    def table(self, variable: TileVariable) -> TileTable:
        """Return the tile lengths that `variable` may have; its genes are row numbers."""
        ...

    def legal(self, sketch: Sketch, genes: Genes, options: SearchOptions) -> BoolArray:
        """Return [rows]: which of the programs `genes` [rows, columns] may be measured."""
        ...

    def sample(
        self, sketch: Sketch, rows: int, rng: np.random.Generator, options: SearchOptions
    ) -> Genes:
        """Return [rows, columns] random legal programs of `sketch`."""
        ...

    def estimate(self, sketch: Sketch, genes: Genes) -> Float64Array:
        """Return [rows]: about how long each program takes, in any unit."""
        ...

    def default_steps(
        self,
        dag: ComputeDAG,
        target: Target,
        *,
        rewrite_layout: bool = True,
        redefine: bool = True,
        like: Sequence[Steps] = (),
    ) -> Steps:
        """Return the program that is used without any tuning; always the same one.

        `rewrite_layout` and `redefine` are those of `SearchOptions`; one that reads the constants
        as a program of `like` does is preferred. A space without layouts ignores all three.
        `ansorc.search.default.best_by_estimate` makes one of the other methods.
        """
        ...
