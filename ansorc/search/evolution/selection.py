"""Selection: which of the programs that were found are measured, best first, some by chance.

A cost model is wrong for some structures as a whole, and remains so for those of which it is shown
hardly anything. So programs are ranked by an upper confidence bound, as the arms of a bandit: what
is expected of a structure is raised by a share that falls with the square root of how many of its
programs were measured, as the uncertainty of a mean does. On the last convolution of ResNet-50,
batch 16, a search without it gave 167 to 182 of 200 trials to one structure of eight, and the best
programs that were found by chance in two others were as fast.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ansorc.search.candidate import Candidate
from ansorc.search.options import SearchOptions
from ansorc.search.space.genes import Genes

_Scores = TypeVar("_Scores", float, npt.NDArray[np.float64])

SKETCH_SHARE = 0.6
"""At most this share of what is selected by score is of one sketch while others have
programs to offer."""
NICHE_SHARE = 0.25
"""The same for programs of one sketch with the same innermost tile: these run much alike."""
TRYING_SHARE = 0.75
"""At most this share of what is selected are those of structures that were not tried."""


@dataclass(frozen=True)
class Proposal:
    """The programs that a strategy proposes to measure."""

    candidates: tuple[Candidate, ...]
    """Programs that were not measured, in the order in which to measure them."""
    exhausted: bool
    """Whether no program was left over: there may be nothing new in the space."""
    scored: int
    """Different programs that the model was asked about."""


@dataclass(frozen=True, eq=False)
class Selected:
    """A program of a pool that is to be measured."""

    sketch: int
    """The number of its sketch in the space."""
    genes: Genes
    """[columns]."""
    key: int
    """Equal for programs that are the same (`phenotype_keys`)."""
    score: float
    """The model's score."""
    is_random: bool = False
    """Whether it was selected by chance, not by score."""


@dataclass(frozen=True, eq=False)
class SelectionPool:
    """The programs of one sketch that may be measured; none twice."""

    sketch: int
    genes: Genes
    keys: npt.NDArray[np.uint64]
    scores: npt.NDArray[np.float64]
    niches: npt.NDArray[np.int64]
    """Equal for programs with the same innermost tile."""


PoolEntry = tuple[SelectionPool, int]
"""A pool and the place of one of its programs."""


def select(
    pools: Sequence[SelectionPool],
    rng: np.random.Generator,
    options: SearchOptions,
    bonus: ExplorationBonus | None = None,
) -> list[Selected]:
    """Return `options.trials_per_round` programs of `pools`, or all if there are fewer.

    A share of `options.epsilon` is random; these come last. No sketch and no innermost tile gets
    more than its share by score while others have programs to offer. A program that several pools
    have is selected once. Of structures that `bonus` knows as untried the best program is selected,
    whatever its score; the others are selected by their upper bounds.
    """
    bonus = bonus or ExplorationBonus.none(pool.sketch for pool in pools)
    pools = _distinct(pools)
    count = min(options.trials_per_round, sum(len(pool.keys) for pool in pools))
    chances = min(ceil(options.epsilon * options.trials_per_round), count)
    ranked = sorted(
        ((pool, row) for pool in pools for row in range(len(pool.keys))),
        key=lambda entry: -entry[0].scores[entry[1]],
    )
    tried = min(int(TRYING_SHARE * count), count - chances)
    first = _one_of_each(ranked, bonus, tried)
    ranked = [entry for number, entry in enumerate(ranked) if number not in first]
    best = [*first.values(), *_by_upper_bound(ranked, count - chances - len(first), bonus)]
    best.sort(key=lambda entry: -entry[0].scores[entry[1]])
    chosen = [_select_row(pool, row) for pool, row in best]
    taken = {program.key for program in chosen}
    return chosen + _by_chance(pools, taken, chances, rng)


def _one_of_each(
    ranked: Sequence[PoolEntry], bonus: ExplorationBonus, count: int
) -> dict[int, PoolEntry]:
    """Return the best entries of structures not tried yet, `count` at most, by position."""
    first: dict[int, int] = {}
    for number, (pool, _) in enumerate(ranked):
        if bonus.is_untried(pool.sketch):
            first.setdefault(bonus.structures[pool.sketch], number)
    chosen = list(first.values())[:count]
    for number in chosen:
        bonus.count(ranked[number][0].sketch)
    return {number: ranked[number] for number in chosen}


def _distinct(pools: Sequence[SelectionPool]) -> list[SelectionPool]:
    """Return the pools without programs that an earlier one has."""
    seen = np.zeros(0, dtype=np.uint64)
    pools_left: list[SelectionPool] = []
    for pool in pools:
        new = ~np.isin(pool.keys, seen)
        seen = np.concatenate([seen, pool.keys])
        pools_left.append(
            SelectionPool(
                pool.sketch, pool.genes[new], pool.keys[new], pool.scores[new],
                pool.niches[new],
            )
        )  # fmt: skip
    return pools_left


def _by_upper_bound(
    ranked: Sequence[PoolEntry], count: int, bonus: ExplorationBonus
) -> list[PoolEntry]:
    """Return the `count` of `ranked` with the highest upper bounds.

    Their shares go above the quota only if nothing else is left.
    """
    queues: dict[int, deque[PoolEntry]] = {}
    for entry in ranked:
        queues.setdefault(bonus.structures[entry[0].sketch], deque()).append(entry)
    quota = _Quota(count)
    within: list[PoolEntry] = []
    above: list[PoolEntry] = []
    while queues and len(within) < count:
        queue = max(queues.values(), key=lambda queue: _upper_bound(queue[0], bonus))
        pool, row = entry = queue.popleft()
        if not queue:
            del queues[bonus.structures[pool.sketch]]
        if quota.is_free(pool.sketch, int(pool.niches[row])):
            bonus.count(pool.sketch)
            within.append(entry)
        else:
            above.append(entry)
    return within + above[: count - len(within)]


def _upper_bound(entry: PoolEntry, bonus: ExplorationBonus) -> float:
    pool, row = entry
    return float(bonus.upper_bound(pool.sketch, pool.scores[row]))


class _Quota:
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
    pools: Sequence[SelectionPool], taken: set[int], count: int, rng: np.random.Generator
) -> list[Selected]:
    """Return `count` programs that are not in `taken`, every sketch as likely as any other."""
    left = [
        (pool, [row for row, key in enumerate(pool.keys) if int(key) not in taken])
        for pool in pools
    ]
    drawn: list[Selected] = []
    while len(drawn) < count:
        left = [(pool, places) for pool, places in left if places]
        pool, places = left[int(rng.integers(len(left)))]
        row = places.pop(int(rng.integers(len(places))))
        drawn.append(_select_row(pool, row, is_random=True))
    return drawn


def _select_row(pool: SelectionPool, row: int, *, is_random: bool = False) -> Selected:
    return Selected(
        pool.sketch, pool.genes[row], int(pool.keys[row]), float(pool.scores[row]),
        is_random,
    )  # fmt: skip


@dataclass(frozen=True)
class ExplorationBonus:
    """How much faster than expected a structure may be, by how many of its programs are known."""

    structures: Sequence[int]
    """The number of the structure of each sketch (`Space.structures`)."""
    measured: Counter[int]
    """Measured programs by structure; those that are selected count as well."""
    optimism: float
    """The share by which scores are raised while nothing was measured; 0: none."""
    tries_all: bool = True
    """Whether one program of each structure is measured, whatever is expected of it."""

    @staticmethod
    def none(sketches: Iterable[int]) -> ExplorationBonus:
        """Return a bonus that leaves the scores of `sketches` as they are."""
        count = max(sketches, default=-1) + 1
        return ExplorationBonus(range(count), Counter(), 0.0, tries_all=False)

    def count(self, sketch: int) -> None:
        """Take note that a program of `sketch` is going to be measured."""
        self.measured[self.structures[sketch]] += 1

    def is_untried(self, sketch: int) -> bool:
        """Return whether a program of the structure of `sketch` is to be measured first of all."""
        return self.tries_all and not self.measured[self.structures[sketch]]

    def upper_bound(self, sketch: int, score: _Scores) -> _Scores:
        """Return the upper confidence bound of the expected `score` of a program of `sketch`."""
        share = self.optimism / sqrt(1 + self.measured[self.structures[sketch]])
        return score + share * abs(score)
