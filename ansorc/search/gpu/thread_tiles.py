"""Tables of tiles for threads: inner lengths are short and round, the outermost covers the rest.

A tile need not divide its axis: what the last one has too much is skipped. So the rows are those
whose tiles waste little, whatever the prime factors of the extent are.
"""

from __future__ import annotations

from functools import lru_cache, reduce

import numpy as np

from ansorc.schedule.extent import IntArray
from ansorc.search.sketch.sketch import TileVariable
from ansorc.search.tiles import TileTable, divisors, single_row, tile_table
from ansorc.target.gpu import WARP_THREADS

WASTE = 8
"""One of so many results may lie beyond the extent, unless it is shorter than a warp."""
_ROUND = tuple(sorted(2**power * odd for power in range(11) for odd in (1, 3, 5, 7)))
"""Lengths that are worth trying of any axis, besides its divisors."""
_SHORT = 4
_FEW = 4_000
"""Rows up to which lengths that are no powers of two are tried where powers divide, too."""


def table_on_gpu(variable: TileVariable) -> TileTable:
    """Return the lengths that `variable` may have: divisors, where it has no bounds of its own."""
    if variable.whole is not None:
        return single_row(variable.extent, variable.levels, variable.whole)
    if variable.limits:
        return make_bounded_tiles(variable.extent, variable.limits, is_exact=variable.is_exact)
    return tile_table(variable.extent, variable.levels, variable.innermost_limit, variable.ragged)


@lru_cache(maxsize=512)
def make_bounded_tiles(
    extent: int, limits: tuple[int, ...], *, is_exact: bool = False
) -> TileTable:
    """Return the table of `extent` over one level and an inner one for each of `limits`.

    The inner lengths are at most these; the outermost is the number of tiles, rounded up. Two rows
    are neighbours if a factor 2, 3, 5 or 7 of one inner length comes or goes, or moves to another
    one. With `is_exact` all tiles are whole, unless nothing but very short ones are.
    """
    rows = _rows(extent, limits, is_wide=True)
    if is_exact:
        whole = rows[rows.prod(axis=1) == extent]
        if whole[:, 1:].prod(axis=1).max(initial=1) >= min(extent, _SHORT):
            rows = whole
    if len(rows) > _FEW:
        rows = _rows(extent, limits, is_wide=False)
    starts, neighbours = _neighbours(rows)
    return TileTable(rows, starts, neighbours, is_complete=True)


def _rows(extent: int, limits: tuple[int, ...], *, is_wide: bool) -> IntArray:
    """Return the rows of the table, those whose tiles waste little."""
    exact = divisors(extent)
    is_even = extent % 4 == 0
    lengths: list[IntArray] = []
    for limit in limits:
        known = {n for n in exact if n <= limit}
        known |= {n for n in _ROUND if n <= min(limit, 2 * extent) and (is_wide or not n & (n - 1))}
        lengths.append(np.array(sorted(known), dtype=np.int64))
    tile: IntArray = reduce(np.multiply.outer, lengths).reshape(-1)
    outer = -(-extent // tile)
    covered = outer * tile
    allowed = extent if is_even and not is_wide else max(extent + extent // WASTE, WARP_THREADS)
    rows = np.flatnonzero((covered <= allowed) & (tile < 2 * extent) | (covered == extent))
    places = np.unravel_index(rows, [len(each) for each in lengths])
    inner = [each[chosen] for each, chosen in zip(lengths, places, strict=True)]
    return np.column_stack([outer[rows], *inner])


def _neighbours(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return where the neighbours of each row begin, and their numbers."""
    inner = rows[:, 1:]
    most = int(rows.max(initial=1)) + 1
    weights = most ** np.arange(inner.shape[1] - 1, -1, -1, dtype=np.int64)
    codes = inner @ weights
    order = np.argsort(codes, kind="stable")
    known = codes[order]
    sources: list[IntArray] = []
    targets: list[IntArray] = []
    levels = range(inner.shape[1])
    for up, down in [(a, b) for a in (*levels, -1) for b in (*levels, -1) if a != b]:
        for factor in (2, 3, 5, 7):
            is_able = np.ones(len(rows), dtype=bool)
            wanted = codes
            if down >= 0:
                is_able &= inner[:, down] % factor == 0
                wanted = wanted + (inner[:, down] // factor - inner[:, down]) * weights[down]
            if up >= 0:
                is_able &= inner[:, up] * factor < most
                wanted = wanted + inner[:, up] * (factor - 1) * weights[up]
            able = np.flatnonzero(is_able)
            places = np.minimum(np.searchsorted(known, wanted[able]), len(known) - 1)
            is_row = known[places] == wanted[able]
            sources.append(able[is_row])
            targets.append(order[places[is_row]])
    origin, reached = np.concatenate(sources), np.concatenate(targets)
    by_origin = np.argsort(origin, kind="stable")
    starts = np.searchsorted(origin[by_origin], np.arange(len(rows) + 1))
    return starts.astype(np.int64), reached[by_origin].astype(np.int64)
