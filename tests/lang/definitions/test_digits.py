"""Sums with a term for each remainder of a reduce axis: the same numbers, and where there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.errors import ScheduleError
from ansorc.graph.api import build
from ansorc.ir.aligned import Array
from ansorc.ir.interpret import interpret
from ansorc.lang.definitions import terms_of_digits
from ansorc.schedule import lower, schedule
from ansorc.search.cpu.rules import RULES
from ansorc.search.sketch import generate
from tests.search.small_dags import ZEN3

ROWS, TERMS = 6, 32
W: Any = ac.placeholder((ROWS, TERMS // 2), "W", "uint8")
X: Any = ac.placeholder(TERMS, "X")
k = ac.reduce_axis(TERMS, "k")
RNG = np.random.default_rng(0)
WEIGHTS = RNG.integers(0, 256, (ROWS, TERMS // 2), np.uint8)
VECTOR = RNG.random(TERMS, np.float32)


def expected() -> Array:
    digits = np.stack([WEIGHTS & 15, WEIGHTS >> 4], -1).reshape(ROWS, TERMS)
    return digits.astype(np.float64) @ VECTOR


def shifted(j: Any) -> ac.Reduction:
    digit = (W[j, k >> 1] >> ((k & 1) * 4).astype("uint8")) & 15
    return ac.sum(digit.astype("float32") * X[k], axis=k)


def chosen(j: Any) -> ac.Reduction:
    digit = ac.if_then_else(k % 2 == 0, W[j, k // 2] % 16, W[j, k // 2] // 16)
    return ac.sum(digit.astype("float32") * X[k], axis=k)


@pytest.mark.parametrize("body", [shifted, chosen])
def test_a_term_for_each_remainder(body: Callable[[Any], Any]) -> None:
    dag = ac.ComputeDAG([W, X, ac.compute(ROWS, body, "y")])
    made = terms_of_digits(dag.ops[0])
    assert made is not None
    (op,) = made.ops
    assert op.reduce_axes[0].extent == TERMS // 2
    assert not any(word in str(op.body) for word in ("k // 2", "k % 2", "if"))
    found = np.empty(ROWS, np.float32)
    function = lower(schedule(dag).redefine("y", "digits"))
    interpret(function, [WEIGHTS, VECTOR, found], fresh_outputs=True)
    np.testing.assert_allclose(found, expected(), 1e-5)
    np.testing.assert_allclose(build(dag)(WEIGHTS, VECTOR), expected(), 1e-5)


def test_the_search_tries_both() -> None:
    dag = ac.ComputeDAG([W, X, ac.compute(ROWS, shifted, "y")])
    names = [sketch.name for sketch in generate(dag, ZEN3, RULES)]
    assert any("digits of y" in name for name in names)
    assert any("digits of y" not in name for name in names)


def plain(body: Callable[[Any], Any]) -> ac.ComputeOp:
    return ac.ComputeDAG([W, X, ac.compute(ROWS, body, "y")]).ops[-1]


def test_what_has_no_such_terms() -> None:
    """Affine terms, an extreme, two divisors, an extent that is not divided, many remainders."""
    odd, long = ac.reduce_axis(31, "k"), ac.reduce_axis(32, "k")
    assert terms_of_digits(plain(lambda j: ac.sum(X[k] * X[j], axis=k))) is None
    assert terms_of_digits(plain(lambda j: ac.max(X[k // 2], axis=k))) is None
    assert terms_of_digits(plain(lambda j: ac.sum(X[k // 2] * X[k // 4], axis=k))) is None
    assert terms_of_digits(plain(lambda j: ac.sum(X[odd // 2], axis=odd))) is None
    assert terms_of_digits(plain(lambda j: ac.sum(X[long // 16], axis=long))) is None
    assert terms_of_digits(plain(lambda j: X[j // 2])) is None


def test_refusal() -> None:
    dag = ac.ComputeDAG([X, ac.compute(1, lambda j: ac.sum(X[k], axis=k), "y")])
    with pytest.raises(ScheduleError, match="no sum over a reduce axis k whose terms read k // c"):
        schedule(dag).redefine("y", "digits")
