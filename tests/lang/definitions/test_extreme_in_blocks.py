"""Extremes with places, the value first and then where it is: the same pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.ir.aligned import Array
from ansorc.ir.interpret import interpret
from ansorc.lang.definitions import extreme_in_blocks
from ansorc.schedule import lower, schedule
from ansorc.search.cpu.rules import RULES, rules_of
from ansorc.search.options import AS_DEFINED
from ansorc.search.sketch import generate
from tests.search.small_dags import ZEN3
from tests.support.everywhere import everywhere, outputs_of
from tests.support.nightly import examples

DTYPES = ("float32", "float64", "int32", "int8", "uint8", "float16")


def extreme(rows: tuple[int, ...], terms: tuple[int, ...], dtype: str, find: str) -> ac.ComputeDAG:
    """The extreme of `terms` elements for each of `rows`, and its place."""
    x = ac.placeholder((*rows, *terms), "x", dtype)
    axes = [ac.reduce_axis(extent, f"k{n}") for n, extent in enumerate(terms)]
    pair = ac.compute_tuple(
        rows, lambda *i: getattr(ac, find)(x[(*i, *axes)], axis=axes), ["v", "p"]
    )
    return ac.ComputeDAG([x, *pair])


def data_with_equals(dag: ac.ComputeDAG, seed: int) -> Array:
    """Few numbers, so that each comes often; of floats maybe NaN and infinities too."""
    rng = np.random.default_rng(seed)
    (buffer,) = dag.inputs
    x = rng.integers(0, 4, buffer.shape).astype(buffer.dtype.numpy)
    rows = x.reshape(-1) if len(buffer.shape) == 1 else x.reshape(buffer.shape[0], -1)
    if buffer.dtype.is_float:
        special = rng.choice([np.nan, np.inf, -np.inf, -0.0], x.shape).astype(x.dtype)
        x = np.where(rng.random(x.shape) < rng.choice([0, 0.01]), special, x)
        rows = x.reshape(rows.shape)
    rows[..., :] = np.where(rng.random() < 0.3, rows[..., :1], rows)
    return x


def expected(dag: ac.ComputeDAG, x: Array, find: str, rank: int) -> tuple[Array, Array]:
    flat = x.reshape(*x.shape[:rank], -1)
    value = flat.max(-1) if find == "argmax" else flat.min(-1)
    return value, getattr(np, find)(flat, axis=-1)


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), (64,)), ((3,), (100,)), ((2, 2), (77,)), ((3,), (5, 70)), ((2,), (2, 3, 64)),
    ((), (8192,)), ((2,), (9001,)), ((2,), (2, 4500)),
]  # fmt: skip


@examples(12, nightly=300)
@given(
    st.sampled_from(SHAPES), st.sampled_from(DTYPES), st.sampled_from(["argmax", "argmin"]),
    st.integers(0, 10**6),
)  # fmt: skip
def test_the_first_of_equals(
    shape: tuple[tuple[int, ...], tuple[int, ...]], dtype: str, find: str, seed: int
) -> None:
    dag = extreme(*shape, dtype, find)
    x = data_with_equals(dag, seed)
    value, place = expected(dag, x, find, len(shape[0]))
    state = schedule(dag).redefine("v", "extreme")
    by_hand = outputs_of(dag)
    interpret(lower(state), [x, *by_hand], fresh_outputs=True)
    compiled = outputs_of(dag)
    ac.build(state)(x, *compiled)
    for found in (by_hand, compiled):
        np.testing.assert_array_equal(found[0], value)
        np.testing.assert_array_equal(found[1], place)


@pytest.mark.parametrize(("rows", "terms"), [(5, 300), (2, 5000)])
@pytest.mark.parametrize("find", ["argmax", "argmin"])
def test_everywhere(rows: int, terms: int, find: str) -> None:
    dag = extreme((rows,), (terms,), "float32", find)
    x = np.random.default_rng(0).integers(0, 40, (rows, terms)).astype(np.float32)
    x[1, terms // 2] = x[1, terms - 1] = np.nan
    value, place = expected(dag, x, find, 1)
    for name, found in everywhere(dag, [x]):
        np.testing.assert_array_equal(found[0], value, err_msg=name)
        np.testing.assert_array_equal(found[1], place, err_msg=name)


def test_terms_that_are_computed() -> None:
    """Terms are any expressions of the axes, also of those of the result."""
    x, y = ac.placeholder((4, 200), "x"), ac.placeholder(200, "y")
    k = ac.reduce_axis(200, "k")
    pair = ac.compute_tuple(
        4, lambda i: ac.argmin(ac.abs(x[i, k] - y[k]) + y[i], axis=k), ["v", "p"]
    )
    dag = ac.ComputeDAG([x, y, *pair])
    rng = np.random.default_rng(1)
    a, b = rng.random((4, 200), np.float32), rng.random(200, np.float32)
    found = outputs_of(dag)
    interpret(lower(schedule(dag).redefine("v", "extreme")), [a, b, *found], fresh_outputs=True)
    np.testing.assert_array_equal(found[1], abs(a - b).argmin(1))


def test_stages() -> None:
    made = extreme_in_blocks(extreme((), (1_000_000,), "float32", "argmax").ops[0])
    assert made is not None
    assert [op.name for op in made.ops] == ["v.best", "v.value", "v.block", "v.place", "v"]
    assert made.ops[0].buffer.shape == (250,)
    short = extreme_in_blocks(extreme((7,), (4000,), "float32", "argmax").ops[0])
    assert short is not None
    assert [op.name for op in short.ops] == ["v.best", "v.place", "v"]


def test_the_search_tries_both() -> None:
    dag = extreme((1000,), (4000,), "float32", "argmax")
    names = [sketch.name for sketch in generate(dag, ZEN3, RULES)]
    assert any("extreme of v" in name for name in names)
    assert any("rfactor v in 16 lanes" in name for name in names)
    names = [sketch.name for sketch in generate(dag, ZEN3, rules_of(AS_DEFINED))]
    assert not any("extreme of v" in name for name in names)


def test_places_along_columns_are_left_to_lanes() -> None:
    x, k = ac.placeholder((100, 90), "x"), ac.reduce_axis(100, "k")
    pair = ac.compute_tuple(90, lambda i: ac.argmax(x[k, i], axis=k), ["v", "p"])
    names = [sketch.name for sketch in generate(ac.ComputeDAG([x, *pair]), ZEN3, RULES)]
    assert not any("extreme" in name for name in names)


def own(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, Any]:
    return ac.maximum(a[0], b[0]), ac.minimum(a[1], b[1])


OTHERS: list[Callable[[ac.Tensor], ac.TupleReduction]] = [
    lambda x: ac.argmax(x[k := ac.reduce_axis(63, "k")], axis=k),
    lambda x: ac.argmax(x[(k := ac.reduce_axis(9, "k")) * 7 + (n := ac.reduce_axis(7, "n"))],
                        axis=[k, n]),
]  # fmt: skip


@pytest.mark.parametrize("terms", OTHERS)
def test_other_reductions(terms: Callable[[ac.Tensor], ac.TupleReduction]) -> None:
    x = ac.placeholder(100, "x")
    dag = ac.ComputeDAG([x, *ac.compute_tuple((), lambda: terms(x), ["v", "p"])])
    words = "it is no ac.argmax or ac.argmin along 64 terms or more, and fewer than 2\\^31 in all"
    with pytest.raises(ScheduleError, match=words):
        schedule(dag).redefine("v", "extreme")


def test_a_reducer_of_ones_own() -> None:
    x, k = ac.placeholder(100, "x"), ac.reduce_axis(100, "k")
    least = ac.reducer(own, (float("-inf"), 1000))
    dag = ac.ComputeDAG([x, *ac.compute_tuple((), lambda: least(x[k], k, axis=k), ["v", "p"])])
    assert extreme_in_blocks(dag.ops[0]) is None
