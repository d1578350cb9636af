from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ansorc.errors import IRError
from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.interpret import interpret, interpret_partly
from ansorc.ir.passes.hoist_conditions import hoist_conditions
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from tests.ir.passes.nests import sums_of_gaps
from tests.ir.passes.test_pass_meaning import PASSES, keeps_order
from tests.support.ir_strategies import Options, arrays_for, functions, gpu_functions
from tests.support.nightly import examples

relaxed = examples(
    20, nightly=60,
    options=settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]),
)  # fmt: skip


def assert_same_outcome(before: Function, after: Function, seed: int) -> None:
    verify(after)
    expected, found = arrays_for(before, seed), arrays_for(before, seed)
    interpret(before, expected)
    interpret(after, found)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
        if one.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


@relaxed
@given(functions(), st.sampled_from(sorted(PASSES)), st.integers(0, 99))
def test_every_pass_keeps_the_meaning(function: Function, name: str, seed: int) -> None:
    if keeps_order(name, function):
        assert_same_outcome(function, PASSES[name](function), seed)


def assert_as_defined(before: Function, after: Function, seed: int) -> None:
    """Where `before` leaves elements undefined `after` may have anything, but nowhere else."""
    verify(after)
    expected, found = arrays_for(before, seed), arrays_for(before, seed)
    try:
        missing = interpret_partly(before, expected)
    except IRError as error:
        assume("that nobody wrote" not in str(error))
        raise
    for one, other, free, lost in zip(
        expected, found, missing, interpret_partly(after, found), strict=True
    ):
        assert not np.any(lost & ~free), "what was defined is lost"
        np.testing.assert_allclose(other[~free], one[~free], rtol=1e-4, atol=1e-5)


@relaxed
@given(functions(Options(has_gaps=True)), st.sampled_from(sorted(PASSES)), st.integers(0, 99))
def test_no_pass_needs_more_than_is_written(function: Function, name: str, seed: int) -> None:
    if keeps_order(name, function):
        assert_as_defined(function, PASSES[name](function), seed)


@pytest.mark.parametrize("name", sorted(PASSES))
@examples(4, nightly=8)
@given(sums_of_gaps(), st.integers(0, 99))
def test_sums_of_what_is_partly_written(name: str, function: Function, seed: int) -> None:
    assert_as_defined(function, PASSES[name](function), seed)


@relaxed
@given(gpu_functions(), st.integers(0, 99))
def test_threads_keep_their_meaning(function: Function, seed: int) -> None:
    assert_same_outcome(function, hoist_conditions(simplify_stmt(function)), seed)


@relaxed
@given(functions() | gpu_functions())
def test_simplifying_twice_changes_nothing_more(function: Function) -> None:
    once = simplify_stmt(function)
    assert simplify_stmt(once) is once
