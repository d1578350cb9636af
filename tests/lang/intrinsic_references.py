"""References of the functions that the tests of intrinsics define."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def soft_sign(x: Array, y: Array) -> Array:
    """Return x / (1 + |x|) + y."""
    return x / (1.0 + np.abs(x)) + y


def double_of(n: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return 2 n."""
    return n * 2


def fails(x: Array) -> Array:
    """Raise an error."""
    raise ValueError("no such number")


def sums_of_rows(x: Array) -> Array:
    """Return the running sums along each row."""
    return np.cumsum(x, axis=1)


def weighted(x: Array, w: Array) -> Array:
    """Return each row times `w`."""
    return x * w


def halves(n: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return n / 2, rounded towards 0, of numbers from 0 on."""
    return n // 2


def of_another_shape(x: Array) -> Array:
    """Return less than there has to be."""
    return x[:1]
