"""Trip counts that may be one number, one number a candidate, or not chosen yet.

The bounds and the features of a schedule are written once over `Extent`: with an int they describe
one program, with an array a whole population of programs that share their loop structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Extent: TypeAlias = int | IntArray | None
"""A trip count: one number, one for each row of a population, or None while it is a hole."""


@dataclass(frozen=True)
class Hole:
    """A length that sampling chooses: the product of several `levels` of one tile variable.

    A tile variable of n levels is a row (l_0, …, l_n-1), outermost first, whose product is the
    extent of the axis it tiles.
    """

    variable: str
    levels: tuple[int, ...]


@dataclass(frozen=True)
class HoleProduct:
    """A length that follows from others: the product of holes of several tile variables."""

    holes: tuple[Hole, ...]


TileLength: TypeAlias = int | Hole | HoleProduct
Tiles: TypeAlias = Mapping[str, npt.NDArray[np.int64]]
"""For each tile variable the chosen levels: an array `[..., levels]`."""


def resolve(length: TileLength, tiles: Tiles) -> Extent:
    """Return the value of `length` under `tiles`; None if its variable is not chosen there."""
    if isinstance(length, int):
        return length
    if isinstance(length, HoleProduct):
        return multiply(resolve(hole, tiles) for hole in length.holes)
    chosen = tiles.get(length.variable)
    if chosen is None:
        return None
    value = np.prod(chosen[..., list(length.levels)], axis=-1, dtype=np.int64)
    return int(value) if value.ndim == 0 else value


def as_array(extent: Extent) -> IntArray:
    """Return a chosen `extent` as an array; a single number becomes an array of rank 0."""
    assert extent is not None
    return np.asarray(extent, dtype=np.int64) if isinstance(extent, int) else extent


def multiply(factors: Iterable[Extent]) -> Extent:
    """Return the product; None if a factor is a hole."""
    product: int | IntArray = 1
    for factor in factors:
        if factor is None:
            return None
        product = product * factor
    return product


def add(left: Extent, right: Extent) -> Extent:
    """Return the sum; None if an operand is a hole."""
    return None if left is None or right is None else left + right


def scale(extent: Extent, factor: Extent) -> Extent:
    """Return the product; None if an operand is a hole."""
    return None if extent is None or factor is None else extent * factor


def scale_span(extent: Extent, scale: Extent) -> Extent:
    """Return `scale * (extent - 1)`: how far an index moves over `extent` steps of `scale`."""
    return None if extent is None or scale is None else scale * (extent - 1)


def divide_up(extent: Extent, length: Extent) -> Extent:
    """Return `extent / length`, rounded up; None if either is a hole."""
    return None if extent is None or length is None else -(-extent // length)


def common(left: Extent, right: Extent) -> Extent:
    """Return the greatest common divisor, row by row; None if either is a hole."""
    if left is None or right is None:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return gcd(left, right)
    return np.gcd(left, right)


def smaller(left: Extent, right: Extent) -> Extent:
    """Return the smaller one, row by row; None if either is a hole."""
    if left is None or right is None:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    return np.minimum(left, right)


def larger(left: Extent, right: Extent) -> Extent:
    """Return the larger one, row by row; None if either is a hole."""
    if left is None or right is None:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return np.maximum(left, right)


def power_of_two(extent: Extent) -> Extent:
    """Return the least power of two that is not less, row by row; None for a hole."""
    if extent is None:
        return None
    if isinstance(extent, int):
        return 1 << (extent - 1).bit_length()
    below = extent - 1
    for shift in (1, 2, 4, 8, 16, 32):  # fill all bits below the highest one
        below = np.bitwise_or(below, np.right_shift(below, shift))
    return below + 1


def same(left: Extent, right: Extent) -> bool:
    """Return whether both are known to be equal in every row, or both are holes."""
    if left is None or right is None:
        return left is right
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return bool(np.all(np.equal(left, right)))


def divides(length: Extent, extent: Extent) -> bool:
    """Return whether `length` divides `extent` in every row; a hole counts as a divisor."""
    if length is None or extent is None:
        return True
    if isinstance(length, int) and isinstance(extent, int):
        return extent % length == 0
    return bool(np.all(np.equal(np.remainder(extent, length), 0)))


def text(extent: Extent) -> str:
    """Return `extent` as it is shown in a printed State."""
    if extent is None:
        return "?"
    return str(extent) if isinstance(extent, int) else f"[{len(extent)} rows]"
