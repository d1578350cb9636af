"""Reductions inside of expressions: the stages that are made of them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from tests.support.everywhere import everywhere

A: Any = ac.placeholder((8, 16), "A")
B: Any = ac.placeholder(8, "B")
T: Any = ac.placeholder((8, 5, 16), "T")
k, q, j = ac.reduce_axis(16, "k"), ac.reduce_axis(16, "q"), ac.reduce_axis(5, "j")
RNG = np.random.default_rng(0)
VALUES = {
    "A": RNG.standard_normal((8, 16)).astype(np.float32),
    "B": RNG.standard_normal(8).astype(np.float32),
    "T": RNG.standard_normal((8, 5, 16)).astype(np.float32),
}


def dag_of(result: ac.Tensor, *inputs: ac.Tensor) -> ac.ComputeDAG:
    return ac.ComputeDAG([*inputs, result])


def compare(result: ac.Tensor, inputs: list[Any], expected: Array) -> ac.ComputeDAG:
    """Require the numbers of all ways to run; return the DAG."""
    dag = dag_of(result, *inputs)
    for way, (found,) in everywhere(dag, [VALUES[tensor.name] for tensor in inputs]):
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5, err_msg=way)
    return dag


def test_a_sum_in_an_expression_is_a_stage() -> None:
    whole = ac.compute(8, lambda i: ac.sum(A[i, k], axis=k) / 16.0 + B[i], "C")
    total = ac.compute(8, lambda i: ac.sum(A[i, k], axis=k), "S")
    by_hand = ac.compute(8, lambda i: total[i] / 16.0 + B[i], "D")
    dag = compare(whole, [A, B], VALUES["A"].sum(1) / 16 + VALUES["B"])
    assert [op.name for op in dag.ops] == ["C.sum", "C"]
    assert dag.key == dag_of(by_hand, A, B).key


def test_softmax_in_one_line() -> None:
    """The maximum is used twice, in a sum and beside it, and computed once."""

    def body(i: Any, c: Any) -> ac.Scalar:
        largest, same = ac.max(A[i, k], axis=k), ac.max(A[i, q], axis=q)
        return ac.exp(A[i, c] - largest) / ac.sum(ac.exp(A[i, k] - same), axis=k)

    powers = np.exp(VALUES["A"] - VALUES["A"].max(1, keepdims=True))
    dag = compare(ac.compute((8, 16), body, "S"), [A], powers / powers.sum(1, keepdims=True))
    assert len(dag.ops) == 3


def test_a_reduction_of_reductions() -> None:
    result = ac.compute(8, lambda i: ac.max(ac.sum(T[i, j, k], axis=k), axis=j), "M")
    dag = compare(result, [T], VALUES["T"].sum(2).max(1))
    assert [axis.name for axis in dag.ops[0].axes] == ["i", "j"]


def test_axes_that_do_not_begin_at_zero() -> None:
    part, some = ac.reduce_axis((2, 5), "j"), ac.reduce_axis((3, 9), "k")
    result = ac.compute(
        8, lambda i: ac.sum(ac.max(T[i, part, some], axis=some) * B[part], axis=part), "R"
    )
    expected = (VALUES["T"][:, 2:5, 3:9].max(2) * VALUES["B"][2:5]).sum(1)
    compare(result, [T, B], expected)


def test_a_reduction_has_the_axes_that_it_uses() -> None:
    """None for a mean of all: a stage of one element."""
    m = ac.reduce_axis(8, "m")
    result = ac.compute((8, 16), lambda i, c: A[i, c] - ac.sum(A[m, k], axis=[m, k]) / 128.0, "R")
    dag = compare(result, [A], VALUES["A"] - VALUES["A"].mean())
    assert dag.ops[0].buffer.shape == ()
    columns = ac.compute((8, 16), lambda i, c: A[i, c] * ac.min(A[m, c], axis=m), "R")
    assert dag_of(columns, A).ops[0].buffer.shape == (16,)


def test_conditions_values_and_outputs() -> None:
    def body(i: Any) -> tuple[ac.Scalar, ac.Scalar]:
        norm = ac.let(ac.sqrt(ac.sum(A[i, k] * A[i, k], axis=k)))
        chosen = ac.if_then_else(ac.any(A[i, k] > 2.0, axis=k), norm * norm, -norm)
        return chosen, ac.max(A[i, k], axis=k)

    first, second = ac.compute_tuple(8, body, ["f", "g"])
    norm = np.sqrt((VALUES["A"] ** 2).sum(1))
    expected = np.where((VALUES["A"] > 2).any(1), norm**2, -norm)  # pyright: ignore[reportUnknownVariableType]
    dag = ac.ComputeDAG([A, first, second])
    for way, (f, g) in everywhere(dag, [VALUES["A"]]):
        np.testing.assert_allclose(f, expected, 1e-4, err_msg=way)  # pyright: ignore[reportUnknownArgumentType]
        np.testing.assert_array_equal(g, VALUES["A"].max(1))


def test_a_reducer_of_reductions() -> None:
    both = ac.reducer(lambda a, b: (a[0] + b[0], ac.maximum(a[1], b[1])), (0, -np.inf))

    def body(i: Any) -> Any:
        row = ac.sum(T[i, j, k], axis=k)
        return both(row, row, axis=j)

    total, largest = ac.compute_tuple(8, body, ["t", "m"])
    rows = VALUES["T"].sum(2)
    for _, (t, m) in everywhere(ac.ComputeDAG([T, total, largest]), [VALUES["T"]], emulates=False):
        np.testing.assert_allclose(t, rows.sum(1), 1e-4, 1e-5)
        np.testing.assert_allclose(m, rows.max(1), 1e-4, 1e-5)


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: ac.compute(8, lambda i: ac.sum(A[i, k] * B[j], axis=k) + 1.0, "C"),
        "'C.sum' uses the reduce axis 'j' but does not reduce over it",
    ),
    (
        lambda: ac.compute(8, lambda i: ac.if_then_else(i > 0, ac.sum(A[i - 1, k], axis=k), 0.0)),
        "'compute.sum' reads 'A' outside of it",
    ),
    (
        lambda: ac.compute(8, lambda i: ac.argmax(A[i, k], axis=k) + 1.0),
        "must be all that the function of a compute_tuple returns",
    ),
    (
        lambda: ac.scatter(4, j % 4, ac.sum(T[0, j, k], axis=k), axis=j, name="H"),
        "in 'H', the sum over k must be the whole body of a compute: put it in its own compute",
    ),
    (lambda: ac.compute(8, lambda i: ac.sum(A[i, k], axis=k)[0]), "is one element, without parts"),
]


@pytest.mark.parametrize(("define", "words"), REFUSALS)
def test_refusals(define: Callable[[], object], words: str) -> None:
    with pytest.raises(LanguageError) as caught:
        define()
    assert words in str(caught.value)
