"""Populations: the programs of one sketch with their features, and the island that evolves them.

To extract the features of a program takes far longer than to score it again. So the random programs
that evolution begins with are the same in all rounds, and more than one round would draw: as the
model learns, it finds others among them good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import IntArray
from ansorc.search.candidate import Candidate
from ansorc.search.cost_model import SCORED_SECONDS, CostModel, Float64Array
from ansorc.search.evolution.sampling import all_programs, sample
from ansorc.search.evolution.variation import Parents
from ansorc.search.features import Features, estimate_cycles
from ansorc.search.memo import memoize
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space, extract, phenotype_keys
from ansorc.search.space.phenotype import Keys

MIN_INITIAL = 32
"""Random programs that are drawn of each sketch, at least."""
INITIAL_GENERATIONS = 4
"""Random programs that are drawn of all sketches together, in generations."""

_drawing = attrgetter(
    "population", "preselected_share", "is_simd_aware", "max_register_ratio", "parallel_ratios",
    "serial_share",
)  # fmt: skip
"""The options that say which programs are drawn."""
SELECTION_PRESSURE = 2.0
"""Parents have rank `n * u ** SELECTION_PRESSURE` for a uniform u: better ones have
more offspring."""
MIN_SECONDS = 1e-12


def _no_keys() -> Keys:
    return np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Population:
    """Programs of one sketch, none twice, with what a cost model is asked about."""

    keys: Keys
    """[rows]."""
    genes: Genes
    """[rows, columns]."""
    features: Features
    """[rows, statements, features]."""

    def at(self, places: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Population:
        """Return the programs at `places`."""
        return Population(self.keys[places], self.genes[places], self.features[places])


@dataclass
class Island:
    """The programs of one sketch in the current generation, the best first.

    It is a subpopulation of its own, as in the island model of evolutionary search.
    """

    number: int
    space: Space
    model: CostModel
    genes: Genes
    keys: Keys = field(default_factory=_no_keys)
    scores: Float64Array = field(default_factory=lambda: np.zeros(0))
    times: Float64Array = field(default_factory=lambda: np.zeros((0, 0)))
    """[programs, statements], as in `Fitness`."""
    is_complete: bool = False
    """Whether it holds every program of its sketch."""
    known: Keys = field(default_factory=_no_keys)
    """The keys of all programs that were ever added."""
    batches: list[Population] = field(default_factory=list[Population])
    """The populations that the model scored, in their order."""

    @property
    def sketch(self) -> Sketch:
        """The sketch whose programs these are."""
        return self.space.sketches[self.number]

    @property
    def scored(self) -> int:
        """How many programs the model was asked about."""
        return sum(len(batch.keys) for batch in self.batches)

    def add(self, genes: Genes, preselected_share: float = 1.0) -> None:
        """Score the programs among `genes` that were never seen, and sort them in.

        The model is asked about the `preselected_share` of them that have the best analytic
        estimates; the rest are forgotten.
        """
        if not len(genes):
            return
        programs = population_of(self.space, self.number, genes, self.known)
        self.known = np.concatenate([self.known, programs.keys])
        if preselected_share < 1:
            programs = programs.at(preselect(programs.features, preselected_share))
        self._sort_in(programs)

    def begin(self, programs: Population) -> None:
        """Score `programs` and sort them in; none was seen before."""
        self.known = np.concatenate([self.known, programs.keys])
        self._sort_in(programs)

    def _sort_in(self, programs: Population) -> None:
        if not len(programs.keys):
            return
        fitness = fitness_of(self.model, programs.features)
        self.batches.append(programs)
        self.genes = np.concatenate([self.genes, programs.genes])
        self.keys = np.concatenate([self.keys, programs.keys])
        self.scores = np.concatenate([self.scores, fitness.scores])
        self.times = np.concatenate([self.times.reshape(-1, fitness.times.shape[1]), fitness.times])
        self.keep(np.argsort(-self.scores, kind="stable"))

    def keep(self, places: IntArray) -> None:
        """Forget the programs that are not at `places`."""
        self.genes, self.keys = self.genes[places], self.keys[places]
        self.scores, self.times = self.scores[places], self.times[places]

    def features(self, keys: Keys) -> dict[int, Features]:
        """Return what the model was asked about the programs with `keys`, by key."""
        by_key: dict[int, Features] = {}
        for batch in self.batches if len(keys) else ():
            chosen = batch.at(np.isin(batch.keys, keys))
            # copied, or each row would keep the whole batch that it is from
            by_key.update(zip(chosen.keys.tolist(), map(np.copy, chosen.features), strict=True))
        return by_key

    def parents(self, count: int, rng: np.random.Generator) -> Parents:
        """Return `count` programs, the better ones more often; all by rank, not by score."""
        ranks = (len(self.genes) * rng.random(count) ** SELECTION_PRESSURE).astype(np.int64)
        return Parents(self.number, self.genes[ranks], self.times[ranks])


class _Drawing:
    """Options that are equal if the same programs are drawn by them."""

    def __init__(self, options: SearchOptions) -> None:
        self.options = options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Drawing) and _drawing(self.options) == _drawing(other.options)

    def __hash__(self) -> int:
        return hash(_drawing(self.options))


@dataclass(frozen=True, eq=False)
class InitialPopulation:
    """The programs that all evolutions of one sketch begin with."""

    programs: Population
    is_complete: bool
    """Whether they are all programs of the sketch."""


def initial_population(space: Space, number: int, options: SearchOptions) -> InitialPopulation:
    """Return all programs of the sketch `number` of `space`, if one generation can hold them.

    Else random ones, the `options.preselected_share` of them with the best analytic estimates;
    always the same.
    """
    return _draw_initial(space, number, _Drawing(options))


@memoize
def _draw_initial(space: Space, number: int, drawing: _Drawing) -> InitialPopulation:
    """Return the programs that `initial_population` promises."""
    options = drawing.options
    sketch = space.sketches[number]
    everything = all_programs(sketch, options.population, options)
    if everything is not None:
        return InitialPopulation(population_of(space, number, everything), is_complete=True)
    rng = np.random.default_rng([space.seed, number])
    share = INITIAL_GENERATIONS * options.population // len(space.sketches)
    drawn = population_of(space, number, sample(sketch, max(MIN_INITIAL, share), rng, options))
    if options.preselected_share < 1:
        drawn = drawn.at(preselect(drawn.features, options.preselected_share))
    return InitialPopulation(drawn, is_complete=False)


def population_of(
    space: Space, number: int, genes: Genes, skipped: Keys | None = None
) -> Population:
    """Return the different programs among `genes` of the sketch `number`, but for `skipped`."""
    sketch = space.sketches[number]
    keys, first = np.unique(phenotype_keys(sketch, genes), return_index=True)
    if skipped is not None:
        is_new = ~np.isin(keys, skipped, assume_unique=True)
        keys, first = keys[is_new], first[is_new]
    genes = genes[first]
    return Population(keys, genes, extract(sketch, genes, space.target))


def with_seeds(initial: Population, seeds: Sequence[Candidate]) -> Population:
    """Return `initial` and those of the `seeds`, of the same sketch, that are not among them."""
    keys: set[int] = set(initial.keys.tolist())
    new = list({seed.key: seed for seed in seeds if seed.key not in keys}.values())
    if not new:
        return initial
    return Population(
        np.concatenate([initial.keys, np.array([seed.key for seed in new], dtype=np.uint64)]),
        np.concatenate([initial.genes, np.stack([seed.genes for seed in new])]),
        np.concatenate([initial.features, np.stack([seed.features for seed in new])]),
    )


@runtime_checkable
class StatementModel(Protocol):
    """A cost model that knows the time of each statement.

    Its `predict` is SCORED_SECONDS by the sum of these times.
    """

    def predict_statements(self, features: Features) -> Float64Array:
        """Return the expected seconds of each statement: [rows, statements]."""
        ...


@dataclass(frozen=True, eq=False)
class Fitness:
    """How fast a model expects some programs to be."""

    scores: Float64Array
    """[rows]: the model's, the higher the faster."""
    times: Float64Array
    """[rows, statements] in any unit, for comparing the same statement of two programs."""


def fitness_of(model: CostModel, features: Features) -> Fitness:
    """Return what `model` says of programs, the analytic estimate where it knows no statements."""
    if isinstance(model, StatementModel):
        times = model.predict_statements(features)
        return Fitness(SCORED_SECONDS / np.maximum(times.sum(axis=1), MIN_SECONDS), times)
    return Fitness(model.predict(features), estimate_cycles(features))


def preselect(features: Features, share: float) -> npt.NDArray[np.intp]:
    """Return the places of the `share` of programs with the best analytic estimates, in order."""
    cycles = estimate_cycles(features).sum(axis=1)
    count = int(np.ceil(share * len(features)))
    return np.sort(np.argsort(cycles, kind="stable")[:count])
