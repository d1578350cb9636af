"""Definitions as plain loops: `dag.interpret` beside `dag.evaluate` and a lowered schedule."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import LanguageError, OutOfRangeError
from ansorc.ir.interpret import interpret
from ansorc.ir.printer import to_text
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.loop_program import interpret_definition, loop_program
from ansorc.schedule import lower, schedule
from tests.support.dag_strategies import dags, random_inputs
from tests.support.nightly import examples

A = ac.placeholder((2, 3), "A")


@examples(9, nightly=200)
@given(dags(), st.integers(0, 999))
def test_the_loops_compute_what_an_untouched_schedule_computes(dag: ComputeDAG, seed: int) -> None:
    inputs = random_inputs(dag, np.random.default_rng(seed))
    function = lower(schedule(dag))
    values = dict(zip((b.name for b in dag.inputs), inputs, strict=True))
    values |= {b.name: np.zeros(b.shape, b.dtype.numpy) for b in dag.outputs}
    interpret(function, [values[b.name] for b in dag.params], fresh_outputs=True)
    for buffer, made in zip(dag.outputs, interpret_definition(dag, inputs), strict=True):
        np.testing.assert_array_equal(made, values[buffer.name])


def test_one_output_is_an_array_and_several_are_a_tuple() -> None:
    k = ac.reduce_axis(3, "k")
    total = ac.compute(2, lambda i: ac.sum(A[i, k], axis=k), "total")
    least, place = ac.compute_tuple(2, lambda i: ac.argmin(A[i, k], axis=k), ["least", "place"])
    numbers = [[1.5, 0.25, 4.0], [3.0, 2.0, 1.0]]
    np.testing.assert_array_equal(ComputeDAG([A, total]).evaluate(numbers), [5.75, 6.0])
    np.testing.assert_array_equal(ComputeDAG([A, total]).interpret(numbers), [5.75, 6.0])
    for values, places in (
        ComputeDAG([A, least, place]).evaluate(numbers),
        ComputeDAG([A, least, place]).interpret(numbers),
    ):
        assert values.tolist() == [0.25, 1.0]
        assert places.tolist() == [1, 2]


def test_interpret_rounds_as_a_kernel_and_evaluate_does_not() -> None:
    third = ac.compute((2, 3), lambda i, j: A[i, j] / 3.0, "third")
    dag, ones = ComputeDAG([A, third]), np.ones((2, 3))
    exact, made = dag.evaluate(ones), dag.interpret(ones)
    assert isinstance(exact, np.ndarray)
    assert isinstance(made, np.ndarray)
    assert exact[0, 0] == 1 / 3
    assert made.dtype == np.float32
    assert made[0, 0] == np.float32(1) / np.float32(3)


def test_the_text_of_a_sum() -> None:
    k = ac.reduce_axis(3, "k")
    total = ac.compute(2, lambda i: ac.sum(A[i, k], axis=k), "total")
    assert (
        to_text(loop_program(ComputeDAG([A, total])))
        == """\
kernel definition(A: float32[2, 3], total: float32[2]):
    for i in 0..2:
        total[i] = 0.0
        for k in 0..3:
            total[i] = total[i] + A[i, k]
"""
    )


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([], "there are 1 inputs (A), not 0"),
        ([np.zeros((3, 2))], "'A' has shape (2, 3), not (3, 2)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: list[object], words: str) -> None:
    dag = ComputeDAG([A, ac.ops.relu(A)])
    for method in (dag.interpret, dag.evaluate):
        with pytest.raises(LanguageError, match=re.escape(words)):
            method(*inputs)  # pyright: ignore[reportArgumentType]


def test_terms_that_are_scattered() -> None:
    place, term = ac.placeholder(4, "place", "int32"), ac.placeholder((4, 2), "term")
    dag = ComputeDAG([place, term, ac.scatter((3, 2), place, term)])
    terms = [[1, 2], [3, 4], [5, 6], [7, 8]]
    for method in (dag.evaluate, dag.interpret):
        np.testing.assert_array_equal(method([2, 0, 2, 2], terms), [[3, 4], [0, 0], [13, 16]])
        with pytest.raises(OutOfRangeError, match="the index 3 for dimension 0"):
            method([2, 0, 3, 2], terms)
