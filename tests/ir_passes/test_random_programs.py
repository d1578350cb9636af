from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir_strategies import arrays_for, functions, gpu_functions
from test_pass_meaning import PASSES, keeps_order

from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.interpret import interpret
from ansorc.ir.passes.hoist_conditions import hoist_conditions
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify

relaxed = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


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


@relaxed
@given(gpu_functions(), st.integers(0, 99))
def test_threads_keep_their_meaning(function: Function, seed: int) -> None:
    assert_same_outcome(function, hoist_conditions(simplify_stmt(function)), seed)


@relaxed
@given(functions() | gpu_functions())
def test_simplifying_twice_changes_nothing_more(function: Function) -> None:
    once = simplify_stmt(function)
    assert simplify_stmt(once) is once
