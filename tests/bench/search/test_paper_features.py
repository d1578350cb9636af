"""The paper's 164 numbers of a statement, worked out by hand."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from ansorc.lang import ComputeDAG, compute, placeholder, reduce_axis
from ansorc.lang import sum as total
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import Schedule, schedule
from ansorc.target import Target
from bench.search.paper_features import PAPER_FEATURES
from tests.search.workloads import ZEN, matmul

CUBE = 512**3


def scaled(state: Schedule, statement: int = 0, target: Target = ZEN) -> dict[str, float]:
    """The features of one statement as they are stored."""
    row = PAPER_FEATURES.extract_state(state, target)[0, statement].astype(np.float64)
    return dict(zip(PAPER_FEATURES.names, row.tolist(), strict=True))


def numbers(state: Schedule, statement: int = 0, target: Target = ZEN) -> dict[str, float]:
    """The features of one statement, unscaled."""
    found = scaled(state, statement, target)
    return {
        column.name: 2 ** found[column.name] - 1 if column.is_log else found[column.name]
        for column in PAPER_FEATURES.columns
    }


def test_a_statement_has_164_numbers_in_the_paper_s_order() -> None:
    names = PAPER_FEATURES.names
    assert len(names) == len(set(names)) == 164
    starts = {
        "operations.float_multiply_added": 0, "operations.logical": 14, "vectorised.count": 16,
        "unrolled.count": 27, "parallel.count": 38, "threads.is_gpu": 49, "threads.virtual": 56,
        "access0.is_read": 57, "access4.stride": 146, "curve.at_1": 147, "storage.bytes": 157,
        "nest.iterations": 161, "nest.unroll_limit": 163,
    }  # fmt: skip
    assert {name: names.index(name) for name in starts} == starts


@pytest.fixture(scope="module")
def worked() -> dict[str, float]:
    """i in (32, 16), j in (64, 8): i.0 j.0 parallel, k unrolled, j.1 vectorised, i.1 innermost."""
    state = schedule(matmul(512, 512, 512)).split("C", "i", [16]).split("C", "j", [8])
    state = state.reorder("C", ["i.0", "j.0", "k", "j.1", "i.1"]).fuse("C", ["i.0", "j.0"])
    state = state.parallel("C", "i.0@j.0").unroll("C", "k").vectorize("C", "j.1")
    return numbers(state)


# Lines of C and of A: CUBE, of B: CUBE / 256. C has as many bytes as A and comes first.
WORKED = {
    "operations.float_added": CUBE,
    "operations.float_multiplied": CUBE,
    "operations.float_multiply_added": CUBE,
    "operations.integer_added": 4 * CUBE,  # two indices of C, one of A and one of B
    "operations.integer_multiplied": 4 * CUBE,
    "operations.float_compared": 0,
    "vectorised.count": 1,
    "vectorised.product": 8,
    "vectorised.innermost": 8,
    "vectorised.inner_space": 1,
    "vectorised.nowhere": 0,
    "unrolled.count": 1,
    "unrolled.product": 512,
    "unrolled.innermost": 512,
    "unrolled.inner_reduce": 1,
    "parallel.count": 2,
    "parallel.product": 512 * 512 / 16 / 8,
    "parallel.innermost": 64,
    "parallel.mixed": 1,
    "threads.is_gpu": 0,
    "threads.block_x": 1,
    "access0.is_updated": 1,
    "access0.bytes": CUBE * 4,
    "access0.unique_bytes": 512**2 * 4,
    "access0.lines": CUBE,
    "access0.unique_lines": 512**2 / 16,
    "access0.stride": 512,
    "access0.has_loop_reuse": 1,
    "access0.has_serial_reuse": 0,
    "access0.has_no_reuse": 0,
    "access0.reuse_iterations": 8 * 16,
    "access0.reuse_bytes": (8 * 16 + 8 + 16) * 4,
    "access0.reuse_count": 512,
    "access0.bytes_per_use": CUBE * 4 / 512,
    "access0.lines_per_use": CUBE / 512,
    "access1.is_read": 1,
    "access1.lines": CUBE,
    "access1.stride": 512,
    "access1.reuse_iterations": 16,
    "access1.reuse_bytes": (16 + 16 + 1) * 4,
    "access1.reuse_count": 8,
    "access2.is_read": 1,
    "access2.unique_bytes": 512**2 * 4,
    "access2.lines": CUBE / 256,
    "access2.stride": 0,
    "access2.reuse_iterations": 1,
    "access2.reuse_bytes": 12,
    "access2.reuse_count": 16,
    "access3.bytes": 0,
    "access3.has_no_reuse": 0,
    "storage.bytes": 0,
    "nest.iterations": CUBE,
    "nest.count": 5,
    "nest.unroll_limit": 0,
}


@pytest.mark.parametrize("name", WORKED)
def test_worked_example(worked: dict[str, float], name: str) -> None:
    assert worked[name] == pytest.approx(WORKED[name], rel=1e-4, abs=1e-4)


def test_the_curve_of_the_worked_example(worked: dict[str, float]) -> None:
    """Operations by loop, inside out, and the bytes they touch; all samples lie at the end."""
    operations = [32, 256, 131072, 8388608, 268435456]
    touched = [132, 608, 49664, 1114112, 3145728]
    expected = np.interp(
        np.arange(1, 11) / 10 * operations[-1],
        operations,
        [each / amount for each, amount in zip(operations, touched, strict=True)],
    )
    assert expected[[0, 9]] == pytest.approx([13.05, 85.33], rel=1e-3)
    found = [worked[f"curve.at_{place}"] for place in range(1, 11)]
    assert found == pytest.approx(expected.tolist(), rel=1e-4)


def test_the_scale_is_the_logarithm() -> None:
    state = schedule(matmul(512, 512, 512))
    assert scaled(state)["nest.count"] == pytest.approx(2)  # 3 loops
    assert scaled(state)["threads.block_y"] == pytest.approx(1)


def two_stages() -> ComputeDAG:
    a = placeholder((16, 32), name="A")
    b = compute((16, 32), lambda i, j: a[i, j] + 1.0, name="B")
    c = compute((16, 32), lambda i, j: b[i, j] * 2.0, name="C")
    return ComputeDAG([a, c])


def test_what_the_statement_before_wrote_is_reused_at_once() -> None:
    """B in the innermost loop of C: four elements of four bytes are touched in an iteration."""
    state = schedule(two_stages()).compute_at("B", "C", "j")
    found = scaled(state, 1)
    read = next(p for p in (0, 1) if found[f"access{p}.is_read"])
    assert found[f"access{read}.has_serial_reuse"] == 1
    assert found[f"access{read}.reuse_iterations"] == pytest.approx(1)
    assert found[f"access{read}.reuse_bytes"] == pytest.approx(log2(16 + 1))
    assert found[f"access{read}.reuse_count"] == pytest.approx(1)
    before = scaled(state, 0)
    assert [before[f"access{place}.has_no_reuse"] for place in (0, 1)] == [1, 1]


def test_stages_on_their_own_do_not_reuse() -> None:
    found = scaled(schedule(two_stages()), 1)
    assert [found[f"access{place}.has_no_reuse"] for place in (0, 1)] == [1, 1]


def test_a_loop_of_one_iteration_is_not_shared() -> None:
    """B in a loop of one iteration, outside of all that C does there."""
    state = schedule(two_stages()).split("C", "j", [32]).compute_at("B", "C", "j.0")
    found = numbers(state, 1)
    read = next(p for p in (0, 1) if found[f"access{p}.is_read"])
    assert found[f"access{read}.has_serial_reuse"] == 1  # in the loop i
    assert found[f"access{read}.reuse_iterations"] == pytest.approx(32)
    assert found[f"access{read}.reuse_bytes"] == pytest.approx(4 * 32 * 4)


def test_allocations_of_an_intermediate_tensor() -> None:
    state = schedule(two_stages()).compute_at("B", "C", "i")
    inner = numbers(state, 0)
    expected = {"bytes": 32 * 4, "total": 16 * 32, "count": 16, "inside": 32}
    assert {n: inner[f"storage.{n}"] for n in expected} == pytest.approx(expected, rel=1e-5)
    alone = numbers(schedule(two_stages()), 0)
    expected = {"bytes": 16 * 32 * 4, "total": 16 * 32, "count": 1, "inside": 16 * 32}
    assert {n: alone[f"storage.{n}"] for n in expected} == pytest.approx(expected, rel=1e-5)


def test_the_unroll_limit_is_seen_and_unrolls() -> None:
    state = schedule(matmul(64, 64, 32)).reorder("C", ["i", "j", "k"])
    found = numbers(state.pragma("C", "auto_unroll_max_step", 64))
    assert found["nest.unroll_limit"] == pytest.approx(64)
    assert found["unrolled.product"] == pytest.approx(32)
    assert found["unrolled.inner_reduce"] == 1


def test_positions_of_marks() -> None:
    a = placeholder((4, 8, 16), name="A")
    b = compute((4, 8, 16), lambda i, j, m: a[i, j, m] + 1.0, name="B")
    plain = schedule(ComputeDAG([a, b]))
    for axis, position in (("i", "outer_space"), ("j", "middle_space"), ("m", "inner_space")):
        assert numbers(plain.unroll("B", axis))[f"unrolled.{position}"] == 1
    both = numbers(plain.unroll("B", "i").unroll("B", "j"))
    assert (both["unrolled.mixed"], both["unrolled.outer_space"]) == (1, 0)
    assert numbers(plain)["unrolled.nowhere"] == 1


def test_positions_of_reduce_loops() -> None:
    a = placeholder((4, 8, 16), name="A")
    r, s, t = (reduce_axis(n, name) for n, name in ((4, "r"), (8, "s"), (16, "t")))
    b = compute((2,), lambda i: total(a[r, s, t], axis=[r, s, t]), name="B")
    plain = schedule(ComputeDAG([a, b]))
    for axis, position in (("r", "outer_reduce"), ("s", "middle_reduce"), ("t", "inner_reduce")):
        assert numbers(plain.unroll("B", axis))[f"unrolled.{position}"] == 1


def test_blocks_and_threads_of_a_gpu() -> None:
    gpu = Target.parse("cuda -arch=sm_90")
    state = schedule(matmul(512, 512, 512)).split("C", "i", [4, 16])
    state = state.bind("C", "i.0", "blockIdx.x").bind("C", "i.1", "vthread")
    found = scaled(state.bind("C", "i.2", "threadIdx.x"), target=gpu)
    assert found["threads.is_gpu"] == 1
    assert found["threads.block_x"] == pytest.approx(log2(8 + 1))
    assert found["threads.virtual"] == pytest.approx(log2(4 + 1))
    assert found["threads.thread_x"] == pytest.approx(log2(16 + 1))
    assert found["threads.thread_y"] == pytest.approx(1)


def test_the_five_tensors_with_the_most_lines_are_kept() -> None:
    inputs = [placeholder((64, 64), name=f"A{n}") for n in range(6)]

    def body(i: Scalar, j: Scalar) -> Scalar:
        found = inputs[5][j, i]
        for each in inputs[:5]:
            found = found + each[i, j]
        return found

    b = compute((64, 64), body, name="B")
    found = numbers(schedule(ComputeDAG([*inputs, b])))
    lines = [found[f"access{place}.lines"] for place in range(5)]
    assert lines == sorted(lines, reverse=True)
    assert lines[0] == pytest.approx(64 * 64)  # the one that is read down its columns
    assert lines[1] == pytest.approx(64 * 64 / 16)
    assert sum(found[f"access{place}.is_written"] for place in range(5)) == 1


def test_shared_lines_of_a_transposed_read_count_once() -> None:
    """A column of A is 64 lines, and all of A is 64 rows of 4 lines."""
    a = placeholder((64, 64), name="A")
    b = compute((64, 64), lambda i, j: a[j, i] + 1.0, name="B")
    found = numbers(schedule(ComputeDAG([a, b])))
    assert found["access0.is_read"] == 1
    assert found["access0.unique_lines"] == pytest.approx(256)
    assert found["access1.unique_lines"] == pytest.approx(256)
