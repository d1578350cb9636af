"""The loops as text: with values and buffers, for people who schedule by hand."""

import re

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import ArgumentError
from ansorc.ir.interpret import interpret
from ansorc.schedule import Hole, Schedule, lower, schedule
from ansorc.schedule.steps import Split


def product() -> Schedule:
    a, b = ac.placeholder((128, 64), "A"), ac.placeholder((64, 32), "B")
    k = ac.reduce_axis(64, "k")
    c = ac.compute((128, 32), lambda i, j: ac.sum(a[i, k] * b[k, j], axis=k), "C")
    d = ac.compute((128, 32), lambda i, j: ac.maximum(c[i, j], 0), "D")
    return schedule(ac.ComputeDAG([a, b, d]))


def test_details_show_values_and_what_is_held_where() -> None:
    state = product().tile("D", ["i", "j"], [4, 16]).vectorize("D", "j.1")
    state = state.compute_at("C", "D", "j.0").cache_read("B", "local", ["C"])
    assert (
        state.details()
        == """\
hold B.local: float32[64, 32] local, 8 KiB
for ax0 in 0..64
  for ax1 in 0..32
    B.local[ax0, ax1] = B[ax0, ax1]
for i.0 in 0..32
  for j.0 in 0..2
    hold C: float32[4, 16], 256 bytes
    for i in 0..4
      for j in 0..16
        for k in 0..64
          C[i, j] += A[i, k] * B.local[k, j]
    for i.1 in 0..4
      vectorize j.1 in 0..16
        D[i, j] = max(C[i, j], 0.0)"""
    )


def test_details_of_a_sketch_leave_out_what_is_not_chosen() -> None:
    state = product().then(Split("D", "i", (Hole("n", (1,)),))).compute_at("C", "D", "i.0")
    assert "hold C: float32[?, 32]" in state.details()


def test_a_tile_is_two_splits_and_an_order() -> None:
    by_hand = product().split("D", "i", [8]).split("D", "j", [4])
    by_hand = by_hand.reorder("D", ["i.0", "j.0", "i.1", "j.1"])
    assert product().tile("D", ["i", "j"], [8, 4]).steps == by_hand.steps


def test_shared_memory_belongs_to_a_block() -> None:
    state = product().cache_read("A", "shared", ["C"])
    with pytest.raises(ArgumentError, match=re.escape("compute it inside a loop over blocks")):
        lower(state)


def test_a_length_of_lanes_fits_a_short_loop() -> None:
    x = ac.placeholder(3, "x")
    y = ac.compute(3, lambda i: x[i] * 2, "y")
    state = schedule(ac.ComputeDAG([x, y])).split("y", "i", [16]).vectorize("y", "i.1")
    arrays = [np.arange(3, dtype="float32"), np.full(3, np.nan, "float32")]
    interpret(lower(state), arrays)
    assert (arrays[1] == arrays[0] * 2).all()
