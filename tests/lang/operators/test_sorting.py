"""`ac.ops.sort`, `argsort`, `top_k`, `argmax` and others against NumPy, on numbers hard to sort."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError
from tests.lang.operators.hard_numbers import (
    DTYPES,
    FLOATS,
    Array,
    Rng,
    assert_same,
    hard_numbers,
    order_of,
)

EXTENTS = (1, 2, 7, 16, 33, 90, 130, 300, 700, 1500)
"""Along the axis: up to 100 elements are ranked, of more runs are merged."""
FILLS = 8
"""How often each program runs, on new numbers."""


@pytest.mark.parametrize("seed", range(3))
def test_sorted_as_by_numpy(seed: int) -> None:
    sort_at_random(np.random.default_rng(seed), EXTENTS[:6])


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(260))
def test_sorted_as_by_numpy_many_times(seed: int) -> None:
    sort_at_random(np.random.default_rng((1, seed)), EXTENTS)


def sort_at_random(rng: Rng, extents: Sequence[int]) -> None:
    """Sort, or find the first k, along an axis of a random shape, in random dtypes."""
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, 9, rank))
    axis = int(rng.integers(rank))
    extent = int(rng.choice(extents))
    shape = (*shape[:axis], extent, *shape[axis + 1 :])
    descending, dtype = (
        bool(rng.integers(2)),
        str(rng.choice(DTYPES if rng.random() < 0.5 else FLOATS)),
    )
    k = extent if rng.random() < 0.5 else int(rng.integers(1, extent + 1))
    data = ac.placeholder(shape, "data", dtype)
    values, places = ac.ops.top_k(data, k, axis - rank, largest=descending)
    run = ac.build(ac.ComputeDAG([data, values, places]))
    for _ in range(FILLS):
        given = hard_numbers(rng, shape, dtype)
        found = np.empty(values.shape, values.dtype.numpy), np.empty(places.shape, np.int64)
        run(given, *found)
        order = order_of(given, axis, descending=descending)
        order = np.take(order, np.arange(k), axis)
        what = (shape, axis, dtype, descending, k)
        assert_same(found[1], order, what)
        assert_same(found[0], np.take_along_axis(given, order, axis), what)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_argsort(descending: bool) -> None:  # noqa: FBT001
    given = hard_numbers(np.random.default_rng(5), (3, 20), "float32")
    data = ac.placeholder(given.shape, "data")
    values = ac.ops.sort(data, 0, descending=descending)
    places = ac.ops.argsort(data, descending=descending)
    rows = np.take_along_axis(given, order_of(given, 0, descending=descending), 0)
    for one, wanted in ((values, rows), (places, order_of(given, 1, descending=descending))):
        found = np.empty(one.shape, one.dtype.numpy)
        ac.build(ac.ComputeDAG([data, one]))(given, found)
        assert_same(found, wanted, one.name)


@pytest.mark.parametrize("seed", range(3))
def test_extremes_as_by_numpy(seed: int) -> None:
    extremes_at_random(np.random.default_rng(seed))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(130))
def test_extremes_as_by_numpy_many_times(seed: int) -> None:
    extremes_at_random(np.random.default_rng((2, seed)))


def extremes_at_random(rng: Rng) -> None:
    """The largest and the smallest of some rows, and where they are: NaN where there is one."""
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8, 31, 70], rank))
    axis, dtype = int(rng.integers(rank)), str(rng.choice(DTYPES[:-1]))
    data = ac.placeholder(shape, "data", dtype)
    outputs = [op(data, axis) for op in (ac.ops.max, ac.ops.min, ac.ops.argmax, ac.ops.argmin)]
    k = ac.reduce_axis(shape[axis], "k")
    outer = (*shape[:axis], *shape[axis + 1 :])
    for search in (ac.argmax, ac.argmin):
        outputs += ac.compute_tuple(
            outer, lambda *i, search=search: search(data[(*i[:axis], k, *i[axis:])], axis=k)
        )
    run = ac.build(ac.ComputeDAG([data, *outputs]))
    for _ in range(FILLS):
        given = hard_numbers(rng, shape, dtype)
        found = [np.empty(one.shape, one.dtype.numpy) for one in outputs]
        run(given, *found)
        largest, smallest = (_extreme(given, axis, is_largest=flag) for flag in (True, False))
        wanted = [largest[0], smallest[0], largest[1], smallest[1], *largest, *smallest]
        for one, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, expected, err_msg=f"{shape} {axis} {dtype}")


def _extreme(given: Array, axis: int, *, is_largest: bool) -> tuple[Array, Array]:
    numbers = given.astype(np.float32) if given.dtype.name == "bfloat16" else given
    where = (np.argmax if is_largest else np.argmin)(numbers, axis=axis)
    value = np.take_along_axis(numbers, np.expand_dims(where, axis), axis)
    return np.squeeze(value, axis), where


def test_too_many_are_refused() -> None:
    with pytest.raises(LanguageError, match=r"k is 6, but axis -1 has 5"):
        ac.ops.top_k(ac.placeholder((2, 5), "data"), 6)
