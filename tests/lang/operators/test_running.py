"""Running sums, products and extremes against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError

RUNNING: dict[str, Callable[..., Any]] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
}


def run(data: ac.Tensor, result: ac.Tensor, x: np.ndarray) -> np.ndarray:
    found = np.zeros(result.shape, result.dtype.numpy)
    ac.build(ac.ComputeDAG([data, result]))(x, found)
    return found


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", RUNNING)
def test_running_numbers(name: str, *, reverse: bool) -> None:
    rng = np.random.default_rng(0)
    for axis, shape in ((0, (70, 3)), (-1, (3, 130)), (1, (2, 5, 4))):
        x = (rng.uniform(0.8, 1.2, shape) * rng.choice([-1.0, 1.0], shape)).astype(np.float64)
        data = ac.placeholder(shape, "x", "float64")
        found = run(data, getattr(ac.ops, name)(data, axis, reverse=reverse), x)
        turned = np.flip(x, axis) if reverse else x
        wanted = RUNNING[name](turned, axis=axis)
        np.testing.assert_allclose(found, np.flip(wanted, axis) if reverse else wanted, 1e-9)


def test_sums_are_wide() -> None:
    narrow = ac.placeholder((300,), "x", "int8")
    x = np.full(300, 100, np.int8)
    assert run(narrow, ac.ops.cumsum(narrow), x)[-1] == 30_000
    long = run(narrow, ac.ops.cumsum(narrow, sum_dtype="int64", exclusive=True), x)
    assert (long.dtype, long[0], long[-1]) == (np.int64, 0, 29_900)
    half = ac.placeholder((4096,), "h", "float16")
    ones = np.ones(4096, np.float16)
    assert run(half, ac.ops.cumsum(half), ones)[-1] == 4096  # in float16 it would stop at 2048


def test_an_unknown_axis_is_refused() -> None:
    with pytest.raises(LanguageError, match="cumsum"):
        ac.ops.cumsum(ac.placeholder((3, 4), "x"), 2)
