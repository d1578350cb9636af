"""All ways to divide an extent over the levels of a tile, as tables that are shared and indexed.

A table of `levels` columns holds one row for each tuple whose product is the extent. Two rows are
neighbours if one turns into the other by moving one divisor from a level to another: the tile
mutation of the paper is one step along the table's neighbour lists.

At the register level an odd count may be worth a tail. Rows (l_0, …, l_n-1) with an innermost
length that does not divide the extent come on request: the other levels multiply to the number of
tiles, the last of which is cut, or to a slightly larger number that has small divisors (512 in
tiles of 6 are 86 = 2 · 43 tiles, or 90 of which four are empty).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from ansorc.schedule.extent import IntArray

MAX_ROWS = 50_000
"""Above this many tuples a table is a random sample of them."""
SAMPLED_ROWS = 20_000
_ALL_DIVISORS_ROWS = 2_000
"""Up to this many rows any divisor may move at once; above it, one prime at a time."""
ROWS = (4, 5, 6, 7, 8, 10, 12, 14)
"""Rows of a register tile that are worth trying whatever the extent is."""
VECTORS = (1, 2, 3, 4)
"""Native vectors along a register tile that are worth trying."""
_EMPTY = 16
"""One of so many tiles may be empty."""
_WASTED = 8
"""One of so many rows of all tiles may lie beyond the extent, or lanes of twice as many."""
_LARGEST_PRIME = 7


@dataclass(frozen=True, eq=False)
class TileTable:
    """The tuples of one (extent, levels, limit), sorted, and who is whose neighbour."""

    rows: IntArray
    """[tuples, levels], outermost level first; the product of each row is the extent, or more."""
    starts: IntArray
    """[tuples + 1]: the neighbours of row r are neighbours[starts[r] : starts[r + 1]]."""
    neighbours: IntArray
    """[pairs] row numbers."""
    is_complete: bool
    """Whether every tuple is there."""

    def __len__(self) -> int:
        return len(self.rows)

    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return the row numbers of all neighbours: [pairs] of one and [pairs] of the other."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts)), self.neighbours

    def find(self, lengths: IntArray) -> int:
        """Return the row number of a tuple; raise KeyError if the table does not have it."""
        matches = np.flatnonzero((self.rows == lengths).all(axis=1))
        if not len(matches):
            raise KeyError(tuple(int(length) for length in lengths))
        return int(matches[0])

    def around(self, row: int) -> IntArray:
        """Return the neighbours of one row: [neighbours]."""
        return self.neighbours[int(self.starts[row]) : int(self.starts[row + 1])]

    def move(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        """Return a random neighbour of each row; the row itself where it has none."""
        if not len(self.neighbours):
            return rows
        counts = self.starts[rows + 1] - self.starts[rows]
        picks = (rng.random(len(rows)) * counts).astype(np.int64)
        places = np.minimum(self.starts[rows] + picks, len(self.neighbours) - 1)
        return np.where(counts > 0, self.neighbours[places], rows)


@lru_cache(maxsize=512)
def tile_table(
    extent: int, levels: int, innermost_limit: int, ragged: tuple[int, ...] = ()
) -> TileTable:
    """Return the table of `extent` over `levels`, the last level at most `innermost_limit`.

    `ragged` are lengths of the last level that are there besides though they do not divide it.
    """
    exact = _exact_table(extent, levels, innermost_limit)
    parts = [exact] + [
        _ragged_table(count, levels, length)
        for length in ragged
        for count in tile_counts(extent, length)
    ]
    if len(parts) == 1:
        return exact
    rows = np.concatenate([part.rows for part in parts])
    starts = np.cumsum([0, *(len(part) for part in parts)])
    pairs = [part.pairs() for part in parts]
    sources = np.concatenate([s + n for (s, _), n in zip(pairs, starts, strict=False)])
    targets = np.concatenate([t + n for (_, t), n in zip(pairs, starts, strict=False)])
    more, others = _cross_links(rows)
    lists = _lists(np.append(sources, more), np.append(targets, others), len(rows))
    return TileTable(rows, *lists, exact.is_complete)


@lru_cache(maxsize=512)
def single_row(extent: int, levels: int, level: int) -> TileTable:
    """Return the table of one row: `extent` at `level`, 1 elsewhere."""
    rows = np.ones((1, levels), dtype=np.int64)
    rows[0, level] = extent
    none = np.zeros(0, dtype=np.int64)
    return TileTable(rows, np.zeros(2, dtype=np.int64), none, is_complete=True)


def _ragged_table(count: int, levels: int, length: int) -> TileTable:
    """Return the table of `count` tiles of `length` each."""
    outer = _exact_table(count, levels - 1, count)
    last = np.full((len(outer), 1), length, dtype=np.int64)
    return TileTable(
        np.hstack([outer.rows, last]), outer.starts, outer.neighbours, outer.is_complete
    )


def _exact_table(extent: int, levels: int, innermost_limit: int) -> TileTable:
    primes = factorize(extent)
    is_complete = tuple_count(extent, levels) <= MAX_ROWS
    rows = _all_tuples(primes, levels) if is_complete else _some_tuples(extent, primes, levels)
    rows = rows[rows[:, -1] <= innermost_limit] if levels > 1 else rows
    rows = np.unique(rows, axis=0)
    starts, neighbours = _neighbour_lists(rows, extent, primes)
    return TileTable(rows, starts, neighbours, is_complete)


def factorize(number: int) -> dict[int, int]:
    """Return the prime factors of `number` ≥ 1 with their powers."""
    factors: dict[int, int] = {}
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors[divisor] = factors.get(divisor, 0) + 1
            number //= divisor
        divisor += 1
    if number > 1:
        factors[number] = factors.get(number, 0) + 1
    return factors


def divisors(extent: int) -> list[int]:
    """Return all divisors of `extent`, ascending."""
    divisors_so_far = [1]
    for prime, power in factorize(extent).items():
        divisors_so_far = [
            divisor * prime**p for divisor in divisors_so_far for p in range(power + 1)
        ]
    return sorted(divisors_so_far)


def tuple_count(extent: int, levels: int) -> int:
    """Return how many tuples of `levels` factors have the product `extent`, without a limit."""
    count = 1
    for power in factorize(extent).values():
        count *= comb(power + levels - 1, levels - 1)
    return count


def _all_tuples(primes: dict[int, int], levels: int) -> IntArray:
    rows = np.ones((1, levels), dtype=np.int64)
    for prime, power in primes.items():
        shares = prime ** _compositions(power, levels)
        rows = (rows[:, None, :] * shares[None, :, :]).reshape(-1, levels)
    return rows


def _compositions(total: int, parts: int) -> IntArray:
    """Return all tuples of `parts` numbers ≥ 0 with the sum `total`."""
    if parts == 1:
        return np.array([[total]], dtype=np.int64)
    blocks: list[IntArray] = []
    for first in range(total + 1):
        rest = _compositions(total - first, parts - 1)
        blocks.append(np.hstack([np.full((len(rest), 1), first, dtype=np.int64), rest]))
    return np.vstack(blocks)


def _some_tuples(extent: int, primes: dict[int, int], levels: int) -> IntArray:
    """Random tuples, and the one that is all in the outermost level; the same in every run."""
    rng = np.random.default_rng(extent)
    rows = np.ones((SAMPLED_ROWS, levels), dtype=np.int64)
    for prime, power in primes.items():
        for _ in range(power):
            rows[np.arange(SAMPLED_ROWS), rng.integers(levels, size=SAMPLED_ROWS)] *= prime
    outermost = np.ones((1, levels), dtype=np.int64)
    outermost[0, 0] = extent
    return np.vstack([outermost, rows])


def _neighbour_lists(
    rows: IntArray, extent: int, primes: dict[int, int]
) -> tuple[IntArray, IntArray]:
    factors = [d for d in divisors(extent) if d > 1]
    if len(rows) > _ALL_DIVISORS_ROWS:
        factors = sorted(primes)
    known = np.array(divisors(extent), dtype=np.int64)
    weights = len(known) ** np.arange(rows.shape[1] - 1, -1, -1, dtype=np.int64)
    codes = np.searchsorted(known, rows) @ weights  # ascending, as the rows are sorted
    sources: list[IntArray] = []
    targets: list[IntArray] = []
    for source, target in np.ndindex(rows.shape[1], rows.shape[1]):
        for factor in factors if source != target else []:
            able = np.flatnonzero(rows[:, source] % factor == 0)
            moved = rows[able]
            moved[:, source] //= factor
            moved[:, target] *= factor
            wanted = np.searchsorted(known, moved) @ weights
            places = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
            is_present = codes[places] == wanted
            sources.append(able[is_present])
            targets.append(places[is_present])
    origin = np.concatenate([np.zeros(0, dtype=np.int64), *sources])
    reached = np.concatenate([np.zeros(0, dtype=np.int64), *targets])
    return _lists(origin, reached, len(rows))


def _lists(sources: IntArray, targets: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Return where the targets of each of `count` sources begin, and the targets in that order."""
    order = np.argsort(sources, kind="stable")
    starts = np.searchsorted(sources[order], np.arange(count + 1))
    return starts.astype(np.int64), targets[order]


def ragged_lengths(extent: int, limit: int, lanes: int) -> tuple[int, ...]:
    """Return the lengths up to `limit` to try for the innermost level of an axis.

    With `lanes` it is vectorised. No length divides `extent`.
    """
    candidates = [lanes * count for count in VECTORS] if lanes else list(ROWS)
    step = lanes or 1
    return tuple(
        length
        for length in candidates
        if 1 < length <= min(limit, extent)
        and extent % length
        and _waste(extent, length, step) * _WASTED <= extent * (2 if lanes else 1)
    )


def tile_counts(extent: int, length: int) -> list[int]:
    """Return the numbers of tiles of `length` to divide `extent` into: the least, and a rounder."""
    least = -(-extent // length)
    most = least + least // _EMPTY
    rounder = next((n for n in range(least, most + 1) if _is_smooth(n)), least)
    return sorted({least, rounder})


def _cross_links(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return pairs of rows that differ in the first and the last level alone.

    `rows` [tuples, levels] are sorted; the answer is row numbers, every pair in both directions.
    """
    middle: dict[tuple[int, ...], list[int]] = {}
    for number, row in enumerate(rows[:, 1:-1].tolist()):
        middle.setdefault(tuple(row), []).append(number)
    sources: list[int] = []
    targets: list[int] = []
    for members in middle.values():
        for member in members:
            others = [other for other in members if rows[other, -1] != rows[member, -1]]
            sources += [member] * len(others)
            targets += others
    return np.array(sources, dtype=np.int64), np.array(targets, dtype=np.int64)


def _waste(extent: int, length: int, step: int) -> int:
    """Return what is computed beyond the extent: vectors are whole, of `step` elements."""
    tail = extent % length
    return -(-tail // step) * step - tail if step > 1 else length - tail


def _is_smooth(number: int) -> bool:
    for prime in range(2, _LARGEST_PRIME + 1):
        while number % prime == 0:
            number //= prime
    return number == 1
