"""Evolve: breed programs that a cost model scores high; whole generations are matrices of genes.

Each sketch has a flock: its programs of the current generation, the best first. A generation scores
the new ones, keeps an elite, and lets the best have the most children, a few in other flocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from ansorc.search.candidate import Candidate
from ansorc.search.cost_model import CostModel
from ansorc.search.described import founders_of, together
from ansorc.search.features import Features
from ansorc.search.flock import Flock
from ansorc.search.hopes import Hopes
from ansorc.search.options import SearchOptions
from ansorc.search.pick import Offer, Pick, picked
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space, mutate, sample, tiles
from ansorc.search.space.mate import Brood, Mating
from ansorc.search.space.relatives import relatives_of

IntArray = npt.NDArray[np.int64]

MIN_FLOCK = 32
"""Programs of each sketch in a generation, at least."""
MAX_FLOCKS = 6
"""Sketches that are bred in a generation: the most successful ones, and one drawn from the rest."""
FLOOR_SHARE = 0.3
"""Share of a generation that these divide evenly; the rest follows success."""
TRYING_GENERATIONS = 0.5
"""Share of the generations where structures are left to try: most of what is picked then is one
program of each of these, and little is known that could be bred for."""
OUTSIDE_SHARE = 0.5
"""Share of the crossovers with parents of two flocks, which may happen to be one."""


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

    `measured` holds the keys of programs that are known; `seeds` are those that were measured, the
    fastest first, to breed from if their score is above 0. All begin with the same random programs
    (`founders_of`), and sketches whose programs are few are scored completely. A share of
    `options.epsilon` is drawn at random instead of by score.
    The result depends on the arguments alone.
    """
    mating = Mating(space, rng, options)
    hopes = _hopes(space, seeds, options)
    is_trying = any(hopes.is_untried(number) for number in range(len(space.sketches)))
    generations = ceil(options.generations * (TRYING_GENERATIONS if is_trying else 1))
    flocks = _founded(mating, model, seeds)
    for _ in range(generations):
        _generation(flocks, mating, hopes)
    _refreshed(flocks, rng, options)
    picks = picked([_offer(flock, measured) for flock in flocks], rng, options, hopes)
    found = _candidates(flocks, picks)
    return Evolution(tuple(found), not found, sum(flock.scored for flock in flocks))


def _founded(mating: Mating, model: CostModel, seeds: Sequence[Candidate]) -> list[Flock]:
    """The first generation: the seeds, and the best of the programs drawn at random."""
    space, options = mating.space, mating.options
    share = max(MIN_FLOCK, options.population // len(space.sketches))
    bred = max(1, int(options.measured_share * options.population))
    flocks: list[Flock] = []
    for number in range(len(space.sketches)):
        founders = founders_of(space, number, options)
        none = founders.programs.genes[:0]
        flock = Flock(number, space, model, none, is_complete=founders.is_complete)
        own = [seed for seed in seeds if seed.number == number and seed.score > 0][:bred]
        flock.found(together(founders.programs, own))
        if not founders.is_complete:
            flock.keep(np.arange(min(share + len(own), len(flock.keys))))
        flocks.append(flock)
    return flocks


def _hopes(space: Space, seeds: Sequence[Candidate], options: SearchOptions) -> Hopes:
    """What is hoped of the structures, after the measured `seeds`, whether they failed or not.

    The estimate is wrong for some structures as a whole, which one program of each shows: a
    Winograd convolution of 28×28, 128 to 128 ended at 405 µs where the fastest structure was not
    tried in time, at 237 without the others. The paper's search does not do that.
    """
    measured = Counter(space.structures[seed.number] for seed in seeds)
    tries_all = options.space != "paper"
    return Hopes(space.structures, measured, options.optimism, tries_all=tries_all)


def _generation(flocks: Sequence[Flock], mating: Mating, hopes: Hopes) -> None:
    """Replace all but the elite of the best flocks by children, and score these."""
    options = mating.options
    sizes = _sizes(flocks, options.population, mating.rng, hopes)
    nests: list[list[Genes]] = [[] for _ in flocks]
    for number, genes in [*_outside(sizes, mating), *_inside(sizes, mating)]:
        nests[number].append(genes)
    for flock, size in sizes:
        elite = max(options.trials_per_round, round(options.elite_share * size))
        flock.keep(np.arange(min(elite, len(flock.genes))))
    for flock, children in zip(flocks, nests, strict=True):
        if children and not flock.is_complete:
            flock.add(np.concatenate(children), options.draft_share)


def _sizes(
    flocks: Sequence[Flock], population: int, rng: np.random.Generator, hopes: Hopes
) -> list[tuple[Flock, int]]:
    """The flocks to breed and their sizes, by how many of their programs are hoped to be best."""
    raised = [hopes.raised(flock.number, flock.scores) for flock in flocks]
    scores = np.concatenate(raised)
    owners = np.repeat(np.arange(len(flocks)), [len(flock.scores) for flock in flocks])
    best = np.argsort(-scores, kind="stable")[: max(1, len(scores) // 8)]
    success = np.bincount(owners[best], minlength=len(flocks)) / max(1, len(best))
    leaders = np.array([np.max(own, initial=-np.inf) for own in raised])
    ranked: list[int] = np.lexsort((-leaders, -success)).tolist()
    order = [n for n in ranked if not flocks[n].is_complete and len(flocks[n].genes)]
    chosen, rest = order[: MAX_FLOCKS - 1], order[MAX_FLOCKS - 1 :]
    chosen += [rest[int(rng.integers(len(rest)))]] if rest else []
    shares = [FLOOR_SHARE / len(chosen) + (1 - FLOOR_SHARE) * success[n] for n in chosen]
    sizes = [max(MIN_FLOCK, int(share * population)) for share in shares]
    return [(flocks[number], size) for number, size in zip(chosen, sizes, strict=True)]


def _inside(sizes: Sequence[tuple[Flock, int]], mating: Mating) -> list[Brood]:
    """Children with parents of the same flock: crossed, or mutations of one parent."""
    rng, options = mating.rng, mating.options
    strangers = OUTSIDE_SHARE * options.crossover_rate + options.location_rate + options.sketch_rate
    broods: list[Brood] = []
    for flock, size in sizes:
        crossings = round((1 - OUTSIDE_SHARE) * options.crossover_rate * size)
        if crossings:
            made = mating.crossed(flock.parents(crossings, rng), flock.parents(crossings, rng))
            broods += _also_mutated(made, options.mutation_rate, mating)
        mutations = max(0, round((1 - strangers) * size) - crossings)
        parents = flock.parents(mutations, rng).genes
        broods.append((flock.number, mutate(flock.sketch, parents, rng, options)))
    return broods


def _outside(sizes: Sequence[tuple[Flock, int]], mating: Mating) -> list[Brood]:
    """Children of other sketches than a parent's, each kind for one flock or pair of flocks.

    The flocks change from generation to generation, larger ones have their turn more often: to
    score few programs in each of many sketches would take most of the time.
    """
    if not sizes:
        return []
    rng, options = mating.rng, mating.options
    total = sum(size for _, size in sizes)
    weights = [size / total for _, size in sizes]
    relatives = relatives_of(mating.space)
    one, other, mover, leaver = (
        sizes[int(place)][0] for place in rng.choice(len(sizes), size=4, p=weights)
    )
    crossings = round(OUTSIDE_SHARE * options.crossover_rate * total)
    made = []
    if crossings:
        made = mating.crossed(one.parents(crossings, rng), other.parents(crossings, rng))
    broods = _also_mutated(made, options.mutation_rate, mating)
    for flock, rate, numbers in (
        (mover, options.location_rate, relatives.moved[mover.number]),
        (leaver, options.sketch_rate, relatives.others[leaver.number]),
    ):
        count = round(rate * total)
        if count and numbers:
            number = numbers[int(rng.integers(len(numbers)))]
            genes = mating.moved((flock.number, flock.parents(count, rng).genes), number)
            broods += _also_mutated([(number, genes)], options.second_move_rate, mating)
    return broods


def _also_mutated(broods: Sequence[Brood], rate: float, mating: Mating) -> list[Brood]:
    """`broods` with a share of `rate` of them mutated."""
    made: list[Brood] = []
    for number, genes in broods:
        chosen = mating.rng.random(len(genes)) < rate
        sketch = mating.space.sketches[number]
        children = genes.copy()
        children[chosen] = mutate(sketch, genes[chosen], mating.rng, mating.options)
        made.append((number, children))
    return made


def _refreshed(flocks: Sequence[Flock], rng: np.random.Generator, options: SearchOptions) -> None:
    """Add new random programs to some flocks, for what is measured by chance to be chosen from."""
    wanted = round(options.epsilon * options.trials_per_round)
    order: list[int] = rng.permutation(len(flocks)).tolist()
    for flock in [flocks[number] for number in order[: max(1, wanted)]]:
        if not flock.is_complete:
            flock.add(sample(flock.sketch, MIN_FLOCK, rng, options))


def _candidates(flocks: Sequence[Flock], picks: Sequence[Pick]) -> list[Candidate]:
    """The `picks` with their features: the model learns from them when they are measured."""
    features: dict[tuple[int, int], Features] = {}
    for flock in flocks:
        keys = np.array([one.key for one in picks if one.sketch == flock.number], dtype=np.uint64)
        features |= {(flock.number, key): each for key, each in flock.features(keys).items()}
    return [
        Candidate(
            flocks[one.sketch].sketch, one.sketch, one.genes.copy(), one.key,
            features[one.sketch, one.key], one.score, one.is_random,
        )
        for one in picks
    ]  # fmt: skip


def _offer(flock: Flock, measured: AbstractSet[int]) -> Offer:
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
