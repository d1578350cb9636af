"""Products with constants in blocks: the numbers of the dense product everywhere, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import LanguageError, OutOfRangeError, PromiseError
from ansorc.ir.aligned import Array
from ansorc.lang.sparse_blocks import SparseBlocks
from ansorc.schedule import replay
from ansorc.schedule.stage import Mark
from ansorc.search.cpu.rules import RULES
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.sketch import generate
from ansorc.search.space import design_space, steps
from tests.schedule.meaning import keeps_the_meaning
from tests.search.small_dags import ZEN3
from tests.support.everywhere import everywhere
from tests.support.nightly import examples

DTYPES = ("float32", "float64", "int8")


def weight_with_zeros(k: int, n: int, length: int, share: float, dtype: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    kept = np.repeat(rng.random((k, n // length)) < share, length, axis=1)
    return (rng.integers(-4, 5, (k, n)) * kept).astype(dtype)


def product(lead: tuple[int, ...], blocks: SparseBlocks) -> ac.ComputeDAG:
    x = ac.placeholder((*lead, blocks.shape[0]), "x", blocks.values.dtype)
    values, rows, begins = blocks.placeholders("w")
    return ac.ComputeDAG(
        [x, values, rows, begins, ac.ops.sparse_matmul(x, values, rows, begins, "y")]
    )


def data_of(dag: ac.ComputeDAG, seed: int) -> Array:
    (buffer, *_) = dag.inputs
    numbers = np.random.default_rng(seed).integers(-3, 4, buffer.shape)
    return numbers.astype(buffer.dtype.numpy)


@examples(8, nightly=200)
@given(
    lead=st.sampled_from([(), (1,), (3,), (16,), (2, 5), (3, 13)]), k=st.integers(1, 20),
    groups=st.integers(1, 6), length=st.sampled_from([2, 4, 8, 16]),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]), dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 10**6),
)  # fmt: skip
def test_the_dense_product(
    lead: tuple[int, ...], k: int, groups: int, length: int, share: float, dtype: str, seed: int
) -> None:
    weight = weight_with_zeros(k, groups * length, length, share, dtype, seed)
    blocks = ac.sparse_blocks(weight, length)
    dag = product(lead, blocks)
    x = data_of(dag, seed)
    expected = x.astype(np.float64) @ weight.astype(np.float64)
    for name, (found,) in everywhere(dag, [x, *blocks.arrays], emulates=seed % 8 == 0):
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_on_a_gpu() -> None:
    blocks = ac.sparse_blocks(weight_with_zeros(24, 64, 8, 0.2, "float32", 1))
    dag = product((40,), blocks)
    x = data_of(dag, 2)
    found = ac.build(dag, "cuda-emulated -arch=sm_80")(x, *blocks.arrays)
    np.testing.assert_array_equal(found, dag.evaluate(x, *blocks.arrays))


def test_blocks() -> None:
    weight = np.zeros((3, 8), np.float32)
    weight[2, 1], weight[0, 5], weight[1, 7] = 5, np.nan, -0.0
    blocks = ac.sparse_blocks(weight, 4)
    np.testing.assert_array_equal(blocks.values, [[0, 5, 0, 0], [0, np.nan, 0, 0]])
    assert blocks.rows.tolist() == [2, 0]
    assert blocks.begins.tolist() == [0, 1, 2]
    assert (blocks.length, blocks.share) == (4, 1 / 3)


def test_zeros_count_as_zero_beside_infinities() -> None:
    blocks = ac.sparse_blocks(np.repeat([[0, 1]], 8, 1).reshape(2, 8).astype(np.float32))
    dag = product((2,), blocks)
    x = np.array([[np.inf, 2], [np.nan, 3]], np.float32)
    for _, (found,) in everywhere(dag, [x, *blocks.arrays]):
        np.testing.assert_array_equal(found, np.repeat([[2], [3]], 8, 1))


def large() -> ac.ComputeDAG:
    return product((128,), ac.sparse_blocks(weight_with_zeros(96, 384, 8, 0.1, "float32", 0)))


def test_rows_are_computed_beside_each_other_in_a_range() -> None:
    names = [sketch.name for sketch in generate(large(), ZEN3, RULES)]
    assert [name.split()[0] for name in names] == ["8", "4", "12", "keep"]
    stage = replay(large(), default_steps(large(), ZEN3)).stage("y.blocks")
    loops = [(it.axis, it.mark) for it in stage.iterators]
    assert [axis for axis, _ in loops] == ["i", "group", "t", "i", "lane"]
    assert [mark for _, mark in loops[3:]] == [Mark.UNROLL, Mark.VECTORIZE]
    assert loops[0][1] is Mark.PARALLEL
    assert stage.iterators[0].chunk == 0


@pytest.mark.parametrize("rows", [5, 12, 13, 20])
def test_programs_of_all_sketches_keep_the_meaning(rows: int) -> None:
    blocks = ac.sparse_blocks(weight_with_zeros(9, 24, 8, 0.3, "float32", 0))
    dag, rng = product((rows,), blocks), np.random.default_rng(0)
    for sketch in design_space(dag, ZEN3).sketches:
        for row in sample(sketch, 1, rng):
            keeps_the_meaning(replay(dag, steps(sketch, row)))


def test_rows_are_checked() -> None:
    blocks = ac.sparse_blocks(weight_with_zeros(9, 24, 8, 0.3, "float32", 0))
    module = ac.build(product((2,), blocks))
    x, rows = np.ones((2, 9), np.float32), blocks.rows.copy()
    rows[3] = 9
    with pytest.raises(PromiseError, match=r"got 9 in 'w\.rows', whose values were promised"):
        module(x, blocks.values, rows, blocks.begins)


W: Array = np.ones((4, 12), np.float32)
LISTS: Any = [[1.0]]
F, R = ac.placeholder((4, 4), "F"), ac.placeholder(4, "R")
REFUSED: list[tuple[Any, str]] = [
    (lambda: ac.sparse_blocks(LISTS), "takes a NumPy matrix of numbers, not"),
    (lambda: ac.sparse_blocks(np.ones(8, np.float32)), "takes a NumPy matrix of numbers"),
    (lambda: ac.sparse_blocks(W > 0), "takes a NumPy matrix of numbers"),
    (lambda: ac.sparse_blocks(W), "has no blocks of 8 of 12 columns: use one of 2, 4, 8"),
    (lambda: ac.sparse_blocks(W, 3), "has no blocks of 3 of 12 columns"),
    (lambda: ac.ops.sparse_matmul(F, F, R, R), "they must be .*, values .blocks, b., and integers"),
    (lambda: ac.ops.sparse_matmul(F, R, R, R), "sparse_matmul"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_refusals(call: Any, words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        call()


def test_a_row_that_there_is_not() -> None:
    """Of arrays that are not constants of their own."""
    x, v = ac.placeholder((2, 9), "x"), ac.placeholder((5, 8), "v")
    rows, begins = ac.placeholder(5, "r", "int32"), ac.placeholder(3, "p", "int32", sorted=True)
    module = ac.build(ac.ComputeDAG([x, v, rows, begins, ac.ops.sparse_matmul(x, v, rows, begins)]))
    places = np.array([0, 1, 2, 3, 9], np.int32)
    with pytest.raises(OutOfRangeError, match="index 9"):
        module(np.ones((2, 9), np.float32), np.ones((5, 8), np.float32), places,
               np.array([0, 2, 5], np.int32))  # fmt: skip
