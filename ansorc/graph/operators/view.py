"""Movements of elements that only frameworks have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import axis_number, each, require
from ansorc.lang.scalar import all_of, const, if_then_else
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor


def triangle(data: Tensor, diagonal: int = 0, *, upper: bool = True) -> Tensor:
    """Return the matrices data [..., n, m] with 0 below (else above) a diagonal.

    It is the one that begins at column `diagonal`. Raise LanguageError on another rank.
    """
    require(len(data.shape) >= 2, "triangle", data, need="it must be a matrix, or many")

    def body(*i: Scalar) -> Scalar:
        row, column = i[-2] + diagonal, i[-1]
        return if_then_else(
            column >= row if upper else column <= row, data[i], const(0, data.dtype)
        )

    return compute(data.shape, body, AutoName("triangle"))


def wrap_pad(data: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """Return `data` with before[d] and after[d] elements around it, which repeat it from its ends.

    Raise LanguageError unless there is one number for each dimension.
    """
    rank = len(data.shape)
    first, last = each("wrap_pad", "before", before, rank), each("wrap_pad", "after", after, rank)
    shape = [a + extent + b for a, extent, b in zip(first, data.shape, last, strict=True)]

    def body(*i: Scalar) -> Scalar:
        triples = zip(i, first, data.shape, strict=True)
        return data[tuple((index - low) % extent for index, low, extent in triples)]

    return compute(shape, body, AutoName("wrap_pad"))


def pad_with(data: Tensor, value: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """Return `data` with before[d] and after[d] elements of `value`, one number, around it.

    Raise LanguageError on several values, and unless there is one number for each dimension.
    """
    rank, extents = len(data.shape), value.shape
    require(set(extents) <= {1}, "pad_with", data, value, need="value must be one")
    first, last = each("pad_with", "before", before, rank), each("pad_with", "after", after, rank)
    shape = [a + extent + b for a, extent, b in zip(first, data.shape, last, strict=True)]

    def body(*i: Scalar) -> Scalar:
        places = [index - low for index, low in zip(i, first, strict=True)]
        bounds = zip(places, data.shape, strict=True)
        inside = all_of(*(test for at, extent in bounds for test in (at >= 0, at < extent)))
        margin = value[(0,) * len(extents)].astype(data.dtype)
        return if_then_else(inside, data[tuple(places)], margin)

    return compute(shape, body, AutoName("pad_with"))


def windows(data: Tensor, axis: int, size: int, step: int = 1, dilation: int = 1) -> Tensor:
    """Return the windows of `size` elements along `axis`, whose elements are a last dimension.

    Each begins `step` elements behind the one before; its elements are `dilation` apart. Raise
    LanguageError where none fits.
    """
    dimension = axis_number("windows", data, axis)
    room = data.shape[dimension] - dilation * (size - 1) - 1
    fits = min(size, step, dilation) > 0 and room >= 0
    require(fits, "windows", data, need=f"its axis {dimension} must have room for {size} elements")
    shape = (*data.shape[:dimension], room // step + 1, *data.shape[dimension + 1 :], size)

    def body(*i: Scalar) -> Scalar:
        return data[
            (*i[:dimension], i[dimension] * step + i[-1] * dilation, *i[dimension + 1 : -1])
        ]

    return compute(shape, body, AutoName("windows"))


VIEWS: Mapping[str, Callable[..., Tensor]] = {
    "pad_with": pad_with,
    "triangle": triangle,
    "windows": windows,
    "wrap_pad": wrap_pad,
}
"""Definitions by the name of their operator."""
