"""Local search: coordinate descent from the best measured programs, at the end of a run.

All programs one move away from them are compared: one tile length moved to another level, one other
choice, one stage in another place. What evolution leaves to chance is compared completely here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from ansorc.search.candidate import Candidate
from ansorc.search.cost_model import CostModel, Float64Array
from ansorc.search.evolution.population import fitness_of
from ansorc.search.evolution.selection import Proposal
from ansorc.search.evolution.variation import Offspring, Variation, neighbourhood_of, neighbours
from ansorc.search.features import Features
from ansorc.search.options import SearchOptions
from ansorc.search.space import Space, extract, phenotype_keys

PARENTS = 4
"""The fastest programs whose neighbours are compared."""


@dataclass(frozen=True, eq=False)
class _Scored:
    """Programs of one sketch with their scores by a model."""

    scores: Float64Array
    """[programs]."""
    features: Features
    """[programs, statements, features]."""


def local_search(
    space: Space,
    model: CostModel,
    rng: np.random.Generator,
    options: SearchOptions,
    measured: AbstractSet[int],
    seeds: Sequence[Candidate],
) -> Proposal:
    """Return up to `options.trials_per_round` neighbours of the first few `seeds`, the best first.

    `seeds` are measured programs, the fastest first, `score` their measured speed, 0 if they
    failed. What the model is wrong by for a program it is mostly wrong by for its neighbours too:
    these are ranked by the measured speed, changed as the model thinks that it changes.
    """
    variation = Variation(space, rng, options)
    parents = [seed for seed in seeds[:PARENTS] if seed.score > 0]
    groups = [[_itself(seed), *_neighbours(seed, variation)] for seed in parents]
    fitness = iter(
        _score_together(space, model, [group for near_seed in groups for group in near_seed])
    )
    best: dict[int, Candidate] = {}
    scored = 0
    for seed, (_, *around) in zip(parents, groups, strict=True):
        own_score = next(fitness).scores[0]
        for number, genes in around:
            sketch = space.sketches[number]
            keys: list[int] = phenotype_keys(sketch, genes).tolist()
            seen = next(fitness)
            scores = seed.score * seen.scores / own_score
            scored += len(genes)
            rows = zip(genes, keys, seen.features, scores.tolist(), strict=True)
            for row, key, features, score in rows:
                if key not in measured and (key not in best or score > best[key].score):
                    best[key] = Candidate(sketch, number, row, key, features, score)
    ranked = sorted(best.values(), key=lambda neighbour: -neighbour.score)[
        : options.trials_per_round
    ]
    ranked = [  # copied, or each would keep all that it was chosen from
        replace(neighbour, genes=neighbour.genes.copy(), features=neighbour.features.copy())
        for neighbour in ranked
    ]
    return Proposal(tuple(ranked), not ranked, scored)


def _neighbours(seed: Candidate, variation: Variation) -> Iterator[Offspring]:
    """Yield programs one move away from `seed`, by sketch."""
    yield seed.number, neighbours(seed.sketch, seed.genes, variation.options)
    for number in neighbourhood_of(variation.space).relocated[seed.number]:
        yield number, variation.migrate((seed.number, seed.genes[None, :]), number)


def _itself(seed: Candidate) -> Offspring:
    """Return `seed` as offspring of its sketch."""
    return seed.number, seed.genes[None, :]


def _score_together(
    space: Space, model: CostModel, offspring: Sequence[Offspring]
) -> list[_Scored]:
    """Return the scores of each of `offspring`; those of one sketch are scored together."""
    seen: dict[int, _Scored] = {}
    for number in {number for number, _ in offspring}:
        numbers = [position for position, group in enumerate(offspring) if group[0] == number]
        genes = np.concatenate([offspring[position][1] for position in numbers])
        features = extract(space.sketches[number], genes, space.target)
        ends = np.cumsum([len(offspring[position][1]) for position in numbers])[:-1]
        scores = fitness_of(model, features).scores
        parts = zip(np.split(scores, ends), np.split(features, ends), strict=True)
        seen |= {position: _Scored(*part) for position, part in zip(numbers, parts, strict=True)}
    return [seen[position] for position in range(len(offspring))]
