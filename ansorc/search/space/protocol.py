"""SearchSpace: what the search asks about the programs of one kind of machine.

Evolution, records, measuring, the untuned default and the task scheduler know nothing else of a
machine. `ansorc.search.cpu` and `ansorc.search.gpu` are two such spaces; a back end may name a
third, see `ansorc.codegen.base.SearchedBackend`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, eq=False)
class SketchPart:
    """Programs that are compared with each other: those of a sketch, or of a part of it."""

    sketch: Sketch
    rows: int
    """How many are drawn at random; all are scored if there are no more."""
    rounds: int
    """How often the best of them are changed, at most."""
    fixed: Mapping[int, int] = field(default_factory=dict[int, int])
    """Genes that all of them have, by column."""
    like: SketchPart | None = None
    """A part with the same genes, where the first programs of this one come from, if any is legal
    here. Parts that are like each other are like the same one."""


@dataclass(frozen=True, eq=False)
class Structure:
    """A whole sketch as parts whose costs add up: what is best for one is best in any program."""

    sketch: Sketch
    parts: tuple[SketchPart, ...]
    penalty: float = 1.0
    """How many times as fast its programs must seem, as their estimate is uncertain."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Programs of a part, and their costs [rows]."""

    part: SketchPart
    genes: Genes
    costs: Float64Array

    @property
    def best(self) -> float:
        """The least cost."""
        return float(self.costs.min())


@dataclass(frozen=True)
class Budget:
    """How much is tried for an untuned program, besides the rows and rounds of each part."""

    survivors: int
    """Programs of a round that are changed in the next one."""
    children: int
    """Programs that are made of them."""
    refined: int
    """Structures that are refined, at most."""
    within: float
    """How many times as long as the best one they may take before."""
    patience: int
    """Rounds over which the least cost is compared."""
    enough: float
    """The search ends once the least cost is more than this share of that `patience` rounds ago."""


@dataclass(frozen=True)
class DefaultWishes:
    """The wishes for an untuned program."""

    rewrite_layout: bool = True
    redefine: bool = True
    """As in `SearchOptions`."""
    like: Sequence[Steps] = ()
    """Programs for other extents: one that reads the constants as one of them does is preferred."""


class UntunedSearch(Protocol):
    """The parts that a space gives to the search for one untuned program; the loop is the engine's.

    See `ansorc.search.evolution.by_estimate`.
    """

    @property
    def budget(self) -> Budget:
        """How much is tried."""
        ...

    def structures(self, cost_of: Callable[[Structure], float]) -> Iterable[Structure]:
        """Yield the structures to choose from.

        `cost_of` tells the least cost of one before its programs are refined, so that few of many
        need be tried.
        """
        ...

    def start(self, part: SketchPart, rng: np.random.Generator) -> Genes:
        """Return [rows, columns] random legal programs of a part."""
        ...

    def neighbours(self, part: SketchPart, parents: Genes, rng: np.random.Generator) -> Genes:
        """Return a changed program for each of `parents`, legal as they are."""
        ...

    def estimate(self, part: SketchPart, genes: Genes) -> tuple[Genes, Float64Array]:
        """Return the programs, with genes set that follow from the others, and their costs."""
        ...

    def choose(self, pool: Pool, count: int) -> Pool:
        """Return up to `count` different programs of a refined pool, the one to take first."""
        ...

    def finish(self, steps: Steps, search: Callable[[UntunedSearch], Steps]) -> Steps:
        """Return the program that is made of the best one, `steps`; `search` may be asked again."""
        ...


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

    def untuned(self, dag: ComputeDAG, target: Target, wishes: DefaultWishes) -> UntunedSearch:
        """Return how the program is found that is used without any tuning.

        `ansorc.search.evolution.by_estimate.EverySketch` makes one of the other methods.
        """
        ...
