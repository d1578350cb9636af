"""Stages computed for quotients of their reader's loops: the region, and refusals in words."""

from __future__ import annotations

import pytest

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.schedule import Schedule, schedule
from tests.schedule.meaning import keeps_the_meaning


def doubled(extent: int = 14) -> Schedule:
    """y[i] = p[i // 2] * (i % 2)."""
    x = ac.placeholder(((extent + 1) // 2, 3), "x")
    w = ac.placeholder(x.shape, "w", constant=True)
    p = ac.compute(x.shape, lambda r, c: x[r, c] * w[r, c], "p")
    body = ac.compute((extent, 3), lambda i, c: p[i // 2, c] * ac.cast(i % 2 + 1, "float32"), "y")
    return schedule(ac.ComputeDAG([x, w, body]))


def rows_of_p(state: Schedule) -> int:
    rows = state.stage("p").iterators[0].extent
    assert isinstance(rows, int)
    return rows


@pytest.mark.parametrize(
    ("length", "rows"),
    [(2, 1), (4, 2), (6, 3), (14, 7), (1, 1), (3, 2), (5, 3), (7, 4)],
)
def test_the_region_of_a_quotient(length: int, rows: int) -> None:
    """Tiles that begin at even rows need half as many, others may need one more."""
    state = doubled().split("y", "i", [length]).compute_at("p", "y", "i.0")
    assert rows_of_p(state) == rows
    keeps_the_meaning(state)


def test_a_period_inside_a_tile() -> None:
    state = doubled().split("y", "i", [3, 2]).compute_at("p", "y", "i.0")
    assert rows_of_p(state) == 3
    keeps_the_meaning(state)


def test_a_last_tile_that_is_not_full() -> None:
    state = doubled(13).split("y", "i", [4]).compute_at("p", "y", "i.0")
    assert rows_of_p(state) == 2
    keeps_the_meaning(state)


def test_loops_that_were_fused_need_all_of_it() -> None:
    state = doubled().fuse("y", ["i", "c"]).split("y", "i@c", [6]).compute_at("p", "y", "i@c.0")
    assert rows_of_p(state) == 7
    keeps_the_meaning(state)


def test_a_remainder_takes_all_its_values() -> None:
    x = ac.placeholder((3, 8), "x")
    p = ac.compute((3, 8), lambda r, c: x[r, c] + 1.0, "p")
    y = ac.compute((12, 8), lambda i, c: p[i % 3, c], "y")
    state = schedule(ac.ComputeDAG([x, y])).split("y", "c", [4]).reorder("y", ["c.0", "i", "c.1"])
    state = state.compute_at("p", "y", "c.0")
    assert [iterator.extent for iterator in state.stage("p").iterators] == [3, 4]
    keeps_the_meaning(state)


def test_a_reader_that_is_computed_for_odd_tiles_itself() -> None:
    x = ac.placeholder((8,), "x")
    p = ac.compute((8,), lambda r: x[r] + 1.0, "p")
    y = ac.compute((15,), lambda i: p[i // 2] * 2.0, "y")
    z = ac.compute((15,), lambda i: y[i] + 3.0, "z")
    state = schedule(ac.ComputeDAG([x, z])).split("z", "i", [3]).compute_at("y", "z", "i.0")
    state = state.split("y", "i", [2]).compute_at("p", "y", "i.0")
    assert rows_of_p(state) == 2
    keeps_the_meaning(state)


def test_a_reader_that_is_computed_one_step_ahead() -> None:
    x = ac.placeholder((8,), "x")
    p = ac.compute((8,), lambda r: x[r] + 1.0, "p")
    y = ac.compute((15,), lambda i: p[i // 2] * 2.0, "y")
    z = ac.compute((14,), lambda i: y[i + 1] + 3.0, "z")
    state = schedule(ac.ComputeDAG([x, z])).split("z", "i", [5]).compute_at("y", "z", "i.0")
    keeps_the_meaning(state.compute_at("p", "z", "i.0"))


WORDS = "'p' is computed for quotients of the loops of 'y'"


def test_a_layout_does_not_follow_quotients() -> None:
    inside = doubled().split("y", "i", [4]).compute_at("p", "y", "i.0")
    with pytest.raises(ScheduleError, match=WORDS):
        inside.rewrite_layout("p", "w")
    outside = doubled().rewrite_layout("p", "w").split("y", "i", [4])
    with pytest.raises(ScheduleError, match=f"the layout of 'w' is rewritten, but then {WORDS}"):
        outside.compute_at("p", "y", "i.0")
