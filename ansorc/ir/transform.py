"""Transform: a linear map along one dimension of a tensor, by a small constant matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ansorc.ir.aligned import Array
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import (
    BinaryOp,
    CompareOp,
    Const,
    Expr,
    Load,
    Select,
    binary,
    compare,
    const,
    dtype_of,
)

Matrix: TypeAlias = tuple[tuple[float, ...], ...]
_SLICE_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Transform:
    """A linear map: each column of elements along `dimension` is multiplied by `matrix`."""

    dimension: int
    matrix: Matrix
    """The rows of the matrix; each has as many elements as the dimension has before."""

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the transformed tensor."""
        before, after = shape[: self.dimension], shape[self.dimension + 1 :]
        return (*before, len(self.matrix), *after)

    def apply(self, array: Array) -> Array:
        """Return the transformed array, computed in float64 and rounded to the dtype of `array`."""
        mapped = np.tensordot(np.array(self.matrix), array.astype(np.float64), (1, self.dimension))
        return np.moveaxis(mapped, 0, self.dimension).astype(array.dtype)


def apply_all(transforms: Sequence[Transform], array: Array) -> Array:
    """Return `array` after `transforms`, one slice at a time to save memory for float64."""
    if not transforms:
        return array
    taken = {each.dimension for each in transforms}
    others = [dimension for dimension in range(array.ndim) if dimension not in taken]
    longest = max(others, key=lambda dimension: array.shape[dimension], default=None)
    if longest is None or array.size <= _SLICE_ELEMENTS:
        return _apply(transforms, array)
    shape: Sequence[int] = array.shape
    for each in transforms:
        shape = each.shape(shape)
    result = np.empty(shape, array.dtype)
    step = max(1, _SLICE_ELEMENTS * array.shape[longest] // array.size)
    for start in range(0, array.shape[longest], step):
        part = (slice(None),) * longest + (slice(start, start + step),)
        result[part] = _apply(transforms, array[part])
    return result


def _apply(transforms: Sequence[Transform], array: Array) -> Array:
    for each in transforms:
        array = each.apply(array)
    return array


def transform_buffer(source: Buffer, transforms: Sequence[Transform]) -> Buffer:
    """Return the buffer of the transformed `source`, with the same name."""
    shape = source.shape
    for transform in transforms:
        shape = transform.shape(shape)
    return replace(source, shape=shape)


def transform_element(
    source: Buffer, transforms: Sequence[Transform], indices: Sequence[Expr]
) -> Expr:
    """Return the element at `indices` of the transformed `source`, as a sum of its elements.

    The transforms are along different dimensions.
    """

    def element(taken: Sequence[int]) -> Expr:
        before = list(indices)
        for transform, index in zip(transforms, taken, strict=True):
            before[transform.dimension] = const(index)
        return Load(source, tuple(before))

    return combine_rows([(each.matrix, indices[each.dimension]) for each in transforms], element)


def combine_rows(
    rows: Sequence[tuple[Matrix, Expr]], element: Callable[[Sequence[int]], Expr]
) -> Expr:
    """Return the element of a tensor after several transforms, as a sum of elements before.

    `rows` has the matrix and the number of the wanted row for each transform. `element` returns the
    source element with given indices along the transformed dimensions. Each row is a separate
    expression, without products with 0, 1 and -1.
    """
    return _combine(rows, (), element)


def _combine(
    rows: Sequence[tuple[Matrix, Expr]],
    taken: tuple[int, ...],
    element: Callable[[Sequence[int]], Expr],
) -> Expr:
    if len(taken) == len(rows):
        return element(taken)
    matrix, row = rows[len(taken)]
    values = [
        _weigh(factors, lambda column: _combine(rows, (*taken, column), element))
        for factors in matrix
    ]
    if isinstance(row, Const):
        return values[int(row.value)]
    value = values[-1]
    for position in reversed(range(len(values) - 1)):
        value = Select(compare(CompareOp.EQ, row, const(position)), values[position], value)
    return value


def _weigh(factors: Sequence[float], element: Callable[[int], Expr]) -> Expr:
    """Return the sum of factor · element; a positive term comes first, and there must be one."""
    terms = [(factor, element(position)) for position, factor in enumerate(factors) if factor]
    terms.sort(key=_is_negative)
    (first, total), *rest = terms
    total = _times(total, first)
    for factor, term in rest:
        part = _times(term, abs(factor))
        total = binary(BinaryOp.SUB if factor < 0 else BinaryOp.ADD, total, part)
    return total


def _times(term: Expr, factor: float) -> Expr:
    return term if factor == 1 else binary(BinaryOp.MUL, term, const(factor, dtype_of(term)))


def _is_negative(term: tuple[float, Expr]) -> bool:
    return term[0] < 0
