"""Operators that only move elements: transpose, reshape, concat, slice and their like."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

from ansorc.errors import LanguageError
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.elementwise import element_at
from ansorc.lang.operators.shapes import axis_number, axis_numbers, require, scale_index
from ansorc.lang.scalar import const, if_then_else
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import Tensor, extents_of

_TRANSPOSE, _RESHAPE, _FLATTEN = AutoName("transpose"), AutoName("reshape"), AutoName("flatten")
_CONCAT, _STACK, _SLICE = AutoName("concat"), AutoName("stack"), AutoName("slice")
_FLIP, _TILE, _BROADCAST_TO = AutoName("flip"), AutoName("tile"), AutoName("broadcast_to")
_SQUEEZE, _EXPAND_DIMS = AutoName("squeeze"), AutoName("expand_dims")
_LONGEST_CHAIN = 16
"""The most parts that are tested one after another."""


def transpose(data: Tensor, order: Sequence[int], name: str = _TRANSPOSE) -> Tensor:
    """Return `data` with its dimension order[d] as dimension d; raise LanguageError on others."""
    is_order = sorted(order) == list(range(len(data.shape)))
    require(is_order, "transpose", data, need=f"{tuple(order)} must list each dimension once")
    back = [list(order).index(d) for d in range(len(order))]
    shape = [data.shape[d] for d in order]
    return compute(shape, lambda *i: data[tuple(i[d] for d in back)], name)


def reshape(data: Tensor, shape: int | Sequence[int], name: str = _RESHAPE) -> Tensor:
    """Return the elements of `data`, in row-major order, as a tensor of `shape`.

    One extent may be -1, for the rest. Indices of split dimensions are multiplied, those of joined
    dimensions are divided. Raise LanguageError on another number of elements.
    """
    extents = _fill_extent(data, (shape,) if isinstance(shape, int) else tuple(shape))
    return compute(extents, lambda *i: data[_reshape_indices(data.shape, extents, i)], name)


def flatten(data: Tensor, axis: int = 1, name: str = _FLATTEN) -> Tensor:
    """Return `data` as a matrix [n, m]: the dimensions before `axis` joined, and those from it on.

    Raise LanguageError where there is no such axis.
    """
    rank = len(data.shape)
    require(-rank <= axis <= rank, "flatten", data, need=f"there is no axis {axis}")
    dimension = axis % rank if axis < 0 else axis
    return reshape(
        data, (math.prod(data.shape[:dimension]), math.prod(data.shape[dimension:])), name
    )


def squeeze(data: Tensor, axis: int | Sequence[int] | None = None, name: str = _SQUEEZE) -> Tensor:
    """Return `data` without the dimensions `axis` of its shape; None: all of extent 1.

    Raise LanguageError where the extent of one is not 1.
    """
    ones = [d for d, extent in enumerate(data.shape) if extent == 1]
    dimensions = ones if axis is None else axis_numbers("squeeze", data, axis)
    require(
        set(dimensions) <= set(ones), "squeeze", data, need=f"the extents of {dimensions} must be 1"
    )
    return reshape(data, [e for d, e in enumerate(data.shape) if d not in dimensions], name)


def expand_dims(data: Tensor, axis: int | Sequence[int], name: str = _EXPAND_DIMS) -> Tensor:
    """Return `data` with new dimensions of extent 1: [2, 3] with axis 0 gives [1, 2, 3].

    `axis` says which dimensions of the result are new.

    Raise LanguageError if `axis` names one twice, or one that the result does not have.
    """
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = len(data.shape) + len(given)
    dimensions = {d % rank for d in given if -rank <= d < rank}
    need = f"{given} must be different dimensions of the result, which has {rank}"
    require(len(dimensions) == len(given), "expand_dims", data, need=need)
    rest = iter(data.shape)
    return reshape(data, [1 if d in dimensions else next(rest) for d in range(rank)], name)


def broadcast_to(data: Tensor, shape: Sequence[int], name: str = _BROADCAST_TO) -> Tensor:
    """Return `data` repeated along dimensions of extent 1, and along new leading ones, to `shape`.

    Raise LanguageError if NumPy would not broadcast it.
    """
    extents = extents_of(shape, name)
    inner = extents[len(extents) - len(data.shape) :] if len(extents) >= len(data.shape) else ()
    fits = len(inner) == len(data.shape) and all(
        mine in (1, wanted) for mine, wanted in zip(data.shape, inner, strict=True)
    )
    require(fits, "broadcast_to", data, need=f"it cannot be broadcast to {list(extents)}")
    return compute(extents, lambda *i: element_at(data, i), name)


def tile(data: Tensor, repeats: Sequence[int], name: str = _TILE) -> Tensor:
    """Return `data` repeated repeats[d] times along each dimension d.

    Raise LanguageError unless there is one number of 1 or more for each dimension.
    """
    fits = len(repeats) == len(data.shape) and min(repeats, default=1) >= 1
    require(
        fits, "tile", data, need=f"repeats are {tuple(repeats)}; give one of 1 or more for each"
    )
    shape = [extent * count for extent, count in zip(data.shape, repeats, strict=True)]

    def body(*indices: Scalar) -> Scalar:
        triples = zip(indices, data.shape, repeats, strict=True)
        return data[tuple(i if count == 1 else i % extent for i, extent, count in triples)]

    return compute(shape, body, name)


def flip(data: Tensor, axis: int | Sequence[int], name: str = _FLIP) -> Tensor:
    """Return `data` with the order of its elements along `axis` reversed."""
    places = axis_numbers("flip", data, axis)

    def body(*indices: Scalar) -> Scalar:
        return data[
            tuple(data.shape[d] - 1 - i if d in places else i for d, i in enumerate(indices))
        ]

    return compute(data.shape, body, name)


def slice_(
    data: Tensor,
    begin: Sequence[int | None],
    end: Sequence[int | None],
    stride: Sequence[int] | None = None,
    name: str = _SLICE,
) -> Tensor:
    """Return data[begin:end:stride] in each dimension, as NumPy does, with negative ends and None.

    Exported as `ops.slice`. Raise LanguageError if nothing is left, a stride is 0, or there is not
    one number for each dimension.
    """
    rank = len(data.shape)
    steps = (1,) * rank if stride is None else tuple(stride)
    is_each = len(begin) == len(end) == len(steps) == rank
    require(is_each, "slice", data, need=f"give begin, end and stride for each of {rank}")
    require(0 not in steps, "slice", data, need="a stride of 0 goes nowhere")
    ranges = [
        range(*slice(low, high, step).indices(extent))
        for low, high, step, extent in zip(begin, end, steps, data.shape, strict=True)
    ]
    need = f"{list(begin)} to {list(end)} by {list(steps)} leaves nothing"
    require(all(len(range_) for range_ in ranges), "slice", data, need=need)

    def body(*indices: Scalar) -> Scalar:
        pairs = zip(indices, ranges, strict=True)
        return data[tuple(_shift(scale_index(i, range_.step), range_.start) for i, range_ in pairs)]

    return compute([len(range_) for range_ in ranges], body, name)


def concat(tensors: Sequence[Tensor], axis: int = 0, name: str = _CONCAT) -> Tensor:
    """Return the elements of `tensors` one after another along the dimension `axis`.

    Raise LanguageError unless they agree in all other dimensions and in their dtype.
    """
    if not tensors:
        raise LanguageError("concat needs one tensor or more")
    first = tensors[0]
    dimension = axis_number("concat", first, axis)
    rest = first.shape[:dimension] + first.shape[dimension + 1 :]
    fits = all(t.shape[:dimension] + t.shape[dimension + 1 :] == rest for t in tensors)
    require(fits, "concat", *tensors, need=f"they may differ in axis {axis} alone")
    ends = list(accumulate(t.shape[dimension] for t in tensors))

    def body(*indices: Scalar) -> Scalar:
        def part(number: int) -> Scalar:
            begin = ends[number] - tensors[number].shape[dimension]
            here = _shift(indices[dimension], -begin)
            return tensors[number][(*indices[:dimension], here, *indices[dimension + 1 :])]

        return _choose(part, 0, len(tensors), lambda number: indices[dimension] < ends[number])

    return compute((*first.shape[:dimension], ends[-1], *first.shape[dimension + 1 :]), body, name)


def stack(tensors: Sequence[Tensor], axis: int = 0, name: str = _STACK) -> Tensor:
    """Return `tensors`, all of one shape, joined along a new dimension `axis` of the result.

    Raise LanguageError for no tensors, for different shapes, and on an unknown axis.
    """
    if not tensors:
        raise LanguageError("stack needs one tensor or more")
    shape, rank = tensors[0].shape, len(tensors[0].shape) + 1
    require(-rank <= axis < rank, "stack", tensors[0], need=f"there is no axis {axis}")
    is_alike = all(tensor.shape == shape for tensor in tensors)
    require(is_alike, "stack", *tensors, need="they must have one shape")
    dimension = axis % rank

    def body(*indices: Scalar) -> Scalar:
        inner = (*indices[:dimension], *indices[dimension + 1 :])

        def part(number: int) -> Scalar:
            return as_scalar(tensors[number][inner])

        return _choose(part, 0, len(tensors), lambda number: indices[dimension] <= number)

    return compute((*shape[:dimension], len(tensors), *shape[dimension:]), body, name)


def _choose(
    part: Callable[[int], Scalar], first: int, last: int, is_up_to: Callable[[int], Scalar]
) -> Scalar:
    """Return the part from `first` to `last` that contains the index, by tests `is_up_to`.

    Few parts are tested one after another, since loops can be split at such tests. Many parts are
    halved, so that the expression is not too deep.
    """
    if last - first > _LONGEST_CHAIN:
        middle = (first + last) // 2
        before = _choose(part, first, middle, is_up_to)
        return if_then_else(is_up_to(middle - 1), before, _choose(part, middle, last, is_up_to))
    result = part(last - 1)
    for number in reversed(range(first, last - 1)):
        result = if_then_else(is_up_to(number), part(number), result)
    return result


def _fill_extent(data: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return `shape` with its -1 replaced."""
    size, known = math.prod(data.shape), math.prod(e for e in shape if e != -1)
    if shape.count(-1) == 1 and known > 0:
        shape = tuple(size // known if extent == -1 else extent for extent in shape)
    fits = all(extent > 0 for extent in shape) and math.prod(shape) == size
    require(fits, "reshape", data, need=f"its {size} elements do not make {list(shape)}")
    return shape


def _reshape_indices(
    old: Sequence[int], new: Sequence[int], indices: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """Return the indices into extents `old` of the element at `indices` of extents `new`.

    Both lists are cut where their products agree, so that each piece is as short as possible.
    """
    result: list[Scalar] = []
    before = after = 0
    while before < len(old):
        first, start = before, after
        before += 1
        while math.prod(old[first:before]) != math.prod(new[start:after]):
            if math.prod(old[first:before]) > math.prod(new[start:after]) and after < len(new):
                after += 1
            else:
                before += 1
        result += _piece(old[first:before], new[start:after], indices[start:after])
    return tuple(result)


def _piece(old: Sequence[int], new: Sequence[int], indices: Sequence[Scalar]) -> list[Scalar]:
    """Return the indices into `old` of one piece; the extents of both have the same product."""
    flat: Scalar | None = None
    for index, extent in zip(indices, new, strict=True):
        if extent > 1:
            flat = index if flat is None else flat * extent + index
    flat = const(0, "int64") if flat is None else flat
    result: list[Scalar] = []
    for d, extent in enumerate(old):
        inner = math.prod(old[d + 1 :])
        if extent == 1:
            result.append(const(0, "int64"))
            continue
        part = flat if inner == 1 else flat // inner
        outer = math.prod(old[:d])
        result.append(part if outer == 1 else part % extent)
    return result


def _shift(index: Scalar, by: int) -> Scalar:
    return index if by == 0 else index + by if by > 0 else index - -by
