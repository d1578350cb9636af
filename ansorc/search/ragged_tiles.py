"""Tile lengths that do not divide: for the register level, where an odd count is worth a tail.

Rows (l_0, …, l_n-1) of a tile of l_n-1 elements that does not divide the extent: the other levels
multiply to the number of tiles, the last of which is cut, or to a slightly larger number that has
small divisors (512 in tiles of 6 are 86 = 2 · 43 tiles, or 90 of which four are empty).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

ROWS = (4, 5, 6, 7, 8, 10, 12, 14)
"""Rows of a register tile that are worth trying whatever the extent is."""
VECTORS = (1, 2, 3, 4)
"""Native vectors along a register tile that are worth trying."""
_EMPTY = 16
"""One of so many tiles may be empty."""
_WASTED = 8
"""One of so many rows of all tiles may lie beyond the extent, or lanes of twice as many."""
_LARGEST_PRIME = 7


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


def cross_links(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return pairs of rows that differ in the first and the last level alone.

    `rows` [tuples, levels] are sorted; the answer is row numbers, every pair in both directions.
    """
    middle: dict[tuple[int, ...], list[int]] = {}
    for number, row in enumerate(rows[:, 1:-1].tolist()):
        middle.setdefault(tuple(row), []).append(number)
    sources: list[int] = []
    targets: list[int] = []
    for members in middle.values():
        for one in members:
            others = [other for other in members if rows[other, -1] != rows[one, -1]]
            sources += [one] * len(others)
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
