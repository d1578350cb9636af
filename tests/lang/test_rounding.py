"""What rounding explains where sums cancel is allowed, of those elements, and nothing else."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import ansorc as ac
from ansorc.ir.dtype import FLOAT64
from ansorc.lang import ComputeDAG, Reduction, compute, maximum, placeholder, reduce_axis, sum
from ansorc.lang.reference import evaluate
from ansorc.lang.rounding import SAFETY, evaluate_with_rounding
from ansorc.lang.scalar_type import Scalar
from ansorc.search.measure.check import Expectation, expectations, tolerance
from ansorc.search.measure.data import TaskData, draw_with_rounding
from ansorc.search.measure.kernel import load_bench
from ansorc.search.task import Task
from tests.search.every_operator import NAMES, computation
from tests.support.dag_strategies import dags
from tests.support.nightly import examples

Values = NDArray[np.float32]
ROWS = 16
_CHECKS = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


def complaint(dag: ComputeDAG, inputs: list[Values], found: Values) -> str:
    (expected,) = expectations(dag, *evaluate_with_rounding(dag, inputs))
    return expected.compare(found).complaint


def old_complaint(dag: ComputeDAG, inputs: list[Values], found: Values) -> str:
    """By the size of the outputs alone."""
    reference = evaluate(dag, inputs)[0]
    return (
        Expectation(reference, tolerance(dag, dag.outputs[0].name, reference))
        .compare(found)
        .complaint
    )


def sum_less(terms: int, subtracted: float) -> ComputeDAG:
    """The sum of rows, without what makes the most of it."""
    a = placeholder((ROWS, terms), "A")
    k = reduce_axis(terms, "k")

    def whole(i: Scalar) -> Reduction:
        return sum(a[i, k], axis=k)

    s = compute((ROWS,), whole, "S")
    return ComputeDAG([a, compute((ROWS,), lambda i: s[i] - subtracted, "D")])


def in_float32(a: Values, order: NDArray[np.int64]) -> Values:
    total = np.zeros(ROWS, np.float32)
    for k in order:
        total += a[:, k]
    return total


@examples(6, nightly=25)
@given(
    seed=st.integers(0, 2**32),
    terms=st.sampled_from([10, 100, 1000, 10_000]),
    is_sorted=st.booleans(),
)
def test_small_differences_of_large_sums_pass_in_any_order_and_a_missing_term_does_not(
    seed: int, terms: int, *, is_sorted: bool
) -> None:
    rng = np.random.default_rng(seed)
    a = rng.uniform(0.5, 1.0, (ROWS, terms)).astype(np.float32)
    a[:, -1] += np.float32(0.75) * terms - a.sum(axis=1, dtype=np.float64)
    order = np.argsort(a[0]) if is_sorted else rng.permutation(terms)
    dag = sum_less(terms, 0.75 * terms)
    total = in_float32(a, order)
    assert complaint(dag, [a], total - np.float32(0.75 * terms)) == ""
    missing = total - a[:, int(order[terms // 2])] - np.float32(0.75 * terms)
    assert complaint(dag, [a], missing)


def test_what_the_size_of_the_result_alone_refuses() -> None:
    """The program that a random one found: `max(1 - x, 0)` for an x near 1, that was computed."""
    rng = np.random.default_rng(0)
    a = rng.uniform(0.999, 1.001, (ROWS, 3)).astype(np.float32)
    place = placeholder((ROWS, 3), "A")
    b = compute((ROWS, 3), lambda i, j: place[i, j] * 3.7 / 3.7, "B")
    dag = ComputeDAG([place, compute((ROWS, 3), lambda i, j: maximum(1.0 - b[i, j], 0.0), "C")])
    scaled = (a * np.float32(3.7)) / np.float32(3.7)
    near = np.maximum(np.float32(1) - scaled * np.float32(1 - 2**-24), np.float32(0))
    assert old_complaint(dag, [a], near)
    assert complaint(dag, [a], near) == ""
    wrong = np.maximum(np.float32(1) - scaled * np.float32(1 - 1e-5), np.float32(0))
    assert complaint(dag, [a], wrong)


NEAR: list[tuple[Callable[[Scalar], Scalar], float, float, bool]] = [
    (lambda x: 1.0 / x, 1e-8, -1e8, True),
    (lambda x: 1.0 / (x + 2.0), 0.0, 0.5005, False),
    (ac.exp, 3.0, np.exp(3.0) * 1.001, False),
    (lambda x: ac.sqrt(ac.abs(x)), 0.0, 1e-3, True),
    (lambda x: ac.sqrt(ac.abs(x)), 1.0, 1.001, False),
    (ac.floor, 2.0, 1.0, True),
    (ac.floor, 2.5, 1.0, False),
    (lambda x: ac.if_then_else(x > 1.0, 5.0, x), 1.0, 5.0, True),
    (lambda x: ac.if_then_else(x > 1.0, 5.0, x), 1.001, 1.001, False),
]
"""A function, where, what is found there, and whether it is right."""


@pytest.mark.parametrize(("function", "at", "found", "is_right"), NEAR)
def test_near_jumps_and_poles_what_lies_across_is_right(
    function: Callable[[Scalar], Scalar], at: float, found: float, *, is_right: bool
) -> None:
    a = placeholder((1,), "A")
    x = compute((1,), lambda i: a[i] * 3.0 - 3.0 + at, "X")
    dag = ComputeDAG([a, compute((1,), lambda i: function(x[i]), "F")])
    said = complaint(dag, [np.ones(1, np.float32)], np.full(1, found, np.float32))
    assert (said == "") == is_right


@examples(30, nightly=150, options=settings(suppress_health_check=_CHECKS))
@given(dags(), st.integers(0, 2**32))
def test_what_float32_makes_of_random_definitions_passes(dag: ComputeDAG, seed: int) -> None:
    assume(all(b.dtype != FLOAT64 for op in dag.ops for b in (*op.buffers, *op.reads)))
    rng = np.random.default_rng(seed)
    inputs, references, bounds = draw_with_rounding(Task(dag, "native", "task"), rng)
    assume(all(np.isfinite(one).all() for one in references))
    with np.errstate(all="ignore"):
        singles = evaluate(dag, inputs, np.float32)
    for buffer, expected, found in zip(
        dag.outputs, expectations(dag, references, bounds), singles, strict=True
    ):
        if buffer.dtype.is_float:
            assert expected.compare(found).complaint == ""


@pytest.mark.parametrize("name", NAMES)
def test_no_operator_is_checked_less_sharply(name: str) -> None:
    """On the inputs that are drawn, where sums cancel by chance, the bound is small."""
    dag = computation(name)
    _, references, bounds = draw_with_rounding(Task(dag, "native", name), np.random.default_rng(0))
    for buffer, reference, bound in zip(dag.outputs, references, bounds, strict=True):
        if bound is not None and buffer.dtype.is_float:
            size = np.sqrt(np.mean(np.square(reference[np.isfinite(reference)])))
            assert SAFETY * np.median(bound) <= 1e3 * buffer.dtype.epsilon * size


def test_bounds_are_exact_where_nothing_is_rounded() -> None:
    a = placeholder((4,), "A")
    copied = ComputeDAG([a, compute((4,), lambda i: maximum(a[3 - i], 0.0), "B")])
    _, (bound,) = evaluate_with_rounding(copied, [np.arange(4, dtype=np.float32)])
    assert bound is None


def test_a_worker_knows_the_bounds() -> None:
    """They go with the reference, through files."""
    task = Task(sum_less(2048, 0.0), "native", "sums")
    data = TaskData.create(task, np.random.default_rng(0))
    try:
        (output,) = load_bench(data.directory).outputs
        _, _, (bound,) = draw_with_rounding(task, np.random.default_rng(0))
        assert bound is not None
        allowed = tolerance(task.dag, "D", output.reference)
        least = np.maximum(np.abs(output.reference), allowed.scale) * allowed.relative
        for share, is_right in ((0.9, True), (1.1, False)):
            limit = np.maximum(least, SAFETY * bound)
            found = (output.reference + share * limit).astype(np.float32)
            assert (output.expectation.compare(found).complaint == "") == is_right
    finally:
        data.remove()
