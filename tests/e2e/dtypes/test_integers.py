"""Integers and bools: sums in a wider type, wrapping, saturating casts, any and all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.ir.dtype import SCALARS
from ansorc.ir.interpret import interpret
from ansorc.lang.reference import evaluate
from ansorc.schedule import Schedule, lower, schedule
from tests.support.dag_strategies import dags
from tests.support.narrow_kernels import Array, poison, run, values
from tests.support.nightly import examples
from tests.support.schedule_strategies import schedules

INTEGERS = [kind.name for kind in SCALARS.values() if kind.is_integer]
NARROW = ("int8", "uint8", "int16", "uint16", "uint32", "int64")


def interpreted(dag: ac.ComputeDAG, inputs: list[Array]) -> list[Array]:
    given_ = dict(zip((b.name for b in dag.inputs), inputs, strict=True))
    arrays = [given_.get(b.name, poison(b.shape, b.dtype)) for b in dag.params]
    interpret(lower(schedule(dag)), arrays, fresh_outputs=True)
    return [a for a, b in zip(arrays, dag.params, strict=True) if b.name not in given_]


def everywhere(dag: ac.ComputeDAG, inputs: list[Array]) -> Array:
    """Return the one output, which machine code, interpreter and reference must agree on."""
    (machine,), (meant,), (reference,) = run(dag, inputs), interpreted(dag, inputs), evaluate(
        dag, inputs
    )  # fmt: skip
    np.testing.assert_array_equal(machine, meant)
    np.testing.assert_array_equal(machine, reference)
    return machine


@pytest.mark.parametrize(
    ("left", "right"), [("int8", "int8"), ("uint8", "int8"), ("int16", "int8")]
)
def test_products_of_narrow_numbers_summed_in_int32(left: str, right: str) -> None:
    a, b = ac.placeholder((9, 70), "A", left), ac.placeholder((70, 33), "B", right)
    dag = ac.ComputeDAG([a, b, ac.ops.matmul(a, b, "C", sum_dtype="int32")])
    inputs = [values(x, np.random.default_rng(2)) for x in dag.inputs]
    expected = inputs[0].astype(np.int32) @ inputs[1].astype(np.int32)
    np.testing.assert_array_equal(run(dag, inputs)[0], expected)


@pytest.mark.parametrize("kind", INTEGERS)
def test_arithmetic_wraps_around(kind: str) -> None:
    a, k = ac.placeholder((5, 17), "A", kind), ac.reduce_axis(17, "k")
    b = ac.compute((5,), lambda i: ac.sum(a[i, k] * a[i, k] - a[i, k] * 3, axis=k), "B")
    dag = ac.ComputeDAG([a, b])
    data = values(dag.inputs[0], np.random.default_rng(3))
    with np.errstate(over="ignore"):
        terms = data * data - data * np.asarray(3, data.dtype)
        expected = terms.sum(axis=1, dtype=data.dtype)
    np.testing.assert_array_equal(everywhere(dag, [data]), expected)


@pytest.mark.parametrize("goal", INTEGERS)
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16"])
def test_floats_saturate_in_integers(source: str, goal: str) -> None:
    info, kind = np.iinfo(goal), SCALARS[source].numpy
    edges = [float(info.min), float(info.max), 0.99, -0.99, 1e30, -1e30, np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore"):
        data = np.array([*edges, -0.0, 2.5, -7.5, 100.0, 126.0, 3.0, 1.0], np.float64).astype(kind)
    a = ac.placeholder((16,), "A", source)
    dag = ac.ComputeDAG([a, ac.compute((16,), lambda i: a[i].astype(goal), "B")])
    expected = [
        0 if np.isnan(x) else min(max(int(x), info.min), info.max) if np.isfinite(x) else
        (info.max if x > 0 else info.min)
        for x in (float(x) for x in data)
    ]  # fmt: skip
    np.testing.assert_array_equal(everywhere(dag, [data]), np.array(expected, goal))


def test_integers_lose_their_upper_bits_in_narrower_ones() -> None:
    a = ac.placeholder((6,), "A", "int64")
    dag = ac.ComputeDAG([a, ac.compute((6,), lambda i: a[i].astype("int8"), "B")])
    data = np.array([300, -300, 127, 128, -129, 2**40 + 5], np.int64)
    np.testing.assert_array_equal(everywhere(dag, [data]), data.astype(np.int8))


def test_dtypes_do_not_mix_unasked() -> None:
    a, b = ac.placeholder((4,), "A", "int8"), ac.placeholder((4,), "B", "uint8")
    with pytest.raises(LanguageError, match="'\\*' on int8 and uint8: cast one operand"):
        ac.compute((4,), lambda i: a[i] * b[i])
    with pytest.raises(LanguageError, match="'int7' is not a dtype; use one of float16"):
        a[0].astype("int7")
    element = a[0]
    assert element.astype("int8") is element


REDUCTIONS: dict[str, tuple[Callable[..., ac.Reduction], Any]] = {
    "any": (ac.any, np.any),
    "all": (ac.all, np.all),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("share", [0.02, 0.98])
def test_any_and_all(name: str, share: float) -> None:
    reduce, expected = REDUCTIONS[name]
    a, k = ac.placeholder((40, 45), "A", "bool"), ac.reduce_axis(45, "k")
    rows = ac.compute((40,), lambda i: reduce(a[i, k], axis=k), "B")
    dag = ac.ComputeDAG([a, rows])
    data = np.random.default_rng(5).random((40, 45)) < share
    found = everywhere(dag, [data])
    np.testing.assert_array_equal(found, expected(data, axis=1))
    assert ac.ComputeDAG.from_text(dag.to_text()).key == dag.key


@pytest.mark.parametrize("name", REDUCTIONS)
def test_any_and_all_by_columns_in_vectors(name: str) -> None:
    reduce, expected = REDUCTIONS[name]
    a, k = ac.placeholder((9, 100), "A", "bool"), ac.reduce_axis(9, "k")
    dag = ac.ComputeDAG([a, ac.compute((100,), lambda j: reduce(a[k, j], axis=k), "B")])
    state = schedule(dag).split("B", "j", [50]).reorder("B", ["j.0", "k", "j.1"])
    data = np.random.default_rng(6).random((9, 100)) < 0.8
    (found,) = run(state.vectorize("B", "j.1"), [data])
    np.testing.assert_array_equal(found, expected(data, axis=0))


def test_reductions_take_what_they_are_for() -> None:
    a, k = ac.placeholder((4, 4), "A"), ac.reduce_axis(4)
    with pytest.raises(LanguageError, match="any of float32s; compare them first"):
        ac.compute((4,), lambda i: ac.any(a[i, k], axis=k))
    with pytest.raises(LanguageError, match="max of bools; cast them first, or use any or all"):
        ac.compute((4,), lambda i: ac.max(a[i, k] > 0.0, axis=k))


@given(schedules(dags(dtypes=NARROW)), st.integers(0, 2**32 - 1))
@examples(
    15, nightly=40,
    options=settings(
        database=None, suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large)
    ),
)  # fmt: skip
def test_any_schedule_of_narrow_integers(state: Schedule, seed: int) -> None:
    inputs = [values(x, np.random.default_rng(seed)) for x in state.dag.inputs]
    for found, expected in zip(run(state, inputs), evaluate(state.dag, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)
