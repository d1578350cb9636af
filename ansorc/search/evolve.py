"""Evolve: breed programs that a cost model scores high; whole generations are matrices of genes.

Each sketch has a flock: its programs of the current generation, the best first. A generation scores
the new ones, keeps an elite, and lets the best have the most children.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import CostModel
from ansorc.search.enumerate import all_programs
from ansorc.search.features import extract
from ansorc.search.options import SearchOptions
from ansorc.search.pick import Candidate, Offer, picked
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space, crossover, mutate, phenotype_keys, sample, tiles

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

MIN_FLOCK = 32
"""Programs of each sketch in a generation, at least."""
MAX_FLOCKS = 6
"""Sketches that are bred in a generation: the most successful ones, and one drawn from the rest."""
FLOOR_SHARE = 0.3
"""Share of a generation that these divide evenly; the rest follows success."""
PRESSURE = 2.0
"""Parents have rank `n * u ** PRESSURE` for a uniform u: above 1, better ones breed more."""


@dataclass(frozen=True)
class Evolution:
    """The outcome of one evolution."""

    candidates: tuple[Candidate, ...]
    """Programs that were not measured, in the order in which to measure them."""
    exhausted: bool
    """Whether no program was left over: there may be nothing new in the space."""
    scored: int
    """Different programs that the model was asked about."""


def evolve(
    space: Space,
    model: CostModel,
    rng: np.random.Generator,
    options: SearchOptions,
    measured: AbstractSet[int] = frozenset(),
    seeds: Sequence[Candidate] = (),
) -> Evolution:
    """Return up to `options.trials_per_round` programs of `space` that are not in `measured`.

    `measured` holds the keys of programs that are known; `seeds` are the best of these, to breed
    from. Sketches whose programs are few are scored completely. A share of `options.epsilon` is
    drawn at random instead of by score. The result depends on the arguments alone.
    """
    flocks = _founded(space, model, rng, options, seeds)
    for _ in range(options.generations):
        for flock, size in _sizes(flocks, options.population, rng):
            _breed(flock, size, rng, options)
    _refreshed(flocks, rng, options)
    offers = [_offer(flock, measured) for flock in flocks]
    candidates = picked(offers, rng, options)
    scored = sum(len(flock.known) for flock in flocks)
    return Evolution(tuple(candidates), not candidates, scored)


@dataclass
class _Flock:
    """The programs of one sketch, sorted by score, the best first."""

    number: int
    space: Space
    model: CostModel
    genes: Genes
    keys: Keys = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))
    is_complete: bool = False
    """Whether it holds every program of its sketch."""
    known: Keys = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    """The keys of all programs that were ever scored."""

    @property
    def sketch(self) -> Sketch:
        return self.space.sketches[self.number]

    def add(self, genes: Genes) -> None:
        """Score the programs among `genes` that were never seen, and sort them in."""
        keys, first = np.unique(phenotype_keys(self.sketch, genes), return_index=True)
        is_new = ~np.isin(keys, self.known, assume_unique=True)
        keys, genes = keys[is_new], genes[first[is_new]]
        if not len(keys):
            return
        scores = self.model.predict(extract(self.sketch, genes, self.space.target))
        self.known = np.concatenate([self.known, keys])
        self.genes = np.concatenate([self.genes, genes])
        self.keys = np.concatenate([self.keys, keys])
        self.scores = np.concatenate([self.scores, scores])
        self.keep(np.argsort(-self.scores, kind="stable"))

    def keep(self, places: IntArray) -> None:
        """Forget the programs that are not at `places`."""
        self.genes, self.keys = self.genes[places], self.keys[places]
        self.scores = self.scores[places]


def _founded(
    space: Space,
    model: CostModel,
    rng: np.random.Generator,
    options: SearchOptions,
    seeds: Sequence[Candidate],
) -> list[_Flock]:
    """The first generation: the seeds, and programs drawn at random."""
    share = max(MIN_FLOCK, options.population // max(1, len(space.sketches)))
    bred = max(1, int(options.measured_share * options.population))
    flocks: list[_Flock] = []
    for number, sketch in enumerate(space.sketches):
        everything = all_programs(sketch, options.population, options)
        genes = sample(sketch, share, rng, options) if everything is None else everything
        own = [seed.genes for seed in seeds if seed.sketch == number][:bred]
        flock = _Flock(number, space, model, genes[:0], is_complete=everything is not None)
        flock.add(
            np.concatenate([np.array(own, dtype=np.int64).reshape(-1, genes.shape[1]), genes])
        )
        flocks.append(flock)
    return flocks


def _sizes(
    flocks: Sequence[_Flock], population: int, rng: np.random.Generator
) -> list[tuple[_Flock, int]]:
    """The flocks to breed and their sizes, by how many of their programs are among the best."""
    scores = np.concatenate([flock.scores for flock in flocks])
    owners = np.repeat(np.arange(len(flocks)), [len(flock.scores) for flock in flocks])
    best = np.argsort(-scores, kind="stable")[: max(1, len(scores) // 8)]
    success = np.bincount(owners[best], minlength=len(flocks)) / max(1, len(best))
    ranked: list[int] = np.argsort(-success, kind="stable").tolist()
    order = [number for number in ranked if not flocks[number].is_complete]
    chosen, rest = order[: MAX_FLOCKS - 1], order[MAX_FLOCKS - 1 :]
    chosen += [rest[int(rng.integers(len(rest)))]] if rest else []
    shares = [FLOOR_SHARE / len(chosen) + (1 - FLOOR_SHARE) * success[n] for n in chosen]
    sizes = [max(MIN_FLOCK, int(share * population)) for share in shares]
    return [(flocks[number], size) for number, size in zip(chosen, sizes, strict=True)]


def _breed(flock: _Flock, size: int, rng: np.random.Generator, options: SearchOptions) -> None:
    """Replace all but the elite of a flock by `size` children, and score these."""
    parents = flock.genes[_ranks(len(flock.genes), size, rng)]
    others = flock.genes[_ranks(len(flock.genes), size, rng)]
    crossed = rng.random(size) < options.crossover_rate
    mutated = (rng.random(size) < options.mutation_rate) | ~crossed
    children = parents.copy()
    if crossed.any():
        children[crossed] = crossover(flock.sketch, parents[crossed], others[crossed], rng, options)
    if mutated.any():
        children[mutated] = mutate(flock.sketch, children[mutated], rng, options)
    elite = max(options.trials_per_round, round(options.elite_share * size))
    flock.keep(np.arange(min(elite, len(flock.genes))))
    flock.add(children)


def _ranks(count: int, size: int, rng: np.random.Generator) -> IntArray:
    return (count * rng.random(size) ** PRESSURE).astype(np.int64)


def _refreshed(flocks: Sequence[_Flock], rng: np.random.Generator, options: SearchOptions) -> None:
    """Add new random programs to some flocks, for what is measured by chance to be chosen from."""
    wanted = round(options.epsilon * options.trials_per_round)
    order: list[int] = rng.permutation(len(flocks)).tolist()
    for flock in [flocks[number] for number in order[: max(1, wanted)]]:
        if not flock.is_complete:
            flock.add(sample(flock.sketch, MIN_FLOCK, rng, options))


def _offer(flock: _Flock, measured: AbstractSet[int]) -> Offer:
    """What a flock has that was not measured."""
    is_new = ~np.isin(flock.keys, np.array(sorted(measured), dtype=np.uint64))
    genes = flock.genes[is_new]
    return Offer(
        flock.number, genes, flock.keys[is_new], flock.scores[is_new], _niches(flock.sketch, genes)
    )


def _niches(sketch: Sketch, genes: Genes) -> IntArray:
    """[rows] numbers of the innermost tiles: the last level of every tile variable."""
    levels = [chosen[:, -1] for chosen in tiles(sketch, genes).values()]
    if not levels:
        return np.zeros(len(genes), dtype=np.int64)
    return np.unique(np.stack(levels, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
