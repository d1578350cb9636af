"""Evolutionary search for programs that a cost model scores high, as matrices of genes.

Each sketch has an island: its programs of the current generation, the best first. A generation
scores the new ones, keeps an elite, and lets the best have the most offspring, some of it on other
islands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import ceil

import numpy as np

from ansorc.schedule.extent import IntArray
from ansorc.search.candidate import Candidate
from ansorc.search.cost_model import CostModel
from ansorc.search.evolution.population import Island, initial_population, with_seeds
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.selection import (
    ExplorationBonus,
    Proposal,
    Selected,
    SelectionPool,
    select,
)
from ansorc.search.evolution.variation import Offspring, Variation, mutate, neighbourhood_of
from ansorc.search.features import Features
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space, tiles

MIN_ISLAND = 32
"""Programs of each sketch in a generation, at least."""
MAX_ISLANDS = 6
"""Islands that have offspring in a generation: the most successful, and one drawn from the rest."""
FLOOR_SHARE = 0.3
"""Share of a generation that these divide evenly; the rest follows success."""
TRYING_GENERATIONS = 0.5
"""Share of the generations where structures are left to try: most of what is selected then is
one program of each of these, and little is known to select parents by."""
OUTSIDE_SHARE = 0.5
"""Share of the crossovers with parents of two islands, which may happen to be one."""


def evolve(
    space: Space,
    model: CostModel,
    rng: np.random.Generator,
    options: SearchOptions,
    measured: AbstractSet[int] = frozenset(),
    seeds: Sequence[Candidate] = (),
) -> Proposal:
    """Return up to `options.trials_per_round` programs of `space` that are not in `measured`.

    `measured` holds the keys of programs that are known; `seeds` are those that were measured, the
    fastest first, which join the first generation if their score is above 0. All begin with the
    same random programs (`initial_population`), and sketches whose programs are few are scored
    completely. A share of `options.epsilon` is drawn at random instead of by score. The result
    depends on the arguments alone.
    """
    variation = Variation(space, rng, options)
    bonus = _bonus(space, seeds, options)
    is_trying = any(bonus.is_untried(number) for number in range(len(space.sketches)))
    generations = ceil(options.generations * (TRYING_GENERATIONS if is_trying else 1))
    islands = _first_generation(variation, model, seeds)
    for _ in range(generations):
        _generation(islands, variation, bonus)
    _refresh(islands, rng, options)
    chosen = select([_pool(island, measured) for island in islands], rng, options, bonus)
    candidates = _candidates(islands, chosen)
    return Proposal(tuple(candidates), not candidates, sum(island.scored for island in islands))


def _first_generation(
    variation: Variation, model: CostModel, seeds: Sequence[Candidate]
) -> list[Island]:
    """Return the first generation: the seeds, and the best of the programs drawn at random."""
    space, options = variation.space, variation.options
    share = max(MIN_ISLAND, options.population // len(space.sketches))
    most = max(1, int(options.measured_share * options.population))
    islands: list[Island] = []
    for number in range(len(space.sketches)):
        initial = initial_population(space, number, options)
        none = initial.programs.genes[:0]
        island = Island(number, space, model, none, is_complete=initial.is_complete)
        own_seeds = [seed for seed in seeds if seed.number == number and seed.score > 0][:most]
        island.begin(with_seeds(initial.programs, own_seeds))
        if not initial.is_complete:
            island.keep(np.arange(min(share + len(own_seeds), len(island.keys))))
        islands.append(island)
    return islands


def _bonus(space: Space, seeds: Sequence[Candidate], options: SearchOptions) -> ExplorationBonus:
    """Return the exploration bonus of the structures after the measured `seeds`.

    Failed seeds count as well. The estimate is wrong for some structures as a whole, which one
    program of each shows: a Winograd convolution of 28×28, 128 to 128 ended at 405 µs where the
    fastest structure was not tried in time, at 237 without the others. The paper's search does not
    do that.
    """
    measured = Counter(space.structures[seed.number] for seed in seeds)
    tries_all = options.space != "paper"
    return ExplorationBonus(space.structures, measured, options.optimism, tries_all=tries_all)


def _generation(islands: Sequence[Island], variation: Variation, bonus: ExplorationBonus) -> None:
    """Replace all but the elite of the best islands by children, and score these."""
    options = variation.options
    sizes = _sizes(islands, options.population, variation.rng, bonus)
    born: list[list[Genes]] = [[] for _ in islands]
    for number, genes in [*_outside(sizes, variation), *_inside(sizes, variation)]:
        born[number].append(genes)
    for island, size in sizes:
        elite = max(options.trials_per_round, round(options.elite_share * size))
        island.keep(np.arange(min(elite, len(island.genes))))
    for island, children in zip(islands, born, strict=True):
        if children and not island.is_complete:
            island.add(np.concatenate(children), options.preselected_share)


def _sizes(
    islands: Sequence[Island], population: int, rng: np.random.Generator, bonus: ExplorationBonus
) -> list[tuple[Island, int]]:
    """Return the islands that have offspring, and how much: by their programs among the best."""
    bounds = [bonus.upper_bound(island.number, island.scores) for island in islands]
    scores = np.concatenate(bounds)
    owners = np.repeat(np.arange(len(islands)), [len(island.scores) for island in islands])
    best = np.argsort(-scores, kind="stable")[: max(1, len(scores) // 8)]
    success = np.bincount(owners[best], minlength=len(islands)) / max(1, len(best))
    leaders = np.array([np.max(island_bounds, initial=-np.inf) for island_bounds in bounds])
    ranked: list[int] = np.lexsort((-leaders, -success)).tolist()
    order = [n for n in ranked if not islands[n].is_complete and len(islands[n].genes)]
    chosen, rest = order[: MAX_ISLANDS - 1], order[MAX_ISLANDS - 1 :]
    chosen += [rest[int(rng.integers(len(rest)))]] if rest else []
    shares = [FLOOR_SHARE / len(chosen) + (1 - FLOOR_SHARE) * success[n] for n in chosen]
    sizes = [max(MIN_ISLAND, int(share * population)) for share in shares]
    return [(islands[number], size) for number, size in zip(chosen, sizes, strict=True)]


def _inside(sizes: Sequence[tuple[Island, int]], variation: Variation) -> list[Offspring]:
    """Return children with parents of the same island: crossed, or mutations of one parent."""
    rng, options = variation.rng, variation.options
    outside = OUTSIDE_SHARE * options.crossover_rate + options.location_rate + options.sketch_rate
    offspring: list[Offspring] = []
    for island, size in sizes:
        crossings = round((1 - OUTSIDE_SHARE) * options.crossover_rate * size)
        if crossings:
            children = variation.cross(
                island.parents(crossings, rng), island.parents(crossings, rng)
            )
            offspring += _also_mutated(children, options.mutation_rate, variation)
        mutations = max(0, round((1 - outside) * size) - crossings)
        parents = island.parents(mutations, rng).genes
        offspring.append((island.number, mutate(island.sketch, parents, rng, options)))
    return offspring


def _outside(sizes: Sequence[tuple[Island, int]], variation: Variation) -> list[Offspring]:
    """Return children of other sketches than a parent's, each kind for one or two islands.

    The islands change from generation to generation, and larger ones are drawn more often. Scoring
    few programs in each of many sketches would take most of the time.
    """
    if not sizes:
        return []
    rng, options = variation.rng, variation.options
    total = sum(size for _, size in sizes)
    weights = [size / total for _, size in sizes]
    neighbourhood = neighbourhood_of(variation.space)
    first, second, mover, leaver = (
        sizes[int(row)][0] for row in rng.choice(len(sizes), size=4, p=weights)
    )
    crossings = round(OUTSIDE_SHARE * options.crossover_rate * total)
    crossed = []
    if crossings:
        crossed = variation.cross(first.parents(crossings, rng), second.parents(crossings, rng))
    offspring = _also_mutated(crossed, options.mutation_rate, variation)
    for island, rate, numbers in (
        (mover, options.location_rate, neighbourhood.relocated[mover.number]),
        (leaver, options.sketch_rate, neighbourhood.reachable[leaver.number]),
    ):
        count = round(rate * total)
        if count and numbers:
            number = numbers[int(rng.integers(len(numbers)))]
            genes = variation.migrate((island.number, island.parents(count, rng).genes), number)
            offspring += _also_mutated([(number, genes)], options.second_move_rate, variation)
    return offspring


def _also_mutated(
    offspring: Sequence[Offspring], rate: float, variation: Variation
) -> list[Offspring]:
    """Return `offspring` with a share of `rate` of them mutated."""
    mutated: list[Offspring] = []
    for number, genes in offspring:
        chosen = variation.rng.random(len(genes)) < rate
        sketch = variation.space.sketches[number]
        children = genes.copy()
        children[chosen] = mutate(sketch, genes[chosen], variation.rng, variation.options)
        mutated.append((number, children))
    return mutated


def _refresh(islands: Sequence[Island], rng: np.random.Generator, options: SearchOptions) -> None:
    """Add new random programs to some islands, so that programs can be selected by chance."""
    wanted = round(options.epsilon * options.trials_per_round)
    order: list[int] = rng.permutation(len(islands)).tolist()
    for island in [islands[number] for number in order[: max(1, wanted)]]:
        if not island.is_complete:
            island.add(sample(island.sketch, MIN_ISLAND, rng, options))


def _candidates(islands: Sequence[Island], chosen: Sequence[Selected]) -> list[Candidate]:
    """Return the programs `chosen` with their features, from which the model learns."""
    features: dict[tuple[int, int], Features] = {}
    for island in islands:
        keys = np.array(
            [program.key for program in chosen if program.sketch == island.number], dtype=np.uint64
        )
        features |= {(island.number, key): each for key, each in island.features(keys).items()}
    return [
        Candidate(
            islands[program.sketch].sketch, program.sketch, program.genes.copy(), program.key,
            features[program.sketch, program.key], program.score, program.is_random,
        )
        for program in chosen
    ]  # fmt: skip


def _pool(island: Island, measured: AbstractSet[int]) -> SelectionPool:
    """Return the programs of an island that were not measured."""
    is_new = ~np.isin(island.keys, np.array(sorted(measured), dtype=np.uint64))
    genes = island.genes[is_new]
    return SelectionPool(
        island.number,
        genes,
        island.keys[is_new],
        island.scores[is_new],
        _niches(island.sketch, genes),
    )


def _niches(sketch: Sketch, genes: Genes) -> IntArray:
    """Return [rows]: numbers of the innermost tiles, the last level of every tile variable."""
    levels = [chosen[:, -1] for chosen in tiles(sketch, genes).values()]
    if not levels:
        return np.zeros(len(genes), dtype=np.int64)
    return np.unique(np.stack(levels, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
