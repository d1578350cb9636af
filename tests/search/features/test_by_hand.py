"""Numbers worked out by hand for one schedule of a 512³ matmul, and for tiles and machines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ansorc.lang import ComputeDAG, compute, placeholder, reduce_axis
from ansorc.lang import erf as error_function
from ansorc.lang import exp as exponential
from ansorc.lang import floor as rounded_down
from ansorc.lang import sum as total
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import Schedule, schedule
from ansorc.search.features import COLUMNS, FEATURE_NAMES
from ansorc.search.space import extract_state
from ansorc.target import Target
from tests.search.workloads import convolution, matmul, transpose

ZEN = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=4")
"""Numbers by hand are those of one machine."""

CUBE = 512**3


def numbers(state: Schedule, statement: int = 0, target: Target = ZEN) -> dict[str, float]:
    """The features of one statement, unscaled."""
    row = extract_state(state, target)[0, statement].astype(np.float64)
    return {
        column.name: float(2**value - 1 if column.is_log else value)
        for column, value in zip(COLUMNS, row, strict=True)
    }


@pytest.fixture(scope="module")
def worked() -> dict[str, float]:
    """i in (32, 16), j in (64, 8): i.0 j.0 parallel, k unrolled, j.1 vectorised, i.1 innermost."""
    state = schedule(matmul(512, 512, 512)).split("C", "i", [16]).split("C", "j", [8])
    state = state.reorder("C", ["i.0", "j.0", "k", "j.1", "i.1"]).fuse("C", ["i.0", "j.0"])
    state = state.parallel("C", "i.0@j.0").unroll("C", "k").vectorize("C", "j.1")
    return numbers(state)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("operations.fused", CUBE),
        ("operations.total", 2 * CUBE),
        ("loops.count", 5),
        ("loops.iterations", CUBE),
        ("loops.reduce_iterations", 512),
        ("loops.innermost", 16),
        ("loops.unrolled", 512),
        ("loops.parallel_extent", 32 * 64),
        ("loops.parallel_starts", 1),
        ("loops.balance", 1),
        ("registers.vector_extent", 8),
        ("registers.vector_efficiency", 1),
        ("caches.total_bytes", 3 * 512**2 * 4),
        ("caches.intensity", 2 * CUBE / (3 * 512**2 * 4)),
        # C: reused by k, after a tile of 16 × 8 and the elements of A and B for it
        ("buffer0.is_updated", 1),
        ("buffer0.bytes", 512**2 * 4),
        ("buffer0.inner_stride", 512),
        ("buffer0.vector_stride", 1),
        ("buffer0.reuse_iterations", 8 * 16),
        ("buffer0.reuse_bytes", (8 * 16 + 8 + 16) * 4),
        ("buffer0.reuse_count", 512),
        # A: reused by j.1, after a column of i.1
        ("buffer1.inner_stride", 512),
        ("buffer1.vector_stride", 0),
        ("buffer1.reuse_iterations", 16),
        ("buffer1.reuse_bytes", (16 + 16 + 1) * 4),
        ("buffer1.reuse_count", 8),
        # B: reused by the innermost loop
        ("buffer2.inner_stride", 0),
        ("buffer2.reuse_iterations", 1),
        ("buffer2.reuse_bytes", 12),
        ("buffer2.reuse_count", 16),
        ("buffer3.bytes", 0),
    ],
)
def test_worked_example(worked: dict[str, float], name: str, value: float) -> None:
    assert worked[name] == pytest.approx(value, rel=1e-4)


def tile(rows: int, columns: int, depth: int = 32) -> Schedule:
    """A tile of rows × columns inside a reduce loop, in a matmul of 64 × 64."""
    state = schedule(matmul(64, 64, depth)).split("C", "i", [rows]).split("C", "j", [columns])
    state = state.reorder("C", ["i.0", "j.0", "k", "i.1", "j.1"])
    return state.unroll("C", "i.1").vectorize("C", "j.1")


def test_a_register_tile_is_counted_in_vectors() -> None:
    """4 rows of 16 floats on 8 lanes: 8 sums, 2 vectors of B and 4 elements of A in a step."""
    found = numbers(tile(4, 16))
    expected = {
        "copies": 4, "vectors": 8, "vector_chunks": 2, "is_promoted": 1, "inner_terms": 32,
        "loads": 6, "broadcast": 4, "gathered": 0, "scattered": 0, "spilled": 0, "tile_ratio": 0.5,
        "accumulators": 1, "steps": 64 * 64 * 32 / 64, "tiles": 64,
    }  # fmt: skip
    assert {n: found[f"registers.{n}"] for n in expected} == pytest.approx(expected, rel=1e-4)


def row_sums(rows: int, columns: int) -> Schedule:
    data, k = placeholder((rows, columns), name="A"), reduce_axis(columns, "k")
    sums = compute((rows,), lambda i: total(data[i, k], axis=k), name="S")
    return schedule(ComputeDAG([data, sums]))


def test_sums_in_lanes_are_a_few_vectors() -> None:
    """A row of 1001 floats is 126 vectors, the last one in part, added to 8 vectors of sums."""
    found = numbers(row_sums(64, 1001).vectorize("S", "k"))
    expected = {
        "vectors": 126, "sums": 8, "sums_in_lanes": 1, "is_promoted": 1, "accumulators": 1,
        "loads": 126, "steps": 64, "tiles": 64, "inner_terms": 1, "spilled": 0, "sum_distance": 1,
        "tile_ratio": 0.5,
    }  # fmt: skip
    assert {n: found[f"registers.{n}"] for n in expected} == pytest.approx(expected, rel=1e-3)
    plain = numbers(row_sums(64, 1001))
    assert plain["registers.sums_in_lanes"] == 0
    assert found["estimate.total_cycles"] < 0.3 * plain["estimate.total_cycles"]


def test_rows_of_a_tile_share_the_registers() -> None:
    state = row_sums(64, 1024).split("S", "i", [4]).split("S", "k", [16])
    state = state.reorder("S", ["i.0", "k.0", "i.1", "k.1"]).unroll("S", "i.1")
    found = numbers(state.vectorize("S", "k.1"))
    expected = {"copies": 4, "vectors": 8, "sums": 8, "inner_terms": 64, "tiles": 16, "steps": 1024}
    assert {n: found[f"registers.{n}"] for n in expected} == pytest.approx(expected, rel=1e-3)


def test_a_remainder_costs_a_masked_vector_or_one_for_each_power_of_two() -> None:
    state = schedule(matmul(64, 15, 4)).reorder("C", ["i", "k", "j"]).vectorize("C", "j")
    assert numbers(state)["registers.vector_chunks"] == pytest.approx(2)  # 8 + 7 masked
    old = numbers(state, target=Target.parse("x86_64-linux-gnu -mcpu=x86-64-v2"))
    assert old["registers.vector_chunks"] == pytest.approx(5)  # 3 · 4 + 2 + 1
    found = numbers(schedule(matmul(64, 14, 4)).reorder("C", ["i", "k", "j"]).vectorize("C", "j"))
    assert found["registers.vector_efficiency"] == pytest.approx(14 / 16)


def test_a_tile_beyond_the_registers_spills_and_a_huge_one_stays_in_memory() -> None:
    assert numbers(tile(8, 16))["registers.spilled"] > 0
    assert numbers(tile(16, 32))["registers.is_promoted"] == 0
    wide = Target.parse("x86_64-linux-gnu -mcpu=znver4 -cores=4")
    assert numbers(tile(8, 16), target=wide)["registers.spilled"] == 0


def test_a_serial_loop_inside_the_reduction_keeps_sums_in_memory() -> None:
    state = schedule(matmul(64, 64, 32)).reorder("C", ["i", "k", "j"])
    found = numbers(state)
    assert found["registers.is_promoted"] == 0
    assert found["registers.sum_distance"] == pytest.approx(64)
    inner = numbers(schedule(matmul(64, 64, 32)))
    assert inner["registers.is_promoted"] == 1
    assert inner["registers.inner_terms"] == pytest.approx(32)


def test_unrolling_by_limit_counts_copies() -> None:
    state = tile(2, 8).pragma("C", "auto_unroll_max_step", 64)
    assert numbers(state)["loops.unrolled"] == pytest.approx(2 * 32)
    assert numbers(state.pragma("C", "auto_unroll_max_step", 63))[
        "loops.unrolled"
    ] == pytest.approx(2)


def test_vectors_across_rows_gather_or_scatter() -> None:
    along = numbers(schedule(transpose(64, 64)).vectorize("B", "j"))
    assert (along["registers.gathered"], along["registers.scattered"]) == (1, 0)
    across = schedule(transpose(64, 64)).reorder("B", ["j", "i"]).vectorize("B", "i")
    assert numbers(across)["registers.gathered"] == 0
    assert numbers(across)["registers.scattered"] == 1


@pytest.mark.parametrize(("extent", "balance"), [(4, 1.0), (5, 0.625), (2, 0.5), (64, 1.0)])
def test_chunks_are_balanced_over_four_cores(extent: int, balance: float) -> None:
    state = schedule(transpose(extent, 8)).parallel("B", "i")
    assert numbers(state)["loops.balance"] == pytest.approx(balance)


def test_attached_stages_know_the_loops_around_them() -> None:
    dag = convolution(16, 8, 1)
    state = schedule(dag).parallel("Y", "h").compute_at("P", "Y", "v")
    padding = numbers(state, 0)
    assert padding["loops.outer_iterations"] == pytest.approx(16 * 16)
    assert padding["loops.parallel_extent"] == pytest.approx(16)
    assert padding["loops.parallel_starts"] == 0  # the loops of Y started the cores
    assert padding["buffer0.is_local"] == 1
    assert padding["buffer0.held_bytes"] == pytest.approx(3 * 3 * 8 * 4)
    assert numbers(state, 1)["loops.parallel_starts"] == pytest.approx(1)


def test_operations_are_told_apart() -> None:
    x = placeholder((8, 8), name="X")
    y = compute((8, 8), lambda i, j: exponential(x[i, j]) / (x[i, j] + 1.0), name="Y")
    found = numbers(schedule(ComputeDAG([x, y])))
    counts = {name: found[f"operations.{name}"] for name in ("called", "divided", "added", "fused")}
    assert counts == pytest.approx({"called": 64, "divided": 64, "added": 64, "fused": 0})


def test_a_dear_function_takes_longer_than_a_cheap_one() -> None:
    def cycles(function: Callable[[Scalar], Scalar]) -> float:
        x = placeholder((8, 8), name="X")
        y = compute((8, 8), lambda i, j: function(x[i, j]), name="Y")
        return numbers(schedule(ComputeDAG([x, y])))["estimate.arithmetic_cycles"]

    assert 1.4 * cycles(exponential) < cycles(error_function)
    assert 1.4 * cycles(rounded_down) < cycles(exponential)


def test_columns_of_a_power_of_two_pitch_crowd_into_few_sets() -> None:
    """128 rows of one line, 4096 bytes apart, share the 8 lines of one set: none is found again."""
    aligned, odd = schedule(matmul(64, 1024, 128)), schedule(matmul(64, 1024 + 16, 128))
    bytes_of = [
        numbers(state.split("C", "j", [16]).reorder("C", ["j.0", "i", "k", "j.1"]))
        for state in (aligned, odd)
    ]
    first, second = (found["buffer1.l1_bytes"] for found in bytes_of)
    assert first > 10 * second


@pytest.mark.parametrize(("cpu", "rows"), [("znver4", 7), ("znver5", 11)])
def test_rows_a_page_apart_leave_a_way_of_the_first_cache_for_what_passes(
    cpu: str, rows: int
) -> None:
    """Lines of rows of 4096 bytes share one set, of 8 lines in 32 KiB, of 12 in 48 KiB.

    On two cores of a Zen 5 tiles of 11 rows and 32 columns of a product of 1024³ were at 84 % of
    the peak, of 12 rows at 73 %, by hand and in turns.
    """
    target = Target.parse(f"x86_64-linux-gnu -mcpu={cpu}")

    def moved(count: int) -> float:
        state = schedule(matmul(1024, 64, 1024)).split("C", "i", [count]).split("C", "j", [32])
        state = state.reorder("C", ["i.0", "j.0", "k", "i.1", "j.1"])
        return numbers(state, target=target)["buffer1.l1_bytes"]

    assert moved(rows) == pytest.approx(moved(6), rel=0.02)
    assert moved(rows + 1) > 10 * moved(rows)


def test_a_small_working_set_is_fetched_once() -> None:
    found = numbers(schedule(matmul(16, 16, 16)))
    assert found["caches.l1_fill"] < 0.2
    assert found["caches.l1_bytes"] == pytest.approx((2 + 1 + 1) * 16 * 16 * 4)  # C is written too


def test_feature_groups_are_named() -> None:
    groups = {name.partition(".")[0] for name in FEATURE_NAMES}
    assert groups >= {"operations", "loops", "registers", "caches", "estimate", "buffer0"}


def test_padding_spreads_the_rows_over_the_sets() -> None:
    """Tiles of 8 columns of 256 rows: 16 KiB of lines, which a pitch of 2 KiB keeps in few sets."""
    a = placeholder((256, 512), name="A")
    p = compute((256, 512), lambda i, j: a[i, j] + 1.0, name="P")
    c = compute((512, 256), lambda i, j: p[j, i] * 2.0, name="C")
    state = schedule(ComputeDAG([a, c])).split("C", "i", [8]).reorder("C", ["i.0", "j", "i.1"])
    plain = numbers(state, 1)
    padded = numbers(state.storage_align("P", "i", 32, 16), 1)
    assert padded["buffer1.held_bytes"] == pytest.approx(256 * 528 * 4, rel=1e-4)
    assert plain["buffer1.held_bytes"] == pytest.approx(256 * 512 * 4, rel=1e-4)
    assert padded["buffer1.l1_bytes"] < 0.75 * plain["buffer1.l1_bytes"]
