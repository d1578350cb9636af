"""Pick: which of the programs that the search found are measured, best first, some by chance."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from ansorc.search.hopes import Hopes
from ansorc.search.options import SearchOptions
from ansorc.search.space.genes import Genes

SKETCH_SHARE = 0.6
"""At most this share of the picks by score is of one sketch while others have programs to offer."""
NICHE_SHARE = 0.25
"""The same for programs of one sketch with the same innermost tile: these run much alike."""
TRYING_SHARE = 0.75
"""At most this share of the picks are those of structures that were not tried."""


@dataclass(frozen=True, eq=False)
class Pick:
    """A program of an offer that is to be measured."""

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


Entry = tuple[Offer, int]
"""An offer and the place of one of its programs."""


def picked(
    offers: Sequence[Offer],
    rng: np.random.Generator,
    options: SearchOptions,
    hopes: Hopes | None = None,
) -> list[Pick]:
    """Return `options.trials_per_round` programs of `offers`, or all if there are fewer.

    A share of `options.epsilon` is random; these come last. No sketch and no innermost tile gets
    more than its share of the picks by score while others have programs to offer. A program that
    several sketches offer is picked once. Of structures that `hopes` knows as untried the best
    program is picked, whatever its score; the others are picked by what is hoped of them.
    """
    hopes = hopes or Hopes.none(offer.sketch for offer in offers)
    offers = _distinct(offers)
    count = min(options.trials_per_round, sum(len(offer.keys) for offer in offers))
    chances = min(ceil(options.epsilon * options.trials_per_round), count)
    pool = sorted(
        ((offer, place) for offer in offers for place in range(len(offer.keys))),
        key=lambda entry: -entry[0].scores[entry[1]],
    )
    tried = min(int(TRYING_SHARE * count), count - chances)
    first = _one_of_each(pool, hopes, tried)
    pool = [entry for number, entry in enumerate(pool) if number not in first]
    best = [*first.values(), *_hoped(pool, count - chances - len(first), hopes)]
    best.sort(key=lambda entry: -entry[0].scores[entry[1]])
    chosen = [_pick(offer, place) for offer, place in best]
    taken = {one.key for one in chosen}
    return chosen + _by_chance(offers, taken, chances, rng)


def _one_of_each(pool: Sequence[Entry], hopes: Hopes, count: int) -> dict[int, Entry]:
    """The best entry of each structure that was not tried, `count` at most, by place in `pool`."""
    found: dict[int, int] = {}
    for number, (offer, _) in enumerate(pool):
        if hopes.is_untried(offer.sketch):
            found.setdefault(hopes.structures[offer.sketch], number)
    chosen = list(found.values())[:count]
    for number in chosen:
        hopes.count(pool[number][0].sketch)
    return {number: pool[number] for number in chosen}


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


def _hoped(pool: Sequence[Entry], count: int, hopes: Hopes) -> list[Entry]:
    """The `count` of `pool` of which most is hoped; above the limits only where others lack."""
    queues: dict[int, deque[Entry]] = {}
    for entry in pool:
        queues.setdefault(hopes.structures[entry[0].sketch], deque()).append(entry)
    limits = _Limits(count)
    within: list[Entry] = []
    above: list[Entry] = []
    while queues and len(within) < count:
        queue = max(queues.values(), key=lambda queue: _hope(queue[0], hopes))
        offer, place = entry = queue.popleft()
        if not queue:
            del queues[hopes.structures[offer.sketch]]
        if limits.is_free(offer.sketch, int(offer.niches[place])):
            hopes.count(offer.sketch)
            within.append(entry)
        else:
            above.append(entry)
    return within + above[: count - len(within)]


def _hope(entry: Entry, hopes: Hopes) -> float:
    offer, place = entry
    return float(hopes.raised(offer.sketch, offer.scores[place]))


class _Limits:
    """How many more programs of a sketch, and of its innermost tiles, may be among `count`."""

    def __init__(self, count: int) -> None:
        self._most = ceil(SKETCH_SHARE * count), ceil(NICHE_SHARE * count)
        self._used: Counter[tuple[int, ...]] = Counter()

    def is_free(self, sketch: int, niche: int) -> bool:
        """Return whether one more may be taken, which then is."""
        kinds = (sketch,), (sketch, niche)
        free = all(self._used[kind] < most for kind, most in zip(kinds, self._most, strict=True))
        self._used.update(kinds if free else ())
        return free


def _by_chance(
    offers: Sequence[Offer], taken: set[int], count: int, rng: np.random.Generator
) -> list[Pick]:
    """`count` programs that are not in `taken`, every sketch as likely as any other."""
    left = [
        (offer, [place for place, key in enumerate(offer.keys) if int(key) not in taken])
        for offer in offers
    ]
    found: list[Pick] = []
    while len(found) < count:
        left = [(offer, places) for offer, places in left if places]
        offer, places = left[int(rng.integers(len(left)))]
        place = places.pop(int(rng.integers(len(places))))
        found.append(_pick(offer, place, is_random=True))
    return found


def _pick(offer: Offer, place: int, *, is_random: bool = False) -> Pick:
    return Pick(
        offer.sketch, offer.genes[place], int(offer.keys[place]), float(offer.scores[place]),
        is_random,
    )  # fmt: skip
