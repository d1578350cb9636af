"""Reduce axes whose range is data: what they mean, their text, and what is refused in words."""

from __future__ import annotations

from collections.abc import Callable
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


def largest(i: Scalar) -> Any:
    k = axis(i)
    return ac.argmax(V[k], axis=k)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (defined(of_pair), "has ranges that are data for k, k1; one reduce axis may have one"),
        (defined(of_reduce_axis), "the range of 'k' in 'y' follows 'r'; it may follow the axes"),
        (defined(unknown), "nothing says how far the range of 'k' in 'y' may go"),
        (lambda: ac.compute_tuple(4, largest, ["v", "p"]), "in another way than by sum"),
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
