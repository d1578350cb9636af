"""Numbers that are hard to sort: NaN, infinities, both zeros, ties; and their order by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ansorc.ir.dtype import DType
from ansorc.ir.dtype import dtype as dtype_named

Array = NDArray[Any]
Rng = np.random.Generator

FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES = (*FLOATS, "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def hard_numbers(rng: Rng, shape: tuple[int, ...], dtype: str) -> Array:
    """Return numbers of `dtype` in a random mood: spread, few different ones, special, sorted."""
    kind: DType = dtype_named(dtype)
    mood = rng.integers(5)
    if kind.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if not kind.is_float:
        info = np.iinfo(str(kind))
        low, high = (int(info.min), int(info.max)) if mood < 2 else (0, int(rng.integers(1, 9)))
        values = rng.integers(low, high, shape, dtype=kind.numpy, endpoint=True)
        return np.sort(values, axis=-1) if mood == 4 else values
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4)
    if mood == 1:
        values = np.round(rng.standard_normal(shape))
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -np.nan])
    chosen = rng.choice(special, shape)
    share = (0.0, 0.1, 0.5, 1.0, 0.02)[mood]
    values = np.where(rng.random(shape) < share, chosen, values)
    values = np.sort(values, axis=-1) if rng.random() < 0.1 else values
    return values.astype(kind.numpy)


def comparable(values: Array) -> Array:
    """Return `values` in a dtype that NumPy sorts."""
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values


def order_of(values: Array, axis: int, *, descending: bool = False) -> Array:
    """Return where sorted elements stand, equal ones in order; NaN last, or descending first."""
    numbers = comparable(values)
    if not descending:
        return np.argsort(numbers, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(numbers, axis), axis=axis, kind="stable")
    return numbers.shape[axis] - 1 - np.flip(backwards, axis)


def assert_same(found: Array, wanted: Array, what: object) -> None:
    """Hold that two arrays have the same elements, NaN and the signs of zeros included."""
    assert found.shape == wanted.shape, what
    mine, theirs = comparable(np.asarray(found)), comparable(np.asarray(wanted))
    np.testing.assert_array_equal(mine, theirs, err_msg=str(what))
    if mine.dtype.kind == "f":
        numbers = ~np.isnan(theirs)
        signs = np.signbit(mine)[numbers], np.signbit(theirs)[numbers]
        np.testing.assert_array_equal(*signs, err_msg=str(what))
