"""Tables of tile lengths: complete, bounded, and connected by moves of one divisor."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.search.tiles import MAX_ROWS, divisors, tile_table, tuple_count
from tests.support.nightly import examples


def brute_force(extent: int, levels: int) -> set[tuple[int, ...]]:
    if levels == 1:
        return {(extent,)}
    return {
        (first, *rest)
        for first in range(1, extent + 1)
        if extent % first == 0
        for rest in brute_force(extent // first, levels - 1)
    }


@pytest.mark.parametrize(("extent", "count"), [(512, 210), (56, 80), (64, 84)])
def test_known_counts(extent: int, count: int) -> None:
    assert len(tile_table(extent, 4, 64)) == count


@given(st.integers(1, 240), st.integers(1, 4), st.sampled_from([1, 4, 64]))
@examples(12, nightly=60)
def test_table_is_what_brute_force_finds(extent: int, levels: int, limit: int) -> None:
    table = tile_table(extent, levels, limit)
    wanted = {row for row in brute_force(extent, levels) if levels == 1 or row[-1] <= limit}
    assert {tuple(int(n) for n in row) for row in table.rows} == wanted
    assert len(table) == len(wanted)


@given(st.integers(1, 4096), st.integers(2, 4))
@examples(9, nightly=40)
def test_neighbours_move_one_divisor(extent: int, levels: int) -> None:
    table = tile_table(extent, levels, 64)
    origin = np.repeat(np.arange(len(table)), np.diff(table.starts))
    before, after = table.rows[origin], table.rows[table.neighbours]
    assert ((before != after).sum(axis=1) == 2).all()
    larger, smaller = np.maximum(before, after), np.minimum(before, after)
    assert (larger % smaller == 0).all()
    pairs = set(zip(origin.tolist(), table.neighbours.tolist(), strict=True))
    assert pairs == {(there, here) for here, there in pairs}


def test_moving_reaches_the_whole_table() -> None:
    table = tile_table(3136, 4, 64)
    rng = np.random.default_rng(0)
    rows = np.zeros(4000, dtype=np.int64)
    seen: set[int] = set()
    for _ in range(60):
        rows = table.move(rows, rng)
        seen |= set(rows.tolist())
    assert len(seen) == len(table)


def test_a_prime_that_may_not_move_stays() -> None:
    table = tile_table(97, 2, 64)
    assert table.rows.tolist() == [[97, 1]]
    rows = np.zeros(3, dtype=np.int64)
    assert table.move(rows, np.random.default_rng(0)).tolist() == [0, 0, 0]


def test_huge_tables_are_sampled_the_same_way_each_time() -> None:
    extent = 720_720
    assert tuple_count(extent, 4) > MAX_ROWS
    table = tile_table(extent, 4, 64)
    again = tile_table.__wrapped__(extent, 4, 64)
    assert not table.is_complete
    assert len(table) > 5000
    assert (table.rows.prod(axis=1) == extent).all()
    assert [extent, 1, 1, 1] in table.rows.tolist()
    assert (np.diff(table.starts) > 0).mean() > 0.9
    assert np.array_equal(table.rows, again.rows)


def test_find() -> None:
    table = tile_table(24, 3, 64)
    row = table.find(np.array([2, 3, 4]))
    assert table.rows[row].tolist() == [2, 3, 4]
    with pytest.raises(KeyError, match=r"\(2, 3, 5\)"):
        table.find(np.array([2, 3, 5]))


def test_divisors() -> None:
    assert divisors(28) == [1, 2, 4, 7, 14, 28]
    assert divisors(1) == [1]
