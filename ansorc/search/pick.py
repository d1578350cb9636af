"""Pick: which of the programs that the search found are measured, best first, some by chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from ansorc.search.options import SearchOptions
from ansorc.search.space.genes import Genes

SKETCH_SHARE = 0.6
"""At most this share of the picks by score is of one sketch while others have programs to offer."""
NICHE_SHARE = 0.25
"""The same for programs of one sketch with the same innermost tile: these run much alike."""
TRYING_SHARE = 0.75
"""At most this share of the picks are those of structures that were not tried."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A program proposed for measuring."""

    sketch: int
    """The number of its sketch in the space."""
    genes: Genes
    """[columns]."""
    key: int
    """Equal for programs that are the same (`phenotype_keys`)."""
    score: float
    """What the model says of it."""
    is_random: bool = False
    """Whether it was picked by chance, not by score."""


@dataclass(frozen=True, eq=False)
class Offer:
    """The programs of one sketch that may be measured; none twice."""

    sketch: int
    genes: Genes
    keys: npt.NDArray[np.uint64]
    scores: npt.NDArray[np.float64]
    niches: npt.NDArray[np.int64]
    """Equal for programs with the same innermost tile."""


def picked(
    offers: Sequence[Offer],
    rng: np.random.Generator,
    options: SearchOptions,
    untried: Mapping[int, int] | None = None,
) -> list[Candidate]:
    """Return `options.trials_per_round` programs of `offers`, or all if there are fewer.

    A share of `options.epsilon` is random; these come last. No sketch and no innermost tile gets
    more than its share of the picks by score while others have programs to offer. A program that
    several sketches offer is picked once. `untried` has numbers of sketches and of the structures
    that they are of: the best program of each structure is picked, whatever its score.
    """
    offers = _distinct(offers)
    count = min(options.trials_per_round, sum(len(offer.keys) for offer in offers))
    chances = min(ceil(options.epsilon * options.trials_per_round), count)
    pool = sorted(
        ((offer, place) for offer in offers for place in range(len(offer.keys))),
        key=lambda entry: -entry[0].scores[entry[1]],
    )
    tried = min(int(TRYING_SHARE * count), count - chances)
    first = _one_of_each(pool, untried or {}, tried)
    pool = [entry for number, entry in enumerate(pool) if number not in first]
    best = [*first.values(), *_limited(pool, count - chances - len(first))]
    best.sort(key=lambda entry: -entry[0].scores[entry[1]])
    chosen = [_candidate(offer, place) for offer, place in best]
    taken = {candidate.key for candidate in chosen}
    return chosen + _by_chance(offers, taken, chances, rng)


def _one_of_each(
    pool: Sequence[tuple[Offer, int]], structures: Mapping[int, int], count: int
) -> dict[int, tuple[Offer, int]]:
    """The best entry of each of the structures, `count` of them at most, by place in `pool`."""
    found: dict[int, int] = {}
    for number, (offer, _) in enumerate(pool):
        if offer.sketch in structures:
            found.setdefault(structures[offer.sketch], number)
    return {number: pool[number] for number in list(found.values())[:count]}


def _distinct(offers: Sequence[Offer]) -> list[Offer]:
    """The offers without programs that an earlier one has."""
    seen = np.zeros(0, dtype=np.uint64)
    found: list[Offer] = []
    for offer in offers:
        new = ~np.isin(offer.keys, seen)
        seen = np.concatenate([seen, offer.keys])
        found.append(
            Offer(
                offer.sketch, offer.genes[new], offer.keys[new], offer.scores[new],
                offer.niches[new],
            )
        )  # fmt: skip
    return found


def _limited(pool: list[tuple[Offer, int]], count: int) -> list[tuple[Offer, int]]:
    """The first `count` of `pool`; those above the limits of their kind only where others lack."""
    used: Counter[tuple[int, ...]] = Counter()
    within: list[int] = []
    above: list[int] = []
    for number, (offer, place) in enumerate(pool):
        sketch, niche = (offer.sketch,), (offer.sketch, int(offer.niches[place]))
        is_free = used[sketch] < ceil(SKETCH_SHARE * count)
        is_free = is_free and used[niche] < ceil(NICHE_SHARE * count)
        used.update((sketch, niche) if is_free else ())
        (within if is_free else above).append(number)
    return [pool[number] for number in sorted((within + above)[:count])]


def _by_chance(
    offers: Sequence[Offer], taken: set[int], count: int, rng: np.random.Generator
) -> list[Candidate]:
    """`count` programs that are not in `taken`, every sketch as likely as any other."""
    left = [
        (offer, [place for place, key in enumerate(offer.keys) if int(key) not in taken])
        for offer in offers
    ]
    found: list[Candidate] = []
    while len(found) < count:
        left = [(offer, places) for offer, places in left if places]
        offer, places = left[int(rng.integers(len(left)))]
        place = places.pop(int(rng.integers(len(places))))
        found.append(_candidate(offer, place, is_random=True))
    return found


def _candidate(offer: Offer, place: int, *, is_random: bool = False) -> Candidate:
    return Candidate(
        offer.sketch, offer.genes[place], int(offer.keys[place]), float(offer.scores[place]),
        is_random,
    )  # fmt: skip
