"""Movements of elements that only frameworks have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansorc.ir.expr import Expr, const
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import each, require
from ansorc.lang.scalar import if_then_else
from ansorc.lang.tensor import Tensor


def triangle(data: Tensor, diagonal: int = 0, *, upper: bool = True) -> Tensor:
    """Return the matrices data [..., n, m] with 0 below (else above) a diagonal.

    It is the one that begins at column `diagonal`. Raise LanguageError on another rank.
    """
    require(len(data.shape) >= 2, "triangle", data, need="it must be a matrix, or many")

    def body(*i: Expr) -> Expr:
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

    def body(*i: Expr) -> Expr:
        triples = zip(i, first, data.shape, strict=True)
        return data[tuple((index - low) % extent for index, low, extent in triples)]

    return compute(shape, body, AutoName("wrap_pad"))


VIEWS: Mapping[str, Callable[..., Tensor]] = {"triangle": triangle, "wrap_pad": wrap_pad}
"""Definitions by the name of their operator."""
