"""Fourier transforms of any length beside NumPy's in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.lang import operators as ops
from ansorc.lang.reference import evaluate
from tests.support.everywhere import everywhere

LENGTHS = (1, 2, 3, 8, 12, 17, 35, 64, 97, 130)
"""Powers of two, of small primes, and lengths that are convolutions: 17 and 97."""


def random_pair(shape: Sequence[int], dtype: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    real, imaginary = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    return real, imaginary


def require_near(found: Sequence[Array], exact: Array, dtype: str) -> None:
    """Require errors of a few units of the largest number."""
    size = np.abs(exact).max()
    error = np.abs(found[0] + 1j * found[1].astype(np.float64) - exact).max()
    assert error <= size * float(np.finfo(dtype).eps) * 8


def run(transform: Callable[..., Any], arrays: Sequence[Array]) -> list[Array]:
    """Return a transform in the dtypes of its definition, by NumPy."""
    inputs = [ac.placeholder(a.shape, "xy"[n], str(a.dtype)) for n, a in enumerate(arrays)]
    return evaluate(ac.ComputeDAG([*inputs, *transform(*inputs)]), arrays, None)


@pytest.mark.parametrize("length", LENGTHS)
def test_complex_numbers_there_and_back(length: int) -> None:
    dtype = "float64" if length % 2 else "float32"
    pair = random_pair((3, length), dtype)
    exact = pair[0].astype(np.complex128) + 1j * pair[1]
    require_near(run(ops.fft, pair), np.fft.fft(exact), dtype)
    require_near(run(ops.ifft, pair), np.fft.ifft(exact), dtype)


@pytest.mark.parametrize("length", [1, 6, 7, 16, 19])
def test_real_numbers(length: int) -> None:
    x, _ = random_pair((2, length), "float32")
    require_near(run(ops.rfft, [x]), np.fft.rfft(x.astype(np.float64)), "float32")
    require_near(run(ops.fft, [x]), np.fft.fft(x.astype(np.float64)), "float32")


def test_shapes_without_and_with_many_dimensions() -> None:
    for shape in ((24,), (2, 3, 4)):
        pair = random_pair(shape, "float32")
        require_near(run(ops.fft, pair), np.fft.fft(pair[0] + 1j * pair[1]), "float32")


@pytest.mark.parametrize("length", [12, 17])
def test_every_way_to_run(length: int) -> None:
    pair = random_pair((2, length), "float32")
    real, imaginary = (ac.placeholder((2, length), name) for name in "xy")
    exact = np.fft.fft(pair[0].astype(np.complex128) + 1j * pair[1])
    dag = ac.ComputeDAG([real, imaginary, *ops.fft(real, imaginary)])
    for _, found in everywhere(dag, pair, emulates=length == 12):
        require_near(found, exact, "float32")


def test_a_transform_of_a_long_row_is_precise() -> None:
    pair = random_pair((1, 4096), "float32")
    require_near(run(ops.fft, pair), np.fft.fft(pair[0].astype(complex) + 1j * pair[1]), "float32")


def test_refusals() -> None:
    x, half = ac.placeholder((2, 8), "x"), ac.placeholder((2, 8), "h", "float16")
    with pytest.raises(LanguageError, match=r"fft of h \[2, 8\]: it takes float32 or float64"):
        ops.fft(half)
    with pytest.raises(LanguageError, match="ifft takes real and imaginary parts of one shape"):
        ops.ifft(x, ac.placeholder((2, 9), "y"))
    with pytest.raises(LanguageError, match=r"rfft of s \[\]: it takes float32 or float64 along"):
        ops.rfft(ac.placeholder((), "s"))
