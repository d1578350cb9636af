"""Padding: a tensor with a margin of one value."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.ir.expr import Expr, as_expr
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import each, require
from ansorc.lang.scalar import all_of, const, if_then_else
from ansorc.lang.tensor import Tensor

_PAD = AutoName("pad")


def pad(
    data: Tensor,
    before: Sequence[int],
    after: Sequence[int],
    value: float = 0.0,
    name: str = _PAD,
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return `data` with before[d] and after[d] elements of `value` around it in dimension d.

    `axes` name the axes. Raise LanguageError unless there is one number >= 0 for each dimension.
    """
    rank = len(data.shape)
    first, last = each("pad", "before", before, rank), each("pad", "after", after, rank)
    require(min((*first, *last), default=0) >= 0, "pad", data, need="padding must not be negative")
    shape = [a + extent + b for a, extent, b in zip(first, data.shape, last, strict=True)]

    def body(*indices: Expr) -> Expr:
        inside: list[Expr] = []
        for place, index in enumerate(indices):
            if first[place]:
                inside.append(index >= first[place])
            if last[place]:
                inside.append(index < first[place] + data.shape[place])
        shifted = [i - low if low else i for i, low in zip(indices, first, strict=True)]
        element = data[tuple(shifted)]
        margin = const(value, data.dtype)
        return if_then_else(all_of(*inside), element, margin) if inside else as_expr(element)

    return compute(shape, body, name, axes=axes or [f"i{place}" for place in range(rank)])
