"""Reductions over states that are loops in the steps of scans: references, bounds and axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.lang.rounding import SAFETY, evaluate_with_rounding

X, W, V = ac.placeholder((3, 300), "X"), ac.placeholder((300, 300), "W"), ac.placeholder(290, "V")
Step = Callable[[Any, Any, Any], Any]
"""The state after a step, by its indices and the state before."""


def _dag(step: Step) -> ac.ComputeDAG:
    h = ac.compute((3, 300), lambda t, u: ac.scan(0.0, lambda s: step(t, u, s), axis=t), "h")
    return ac.ComputeDAG([X, W, V, h])


def _windows(first: int, second: int) -> Step:
    """Return a step with two reductions over axes of one name."""
    k, m = ac.reduce_axis(first, "k"), ac.reduce_axis(second, "k")
    return lambda t, u, s: X[t, u] + ac.sum(s[k] * V[k], axis=k) - ac.max(s[m] * W[m, u], axis=m)


def _rows(t: Any, u: Any, s: Any) -> Any:
    i, j = ac.reduce_axis(15, "k"), ac.reduce_axis(20, "k")
    return X[t, u] + ac.sum(s[i * 20 + j] * W[i, j], axis=(i, j))


def _largest_of_one(t: Any, u: Any, s: Any) -> Any:
    k = ac.reduce_axis(300, "k")
    return X[t, u] + ac.max(s[0] * 0.5, axis=k)


def _logical(reduce: Callable[..., Any]) -> Step:
    k = ac.reduce_axis(300, "k")
    return lambda t, u, s: ac.if_then_else(
        reduce(s[k] <= W[k, u], axis=k), X[t, u] * 3.0, X[t, u] * 0.7
    )


def _counts(t: Any, u: Any, s: Any) -> Any:
    k = ac.reduce_axis(300, "k")
    return X[t, u] + ac.sum(ac.floor(s[k] * 8.0).astype("int32"), axis=k).astype("float32") * 0.01


STEPS: dict[str, Step] = {
    "of two extents": _windows(290, 300),
    "of two axes": _rows,
    "of one state": _largest_of_one,
    "any": _logical(ac.any),
    "all": _logical(ac.all),
    "counts": _counts,
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_values_within_their_bounds(step: Step) -> None:
    dag, rng = _dag(step), np.random.default_rng(0)
    assert ac.ComputeDAG.from_text(dag.to_text()) == dag
    inputs = [rng.random(buffer.shape, np.float32) * 0.1 for buffer in dag.inputs]
    (expected,), (bound,) = evaluate_with_rounding(dag, inputs)
    assert bound is not None
    result: Any = ac.build(dag)(*inputs)
    assert (np.abs(result.astype(np.float64) - expected) <= SAFETY * bound).all()


def test_reads_outside_of_a_tensor() -> None:
    """An axis that another reduction names alike does not hide them."""
    with pytest.raises(LanguageError, match="reads 'V' outside of it: index 0 is k, that"):
        _dag(_windows(300, 290))


TEXT = """input X: float32[3, 4]
compute h: float32[3, 4] (t: 3, u: 4) scan t from 0.0 = X[t, u] + h.step0[] + h.step1[]
    step h.step0: float32[] sum over (k: 4) = h[t - 1, k]
    step h.step1: float32[] max over (m: 3) = h[t - 1, m]
params X, h
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("(m: 3) = h[t - 1, m]", "(k: 3) = h[t - 1, k]", "reduce over 'k' of extents 4 and 3"),
        ("(m: 3)", "(m: 3, m: 3)", "its terms follow axes of its own"),
        ("max over", "any over", "combines float32s by any; any and all combine bools"),
    ],
)
def test_texts_that_are_refused(old: str, new: str, words: str) -> None:
    ac.ComputeDAG.from_text(TEXT)
    with pytest.raises(LanguageError, match=words):
        ac.ComputeDAG.from_text(TEXT.replace(old, new))
