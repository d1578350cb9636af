"""Values that are computed once for each element: texts, meaning, and linear time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.graph.api import build
from ansorc.ir.aligned import Array
from ansorc.lang.flops import op_flops
from tests.support.everywhere import everywhere
from tests.support.nightly import examples

X: Any = ac.placeholder(64, "x")
I: Any = ac.placeholder(64, "n", "int32")  # noqa: E741


def text_of(*tensors: ac.Tensor) -> list[str]:
    return ac.ComputeDAG(tensors).to_text().splitlines()


def shared(i: Any) -> ac.Scalar:
    t = ac.let(X[i] * 2.0 + 1.0)
    u = ac.let(ac.exp(t) * t)
    return ac.if_then_else(t > 1.0, u + t, u * u)


def test_text() -> None:
    dag = ac.ComputeDAG([X, ac.compute(64, shared, "y")])
    assert dag.to_text().splitlines()[1:-1] == [
        "let y.let0: float32[] = x[i] * 2.0 + 1.0",
        "let y.let1: float32[] = exp(y.let0[]) * y.let0[]",
        "compute y: float32[64] (i: 64) = (y.let1[] + y.let0[] if y.let0[] > 1.0 "
        "else y.let1[] * y.let1[])",
    ]
    again = ac.ComputeDAG.from_text(dag.to_text())
    assert again == dag
    assert again.key == dag.key
    renamed = ac.ComputeDAG([X, ac.compute(64, shared, "other", axes=["j"])])
    assert renamed.key == dag.key
    assert op_flops(dag.ops[0]) == 64 * (2 + 1 + 2)


def test_a_value_used_once_is_an_expression() -> None:
    plain = ac.compute(64, lambda i: ac.exp(X[i] + 1.0) * 2.0, "y")
    held = ac.compute(64, lambda i: ac.let(ac.exp(ac.let(X[i] + 1.0))) * 2.0, "y")
    assert ac.ComputeDAG([X, held]).key == ac.ComputeDAG([X, plain]).key


def test_loads_and_indices_are_not_held() -> None:
    def body(i: Any) -> ac.Scalar:
        place, value = ac.let(i // 2), ac.let(X[i])
        return X[place] * value + X[place + 1] * value

    assert text_of(X, ac.compute(64, body, "y"))[1].startswith("compute y")


def test_several_outputs_share_values() -> None:
    def both(i: Any) -> tuple[ac.Scalar, ac.Scalar]:
        root = ac.let(ac.sqrt(X[i] + 1.0))
        return root + 1.0, root * root

    outputs = ac.compute_tuple(64, both, ["a", "b"])
    assert text_of(X, *outputs)[1] == "let a.let0: float32[] = sqrt(x[i] + 1.0)"
    x = np.random.default_rng(0).random(64, np.float32)
    for way, (a, b) in everywhere(ac.ComputeDAG([X, *outputs]), [x]):
        np.testing.assert_allclose(a, np.sqrt(x + 1) + 1, 1e-5, err_msg=way)
        np.testing.assert_allclose(b, x + 1, 1e-5, err_msg=way)


def test_reductions_write_values_out() -> None:
    k = ac.reduce_axis(64, "k")

    def body(i: Any) -> ac.Reduction:
        term = ac.let(X[k] * 2.0)
        return ac.sum(term * term, axis=k)

    assert text_of(X, ac.compute(4, body, "y"))[1].endswith("= x[k] * 2.0 * (x[k] * 2.0)")


def test_scans_and_scatters_write_values_out() -> None:
    def step(before: Any, t: Any) -> ac.Scalar:
        term = ac.let(before * 0.5 + X[t])
        return term * term

    states = ac.compute(64, lambda t: ac.scan(0.0, lambda b: step(b, t), axis=t), "s")
    k = ac.reduce_axis(64, "k")
    value = ac.let(X[k] + 1.0)
    sums = ac.scatter(4, k % 4, value * value, axis=k, name="h")
    dag = ac.ComputeDAG([X, states, sums])
    assert not any(op.temporaries for op in dag.ops)
    x = np.random.default_rng(0).random(64, np.float32) * 0.5
    for _, (_, found) in everywhere(dag, [x], emulates=False):
        np.testing.assert_allclose(found, ((x + 1) ** 2).reshape(16, 4).sum(0), 1e-5)


def test_values_under_conditions() -> None:
    """Held where that harms nothing; else the arm that is not chosen would be computed."""

    def harmless(i: Any) -> ac.Scalar:
        root = ac.let(ac.sqrt(X[i]))
        return ac.if_then_else(X[i] > 0.5, root * root + root, 0.0)

    def outside(i: Any) -> ac.Scalar:
        value = ac.let(X[i - 1] + 1.0)
        return ac.if_then_else(i > 0, value * value, 0.0)

    def divided(i: Any) -> ac.Scalar:
        value = ac.let(100 // I[i])
        return ac.if_then_else(I[i] != 0, value * value, 0)

    assert len(ac.ComputeDAG([X, ac.compute(64, harmless, "y")]).ops[0].temporaries) == 1
    x, n = np.linspace(-1, 1, 64, dtype=np.float32), np.arange(-32, 32, dtype=np.int32)
    found = ac.compute(64, outside, "y"), ac.compute(64, divided, "z")
    dag = ac.ComputeDAG([X, I, *found])
    assert not any(op.temporaries for op in dag.ops)
    for _, (y, z) in everywhere(dag, [x, n], emulates=False):
        np.testing.assert_allclose(y[1:], (x[:-1] + 1) ** 2, 1e-6)
        np.testing.assert_array_equal(z[n != 0], (100 // n[n != 0]) ** 2)


def test_stages_around_held_values() -> None:
    """A computation with held values reads stages, is read by others, and is reduced."""
    k = ac.reduce_axis(64, "k")
    before = ac.compute(64, lambda i: X[i] + ac.let(X[i] * X[i]), "before")

    def middle_of(i: Any) -> ac.Scalar:
        v = ac.let(ac.tanh(before[i]))
        w = ac.let(v * v + before[i])
        return w * w + v

    middle = ac.compute(64, middle_of, "middle")
    total = ac.compute(1, lambda i: ac.sum(middle[k], axis=k), "total")
    after = ac.compute(64, lambda i: middle[i] * middle[63 - i] / total[0], "after")
    x = np.random.default_rng(1).random(64, np.float32)
    b = x.astype(np.float64) + x.astype(np.float64) ** 2
    v = np.tanh(b)
    m = (v * v + b) ** 2 + v
    for way, (found,) in everywhere(ac.ComputeDAG([X, after]), [x]):
        np.testing.assert_allclose(found, m * m[::-1] / m.sum(), 1e-4, err_msg=way)


def step(kind: int, a: Any, b: Any, choose: Any) -> Any:
    """One operation on two values, of the language or of NumPy."""
    match kind:
        case 0:
            return a * 0.5 + b * 0.25
        case 1:
            return a * b
        case 2:
            return a - b
        case 3:
            return choose(a > b, a, b * 0.5)
        case _:
            return choose(b > 0.25, a * a, a)


@examples(4, nightly=60)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(0, 9)), min_size=4))
def test_random_values_of_values(steps: list[tuple[int, int, int]]) -> None:
    x = np.random.default_rng(0).random(64, np.float32)

    def values_of(first: Any, *, lets: bool) -> Any:
        values = [first, first * 0.5 + 0.25]
        for kind, left, right in steps[:24]:
            a, b = values[left % len(values)], values[-1 - right % len(values)]
            new = step(kind, a, b, ac.if_then_else if lets else np.where)
            values.append(ac.let(new) if lets else new)
        return values[-1] + values[-2]

    dag = ac.ComputeDAG([X, ac.compute(64, lambda i: values_of(X[i], lets=True), "y")])
    assert ac.ComputeDAG.from_text(dag.to_text()) == dag
    expected = values_of(x, lets=False)
    for way, (found,) in everywhere(dag, [x], emulates=False):
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5, err_msg=way)


def cholesky(size: int, batch: int) -> ac.ComputeDAG:
    """The factors of a batch of matrices, written out: each element is used again and again."""
    a = ac.placeholder((size, size, batch), "A")
    pairs = [(i, j) for i in range(size) for j in range(i + 1)]

    def body(b: Any) -> tuple[ac.Scalar, ...]:
        found: dict[tuple[int, int], ac.Scalar] = {}
        for j in range(size):
            for i in range(j, size):
                rest: ac.Scalar = a[i, j, b]
                for k in range(j):
                    rest = rest - found[i, k] * found[j, k]
                found[i, j] = ac.let(ac.sqrt(rest) if i == j else rest / found[j, j])
        return tuple(found[pair] for pair in pairs)

    names = [f"L{i}{j}" for i, j in pairs]
    return ac.ComputeDAG([a, *ac.compute_tuple(batch, body, names)])


def positive(size: int, batch: int) -> Array:
    """Positive definite matrices, [batch, size, size]."""
    m = np.random.default_rng(0).standard_normal((batch, size, size)).astype(np.float32)
    return m @ m.transpose(0, 2, 1) + size * np.eye(size, dtype=np.float32)


def test_cholesky_of_many_matrices_takes_linear_time() -> None:
    """8 x 8, wholly written out: without sharing it has more than 10^6 nodes."""
    begin = time.process_time()
    dag = cholesky(8, 256)
    assert dag.key
    defined = time.process_time()
    module = build(dag)
    done = time.process_time()
    assert defined - begin < 1.0
    assert done - defined < 3.0
    matrices = positive(8, 256)
    found = module(np.ascontiguousarray(matrices.transpose(1, 2, 0)))
    expected = np.linalg.cholesky(matrices.astype(np.float64))
    places = [(i, j) for i in range(8) for j in range(i + 1)]
    for values, (i, j) in zip(found, places, strict=True):
        np.testing.assert_allclose(values, expected[:, i, j], 2e-4, 1e-4)


def test_deep_sharing_is_linear() -> None:
    def body(i: Any) -> ac.Scalar:
        v: ac.Scalar = X[i]
        for _ in range(60):  # 2^60 nodes, written out
            v = ac.let(v * 0.5 + v * 0.25)
        return v

    begin = time.process_time()
    dag = ac.ComputeDAG([X, ac.compute(64, body, "y")])
    x = np.ones(64, np.float32)
    for _, (found,) in everywhere(dag, [x], emulates=False):
        np.testing.assert_allclose(found, 0.75**60, 1e-4)
    assert time.process_time() - begin < 3.0


def test_refusals() -> None:
    with pytest.raises(LanguageError, match="a Python bool is not a condition of the program"):
        ac.let(True)
    k = ac.reduce_axis(4, "k")
    with pytest.raises(LanguageError, match="uses the reduce axis 'k' but does not reduce over it"):
        ac.compute(4, lambda i: ac.let(X[k] + 1.0) * ac.let(X[i] + X[k]), "y")
    text = "input x: float32[4]\nlet y.l: float32[] = x[k] + 1.0\n"
    text += "compute y: float32[4] (i: 4) sum over (k: 4) = y.l[] * y.l[]\nparams x, y\n"
    with pytest.raises(LanguageError, match="is a reduction, which holds no values"):
        ac.ComputeDAG.from_text(text)
