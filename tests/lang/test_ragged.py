"""Reduce axes whose range is data: what they mean, their text, and what is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.lang.reference import evaluate
from ansorc.lang.rounding import evaluate_with_rounding
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.wanted_values import find_wanted_values
from tests.support.everywhere import everywhere

P = ac.placeholder(5, "P", "int64", sorted=True)
J, V = ac.placeholder(12, "J", "int32"), ac.placeholder(12, "V")
X, B = ac.placeholder(6, "X"), ac.placeholder((6, 3, 2), "B")


def test_a_sparse_matrix_times_a_vector() -> None:
    def row(i: Scalar) -> ac.Reduction:
        k = ac.reduce_axis((P[i], P[i + 1]), "k")
        return ac.sum(V[k] * X[J[k]], axis=k)

    dag = ac.ComputeDAG([P, J, V, X, ac.compute(4, row, "y")])
    assert "range k = P[i] .. P[i + 1]" in dag.to_text()
    assert "(k: 12)" in dag.to_text()
    assert ac.ComputeDAG.from_text(dag.to_text()).to_text() == dag.to_text()
    assert ac.ComputeDAG.from_text(dag.to_text()).key == dag.key
    assert find_wanted_values(dag) == {"P": (0, 12), "J": (0, 5)}
    assert dag.flops == 4 * 3 * 2  # three terms a row, each a product and a sum
    rng = np.random.default_rng(0)
    arrays: list[Array] = [
        np.array([0, 3, 3, 7, 12]), rng.integers(0, 6, 12).astype(np.int32),
        rng.random(12, np.float32), rng.random(6, np.float32),
    ]  # fmt: skip
    terms: Array = arrays[2].astype(np.float64) * arrays[3][arrays[1]]
    pairs = zip(arrays[0].tolist(), arrays[0].tolist()[1:], strict=False)
    wanted = [float(terms[a:b].sum()) for a, b in pairs]
    (found,), (bound,) = evaluate_with_rounding(dag, arrays)
    np.testing.assert_allclose(found, wanted)
    assert bound is not None
    assert bound[1] == 0  # an empty row is exact
    np.testing.assert_allclose(ac.build(dag)(*arrays), wanted, rtol=1e-5)


@pytest.mark.parametrize("word", ["sum", "prod", "max", "min"])
def test_reductions_over_a_range_and_another_axis(word: str) -> None:
    """An embedding bag, whose rows are reduced over a part of their columns, too."""

    def bag(i: Scalar, d: Scalar) -> ac.Reduction:
        k, r = ac.reduce_axis((P[i], P[i + 1]), "k"), ac.reduce_axis(3, "r")
        return getattr(ac, word)(B[J[k], r, d], axis=[k, r])

    dag = ac.ComputeDAG([P, J, B, ac.compute((4, 2), bag, "S")])
    rng = np.random.default_rng(1)
    arrays: list[Array] = [
        np.array([0, 3, 5, 7, 12]), rng.integers(0, 6, 12).astype(np.int32),
        rng.random((6, 3, 2), np.float32),
    ]  # fmt: skip
    reduce: Any = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[word]
    whole: Array = arrays[2].astype(np.float64)
    pairs = zip(arrays[0].tolist(), arrays[0].tolist()[1:], strict=False)
    wanted = np.array([reduce(whole[arrays[1][a:b]], axis=(0, 1)) for a, b in pairs])
    np.testing.assert_allclose(evaluate(dag, arrays)[0], wanted)
    np.testing.assert_allclose(ac.build(dag)(*arrays), wanted, rtol=1e-4)


def test_the_extent_is_what_the_range_indexes_or_what_its_end_promises() -> None:
    ends = ac.placeholder(5, "E", "int32", range=(0, 9))

    def count(i: Scalar) -> ac.Reduction:
        k = ac.reduce_axis((ends[i], ends[i + 1]), "k")
        return ac.sum(k, axis=k)

    dag = ac.ComputeDAG([ends, ac.compute(4, count, "N")])
    assert "(k: 9)" in dag.to_text()
    pointers = np.array([0, 0, 4, 3, 9], np.int32)
    np.testing.assert_array_equal(ac.build(dag)(pointers), [0, 6, 0, 33])

    def shifted(i: Scalar) -> ac.Reduction:
        k = ac.reduce_axis((P[i], P[i + 1]), "k")
        return ac.sum(V[k + 2], axis=k)

    assert "(k: 10)" in ac.ComputeDAG([P, V, ac.compute(4, shifted, "y")]).to_text()


def defined(make: Callable[[Scalar], Any]) -> Callable[[], Any]:
    return lambda: ac.compute(4, make, "y")


def axis(i: Scalar) -> Any:
    return ac.reduce_axis((P[i], P[i + 1]), "k")


def of_pair(i: Scalar) -> Any:
    first, second = axis(i), axis(i)
    return ac.sum(V[first] * V[second], axis=[first, second])


def of_reduce_axis(i: Scalar) -> Any:
    r = ac.reduce_axis(4, "r")
    k = ac.reduce_axis((P[r], P[r + 1]), "k")
    return ac.sum(V[k], axis=[r, k])


def unknown(i: Scalar) -> Any:
    k = axis(i)
    return ac.sum(k, axis=k)


def place_of_pair(i: Scalar) -> Any:
    r, k = ac.reduce_axis(4, "r"), axis(i)
    return ac.argmax(V[k] + B[r, 0, 0], axis=[r, k])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (defined(of_pair), "has ranges that are data for k, k1; one reduce axis may have one"),
        (defined(of_reduce_axis), "the range of 'k' in 'y' follows 'r'; it may follow the axes"),
        (defined(unknown), "nothing says how far the range of 'k' in 'y' may go"),
        (
            lambda: ac.compute_tuple(4, place_of_pair, ["v", "p"]),
            "let the axis whose range is data be",
        ),
        (lambda: ac.reduce_axis((V[0], 3)), "is float32, no integer"),
        (lambda: ac.reduce_axis((0, ac.reduce_axis(4, "r")), "k"), "follows the reduce axis 'r'"),
    ],
)
def test_refusals(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        make()


def test_a_mean_of_each_row_is_a_stage_and_a_quotient() -> None:
    def mean(i: Scalar) -> Scalar:
        k = ac.reduce_axis((P[i], P[i + 1]), "k")
        count = ac.maximum(P[i + 1] - P[i], 1)
        return ac.sum(V[k], axis=k) / ac.cast(count, "float32")

    dag = ac.ComputeDAG([P, V, ac.compute(4, mean, "m")])
    arrays = [np.array([0, 3, 3, 7, 12]), np.arange(12, dtype=np.float32)]
    np.testing.assert_allclose(ac.build(dag)(*arrays), [1, 0, 4.5, 9])


ROWS: list[list[int]] = [[0, 3, 3, 7, 12], [0, 0, 0, 0, 0], [12, 5, 0, 12, 12]]


def rows_of(pointers: list[int]) -> list[slice]:
    return [slice(a, max(a, b)) for a, b in pairwise(pointers)]


@pytest.mark.parametrize("pointers", ROWS)
@pytest.mark.parametrize("find", ["argmax", "argmin"])
def test_places_in_ranges(find: str, pointers: list[int]) -> None:
    """The first of equals, NaN first of all; of an empty range the identity."""

    def row(i: Scalar) -> Any:
        k = axis(i)
        return getattr(ac, find)(V[k], axis=k)

    dag = ac.ComputeDAG([P, V, *ac.compute_tuple(4, row, ["v", "p"])])
    assert ac.ComputeDAG.from_text(dag.to_text()).key == dag.key
    data = np.random.default_rng(2).integers(0, 3, 12).astype(np.float32)
    data[[8, 10]] = np.nan
    values: list[float] = []
    places: list[int] = []
    for part in rows_of(pointers):
        taken = data[part]
        empty = -np.inf if find == "argmax" else np.inf
        reduce = np.max if find == "argmax" else np.min
        values.append(float(reduce(taken)) if taken.size else empty)
        places.append(part.start + getattr(np, find)(taken) if taken.size else 2**63 - 1)
    for name, (value, place) in everywhere(dag, [np.array(pointers), data]):
        np.testing.assert_array_equal(value, values, err_msg=name)
        np.testing.assert_array_equal(place, places, err_msg=name)


def test_tuples_of_several_axes() -> None:
    """Sums of numbers and of squares over a range and a part of the columns, for each column."""
    moments = ac.reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0, 0), "moments")

    def row(i: Scalar, d: Scalar) -> Any:
        k, r = axis(i), ac.reduce_axis(3, "r")
        x = B[J[k], r, d]
        return moments(x, x * x, axis=[k, r])

    dag = ac.ComputeDAG([P, J, B, *ac.compute_tuple((4, 2), row, ["s", "q"])])
    rng = np.random.default_rng(3)
    pointers, rows = ROWS[0], rng.integers(0, 6, 12).astype(np.int32)
    b = rng.integers(-4, 5, (6, 3, 2)).astype(np.float32)
    terms = [b[rows[part]].astype(np.float64) for part in rows_of(pointers)]
    for name, (sums, squares) in everywhere(dag, [np.array(pointers), rows, b]):
        np.testing.assert_array_equal(sums, [t.sum((0, 1)) for t in terms], err_msg=name)
        np.testing.assert_array_equal(squares, [(t * t).sum((0, 1)) for t in terms], err_msg=name)


def ragged_attention(tokens: int, sequences: int, longest: int, heads: int, depth: int) -> Any:
    """Attention within each of several sequences, whose tokens lie one after the other."""
    q, k, v = (ac.placeholder((tokens, heads, depth), name) for name in "qkv")
    begins = ac.placeholder(sequences + 1, "begins", "int32", range=(0, tokens), sorted=True)
    of = ac.placeholder(tokens, "of", "int32", range=(0, sequences - 1))
    d = ac.reduce_axis(depth, "d")

    def score(t: Scalar, h: Scalar, j: Scalar) -> ac.Reduction:
        other = ac.minimum(begins[of[t]] + j.astype("int32"), tokens - 1)
        return ac.sum(q[t, h, d] * k[other, h, d], axis=d)

    scores = ac.compute((tokens, heads, longest), score, "scores")

    def among(t: Scalar) -> Any:
        length = begins[of[t] + 1] - begins[of[t]]
        return ac.reduce_axis((0, ac.minimum(length, longest)), "j")

    def largest(t: Scalar, h: Scalar) -> ac.Reduction:
        j = among(t)
        return ac.max(scores[t, h, j], axis=j)

    top = ac.compute((tokens, heads), largest, "top")

    def total(t: Scalar, h: Scalar) -> ac.Reduction:
        j = among(t)
        return ac.sum(ac.exp((scores[t, h, j] - top[t, h]) * depth**-0.5), axis=j)

    weight = ac.compute((tokens, heads), total, "weight")

    def value(t: Scalar, h: Scalar, e: Scalar) -> ac.Reduction:
        j = among(t)
        share = ac.exp((scores[t, h, j] - top[t, h]) * depth**-0.5) / weight[t, h]
        return ac.sum(share * v[begins[of[t]].astype("int64") + j, h, e], axis=j)

    return ac.ComputeDAG([q, k, v, begins, of, ac.compute((tokens, heads, depth), value, "y")])


def test_ragged_attention() -> None:
    lengths = [3, 1, 6, 2]
    begins = np.cumsum([0, *lengths]).astype(np.int32)
    of = np.repeat(np.arange(4), lengths).astype(np.int32)
    dag, rng = ragged_attention(12, 4, 6, 2, 8), np.random.default_rng(4)
    q, k, v = (rng.standard_normal((12, 2, 8)).astype(np.float32) for _ in range(3))
    wanted = np.empty((12, 2, 8))
    for first, last in pairwise(begins.tolist()):
        part = slice(first, last)
        scores = np.einsum("thd,shd->hts", q[part].astype(np.float64), k[part]) * 8**-0.5
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        wanted[part] = np.einsum("hts,shd->thd", shares, v[part])
    for name, (found,) in everywhere(dag, [q, k, v, begins, of]):
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5, err_msg=name)
