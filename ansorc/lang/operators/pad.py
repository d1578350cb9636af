"""Padding: a tensor with a margin of one value, of its own edge, or of its reflection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import each, require
from ansorc.lang.scalar import abs, all_of, const, if_then_else, maximum, minimum
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import Tensor

Move = Callable[[Scalar, int], Scalar]

_PAD, _EDGE_PAD, _REFLECT_PAD = AutoName("pad"), AutoName("edge_pad"), AutoName("reflect_pad")


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
    first, last = _margins("pad", data, before, after)
    shape = [a + extent + b for a, extent, b in zip(first, data.shape, last, strict=True)]

    def body(*indices: Scalar) -> Scalar:
        inside: list[Scalar] = []
        for number, index in enumerate(indices):
            if first[number]:
                inside.append(index >= first[number])
            if last[number]:
                inside.append(index < first[number] + data.shape[number])
        shifted = [i - low if low else i for i, low in zip(indices, first, strict=True)]
        element = data[tuple(shifted)]
        margin = const(value, data.dtype)
        return if_then_else(all_of(*inside), element, margin) if inside else as_scalar(element)

    return compute(shape, body, name, axes=axes or [f"i{d}" for d in range(len(shape))])


def edge_pad(
    data: Tensor, before: Sequence[int], after: Sequence[int], name: str = _EDGE_PAD
) -> Tensor:
    """Return `data` with before[d] and after[d] copies of its outermost elements around it.

    Raise LanguageError unless there is one number >= 0 for each dimension.
    """
    first, last = _margins("edge_pad", data, before, after)
    return _pad_by(data, first, last, name, _at_edge)


def reflect_pad(
    data: Tensor, before: Sequence[int], after: Sequence[int], name: str = _REFLECT_PAD
) -> Tensor:
    """Return `data` with its reflection, the outermost element not repeated, around it.

    Raise LanguageError unless there is one number for each dimension, 0 or more and less than the
    extent.
    """
    first, last = _margins("reflect_pad", data, before, after)
    triples = zip(first, last, data.shape, strict=True)
    is_short = all(max(low, high) < extent for low, high, extent in triples)
    require(is_short, "reflect_pad", data, need="padding must be less than the extents")
    return _pad_by(data, first, last, name, _reflect)


def _at_edge(position: Scalar, extent: int) -> Scalar:
    return minimum(maximum(position, 0), extent - 1)


def _reflect(position: Scalar, extent: int) -> Scalar:
    return (extent - 1) - abs((extent - 1) - abs(position))


def _margins(
    operator: str, data: Tensor, before: Sequence[int], after: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = len(data.shape)
    first, last = each(operator, "before", before, rank), each(operator, "after", after, rank)
    is_outside = min((*first, *last), default=0) >= 0
    require(is_outside, operator, data, need="padding must not be negative")
    return first, last


def _pad_by(
    data: Tensor, first: Sequence[int], last: Sequence[int], name: str, move: Move
) -> Tensor:
    """Return `data` with margins; `move` maps a position outside to an element."""
    shape = [a + extent + b for a, extent, b in zip(first, data.shape, last, strict=True)]

    def body(*indices: Scalar) -> Scalar:
        sources: list[Scalar] = []
        for d, (index, extent) in enumerate(zip(indices, data.shape, strict=True)):
            is_padded = first[d] or last[d]
            shifted = index - first[d] if first[d] else index
            sources.append(move(shifted, extent) if is_padded else index)
        return data[tuple(sources)]

    return compute(shape, body, name)
