"""What the analysis of a statement says of machine code: loads, sums beside each other, time."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.lang import ComputeDAG, compute, placeholder
from ansorc.lang import operators as ops
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import Schedule, schedule
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.features.statement import StageAnalysis
from ansorc.target import Target
from ansorc.target.costs import CoreCosts
from tests.search.workloads import matmul

ZEN = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=4")
"""Numbers by hand are those of one machine."""


def statement(state: Schedule, stage: str) -> StageAnalysis:
    nests = LoopNests(state, 1)
    return StageAnalysis(nests, nests.nest(state.stage(stage)), ZEN)


def product(order: str, unrolled: str) -> StageAnalysis:
    """A product of tiles of 4 x 16, its loops in this order, those of `unrolled` unrolled."""
    state = schedule(matmul(64, 64, 64))
    (name,) = (stage.name for stage in state.stages)
    state = state.split(name, "i", [4]).split(name, "j", [16]).split(name, "k", [4])
    names = {"i": "i.1", "k": "k.1", "j": "j.1", "K": "k.0"}
    state = state.reorder(name, ["i.0", "j.0", *(names[letter] for letter in order)])
    for letter in unrolled:
        state = state.unroll(name, names[letter])
    return statement(state.vectorize(name, "j.1"), name)


def test_lanes_that_share_a_quotient_load_one_element() -> None:
    x, w = placeholder((8, 4), name="x"), placeholder((8, 64), name="w")
    y = compute((8, 64), lambda i, c: x[i, c // 16] * w[i, c], name="y")
    state = schedule(ComputeDAG([x, w, y])).split("y", "c", [16])
    found = statement(state.vectorize("y", "c.1"), "y")
    loads = dict(zip((a.buffer.name for a in found.accesses), found.tile.loads, strict=True))
    assert loads["x"] == 1
    assert loads["w"] == 16 // (ZEN.vector_bytes // 4)


@pytest.mark.parametrize(("order", "beside"), [("Kkij", 8), ("Kikj", 2)])
def test_rows_outside_an_unrolled_sum_are_not_added_to_beside_each_other(
    order: str, beside: int
) -> None:
    found = product(order, "ik")
    assert found.tile.sums == 8
    assert found.registers.sums_beside == beside
    assert found.registers.reloads == (6 if beside == 8 else 4 * 3), "b is loaded for each row"


@pytest.mark.parametrize(("rows", "loads"), [(64, 4), (2, 8)])
def test_copies_that_transpose_turn_blocks_of_rows_in_registers(rows: int, loads: int) -> None:
    """Of a vector of 8: itself and three permutations, or each lane where a block has few rows."""
    x = placeholder((64, rows), name="x")
    y = compute((rows, 64), lambda i, j: x[j, i], name="y")
    state = schedule(ComputeDAG([x, y])).split("y", "j", [8]).reorder("y", ["j.0", "i", "j.1"])
    assert statement(state.vectorize("y", "j.1"), "y").tile.loads[1] == loads


def test_borders_cost_nothing_and_other_choices_do() -> None:
    x = placeholder((64, 64), name="x")
    shape = (66, 66)

    def padded(i: Scalar, j: Scalar) -> Scalar:
        return ac.if_then_else(ac.all_of(i >= 1, i < 65, j >= 1, j < 65), x[i - 1, j - 1], 0.0)

    def chosen(i: Scalar, j: Scalar) -> Scalar:
        return ac.if_then_else(x[0, 0] > 0.0, x[0, 1], 0.0)

    border, choice = (
        statement(schedule(ComputeDAG([x, compute(shape, body, name="y")])), "y")
        for body in (padded, chosen)
    )
    assert border.counts.vector_instructions(CoreCosts()) == 0
    assert choice.counts.vector_instructions(CoreCosts()) > 0


def test_what_stays_in_a_cache_is_not_moved_again() -> None:
    first, second, third = ZEN.cache_bytes
    for size, stays in ((first // 16, (0, 0, 0)), (second // 16, (1, 0, 0)), (third, (1, 1, 1))):
        x = placeholder((size,), name="x")
        found = statement(schedule(ComputeDAG([x, ops.relu(x, name="y")])), "y").estimate
        moved = (found.l1_cycles, found.l2_cycles, found.l3_cycles)
        assert tuple(int(np.all(each > 0)) for each in moved) == stays


@pytest.mark.parametrize(("pitch", "needed"), [(1024, 4 * 16 * 1024), (1024 + 16, 4096)])
def test_pieces_a_power_of_two_apart_collide(pitch: int, needed: int) -> None:
    """Sixteen rows of 64 bytes, 4 KiB apart, begin in one set; a line more apart, in many."""
    x = placeholder((16, pitch), name="x")
    y = compute((16, 16), lambda i, j: x[i, j] * 2.0, name="y")
    read = statement(schedule(ComputeDAG([x, y])), "y").accesses[1]
    assert read.find_cache_bytes(4096)[0, 0] == needed
    assert read.find_cache_bytes(4096, 4096)[0, 0] == needed + 4096, "a way for what else passes"


def images(order: list[str]) -> StageAnalysis:
    """128 channels of 8 images of 64 x 64 pixels, 16 at a time, by loops in `order`."""
    x = placeholder((8, 64, 64, 128), name="x")
    y = compute(x.shape, lambda n, h, w, c: x[n, h, w, c] * 2.0, name="y")
    state = schedule(ComputeDAG([x, y])).split("y", "c", [16])
    return statement(state.reorder("y", [*order, "c.1"]).vectorize("y", "c.1"), "y")


def test_pieces_are_counted_as_the_loops_touch_them() -> None:
    """Whole pixels are pages, channels of all pixels a line each; a page is 8 pixels."""
    pixels, lines = 2 * 8 * 64 * 64, 8 * 64 * 64 * 128 * 4 // ZEN.cache_line_bytes
    whole = images(["n", "h", "w", "c.0"]).caches
    apart = images(["c.0", "n", "h", "w"]).caches
    np.testing.assert_allclose(whole.l2_pieces, pixels // 8)
    np.testing.assert_allclose(apart.l2_pieces, 2 * lines)
    assert whole.l2_bytes[0] == apart.l2_bytes[0]


def test_many_pieces_in_turns_are_not_asked_for_ahead() -> None:
    """Two rows in turns go on where they were; those of 8 images, 8 each, begin again each time."""
    x = placeholder((8, 64, 64, 128), name="x")
    y = compute(x.shape, lambda n, h, w, c: x[n, h, w, c] * 2.0, name="y")

    def pieces(rows: int, images: int) -> float:
        state = schedule(ComputeDAG([x, y])).split("y", "h", [rows]).split("y", "n", [images])
        order = ["n.0", "h.0", "w", "n.1", "h.1", "c"]
        return float(statement(state.reorder("y", order), "y").caches.l2_pieces[0])

    few, many = pieces(2, 1), pieces(8, 8)
    assert few == 2 * 8 * 64 * 64 * 512 / 4096
    assert many == 2 * 8 * 64 * 64


def test_what_begins_many_pieces_seems_slower() -> None:
    whole, apart = images(["n", "h", "w", "c.0"]), images(["c.0", "n", "h", "w"])
    assert apart.estimate.total_cycles[0] > 1.3 * whole.estimate.total_cycles[0]


@pytest.mark.parametrize(("rows", "step", "loads"), [(6, 1, 11), (5, 2, 14), (8, 1, 27)])
def test_windows_that_overlap_are_loaded_once_where_they_fit(
    rows: int, step: int, loads: int
) -> None:
    """Three steps of a filter: with 8 rows of 16 sums there is no room for what they share."""
    x, w = placeholder((16, 128, 8), name="x"), placeholder((3, 8), name="w")
    r = ac.reduce_axis(3, name="r")
    y = compute(
        (16, rows, 8), lambda h, i, c: ac.sum(x[h, i * step + r, c] * w[r, c], axis=r), name="y"
    )
    state = schedule(ComputeDAG([x, w, y])).reorder("y", ["h", "r", "i", "c"])
    state = state.vectorize("y", "c").unroll("y", "i")
    assert statement(state, "y").registers.reloads == rows + 1
    shared = statement(state.unroll("y", "r"), "y").registers.reloads
    assert 3 * shared == pytest.approx(loads)
