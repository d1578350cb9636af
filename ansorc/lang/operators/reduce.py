"""Reductions of tensors over some or all of their axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ansorc.lang import reduction
from ansorc.lang.define import compute, compute_tuple
from ansorc.lang.literal import DTypeLike
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import axis_numbers, require
from ansorc.lang.operators.wide import SumTypes, widen
from ansorc.lang.reduction import ReduceAxis, Reduction, reduce_axis
from ansorc.lang.scalar import any_of, const, equal, if_then_else, not_equal
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import ComplexTensor, Tensor

Dims = int | Sequence[int] | None
"""The axes to reduce, negative ones counted from the end; None: all."""

_SUM, _MEAN, _MAX, _MIN = AutoName("sum"), AutoName("mean"), AutoName("max"), AutoName("min")
_PROD, _ARGMAX, _ARGMIN = AutoName("prod"), AutoName("argmax"), AutoName("argmin")
_SHORT = 8
"""Fewer elements are searched in one pass, as pairs with their indices: 4096 rows of 10 took 25 µs
this way, and 38 µs in two passes (Zen 5)."""
_INT32_TERMS = 2**31
"""Indices of fewer elements are compared as int32: twice as many fit into a vector."""


def sum(
    data: Tensor,
    axis: Dims = None,
    name: str = _SUM,
    *,
    keepdims: bool = False,
    sum_dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the sums of `data` over `axis`; None: over all dimensions.

    With `keepdims` the reduced dimensions keep the extent 1; without it they are dropped. By
    default 16-bit floats are summed in float32 and rounded, and 8- and 16-bit integers are summed
    in int32. With `sum_dtype`, elements are cast to it, and the result has it. Raise LanguageError
    on an unknown axis.
    """
    types = SumTypes.of(data.dtype, sum_dtype)
    return _wide("sum", data, axis, reduction.sum, types, name, keepdims=keepdims)


def max(data: Tensor, axis: Dims = None, name: str = _MAX, *, keepdims: bool = False) -> Tensor:
    """Return the largest elements of `data` over `axis`; see `sum`."""
    return reduce_over("max", data, axis, reduction.max, name, keepdims=keepdims)


def min(data: Tensor, axis: Dims = None, name: str = _MIN, *, keepdims: bool = False) -> Tensor:
    """Return the smallest elements of `data` over `axis`; see `sum`."""
    return reduce_over("min", data, axis, reduction.min, name, keepdims=keepdims)


def prod(
    data: Tensor,
    axis: Dims = None,
    name: str = _PROD,
    *,
    keepdims: bool = False,
    sum_dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the products of the elements of `data` over `axis`; see `sum`."""
    types = SumTypes.of(data.dtype, sum_dtype)
    return _wide("prod", data, axis, reduction.prod, types, name, keepdims=keepdims)


def mean(data: Tensor, axis: Dims = None, name: str = _MEAN, *, keepdims: bool = False) -> Tensor:
    """Return the means of the floats or complex numbers `data` over `axis`; see `sum`.

    There are two stages: `<name>.sum` (for 16-bit floats in float32) and the division. Raise
    LanguageError for integers, too.
    """
    is_divisible = data.dtype.is_float or isinstance(data, ComplexTensor)
    require(is_divisible, "mean", data, need="it needs floats; cast it first")
    total = wide_sums("mean", data, axis, stage_name(name, "sum"), keepdims=keepdims)
    share = 1.0 / math.prod(data.shape[d] for d in axis_numbers("mean", data, axis))
    return compute(total.shape, lambda *i: (total[i] * share).astype(data.dtype), name)


def argmax(
    data: Tensor, axis: int | None = None, name: str = _ARGMAX, *, keepdims: bool = False
) -> Tensor:
    """Return the indices of the largest elements of `data` along `axis`, as int64.

    The first of equal elements wins, and NaN is the largest, as in NumPy. If `axis` is None, the
    index counts all elements in row-major order. There are three stages: `<name>.value` (the
    element), `<name>.first` (its index) and the cast. Rows of less than 32 elements are one
    computation of pairs. Raise LanguageError on an unknown axis.
    """
    return _place("argmax", data, axis, reduction.max, name, keepdims=keepdims)


def argmin(
    data: Tensor, axis: int | None = None, name: str = _ARGMIN, *, keepdims: bool = False
) -> Tensor:
    """Return the indices of the smallest elements of `data` along `axis`; see `argmax`."""
    return _place("argmin", data, axis, reduction.min, name, keepdims=keepdims)


def wide_sums(
    operator: str, data: Tensor, axis: Dims, name: str, *, keepdims: bool = False
) -> Tensor:
    """Return the sums of `data` over `axis` in the dtype of their sums, as one stage."""
    return reduce_over(
        operator, data, axis, lambda x, axes: reduction.sum(widen(x), axes), name,
        keepdims=keepdims,
    )  # fmt: skip


def _wide(
    operator: str,
    data: Tensor,
    axis: Dims,
    reduce: Callable[[Scalar, list[ReduceAxis]], Reduction],
    types: SumTypes,
    name: str,
    *,
    keepdims: bool,
) -> Tensor:
    """Return `reduce` of the elements in the dtype of the sums, rounded to that of the result.

    If the dtypes differ, the sums are a separate stage, `<name>.wide`.
    """

    def combine(x: Scalar, axes: list[ReduceAxis]) -> Reduction:
        return reduce(x.astype(types.sums), axes)

    if types.sums == types.result or not axis_numbers(operator, data, axis):
        return reduce_over(operator, data, axis, combine, name, keepdims=keepdims)
    wide = stage_name(name, "wide")
    sums = reduce_over(operator, data, axis, combine, wide, keepdims=keepdims)
    return compute(sums.shape, lambda *i: sums[i].astype(types.result), name)


def reduce_over(
    operator: str,
    data: Tensor,
    axis: Dims,
    reduce: Callable[[Scalar, list[ReduceAxis]], Reduction],
    name: str,
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return `reduce` of the elements of `data` over `axis`, as one stage.

    Without axes to reduce it is a copy of `data`.
    """
    places = axis_numbers(operator, data, axis)
    if not places:
        return compute(data.shape, lambda *i: data[i], name)
    axes = _reduce_axes(data, places)
    shape = without(data.shape, places, 1 if keepdims else None)
    return compute(shape, lambda *i: reduce(_element(data, axes, i), list(axes.values())), name)


def without(extents: Sequence[int], dimensions: Sequence[int], kept: int | None) -> list[int]:
    """Return `extents` without those at `dimensions`, or with `kept` in their place."""
    rest = [kept if d in dimensions else extent for d, extent in enumerate(extents)]
    return [extent for extent in rest if extent is not None]


def _place(
    operator: str,
    data: Tensor,
    axis: int | None,
    find: Callable[[Scalar, list[ReduceAxis]], Reduction],
    name: str,
    *,
    keepdims: bool,
) -> Tensor:
    """Return the first index of an element that equals `find` of all, or is NaN if that is NaN."""
    dimensions = axis_numbers(operator, data, axis)
    require(bool(dimensions), operator, data, need="there is no axis to search along")
    terms = math.prod(data.shape[d] for d in dimensions)
    if terms < _SHORT:
        return _place_at_once(operator, data, dimensions, name, keepdims=keepdims)
    value = reduce_over(operator, data, axis, find, stage_name(name, "value"), keepdims=keepdims)
    axes = _reduce_axes(data, dimensions)
    dtype = "int32" if terms < _INT32_TERMS else "int64"

    def first(*i: Scalar) -> Reduction:
        element, number = _element(data, axes, i), const(0)
        for d, reduce in axes.items():
            number = number * data.shape[d] + reduce if d != dimensions[0] else as_scalar(reduce)
        test = equal(element, value[tuple(i)])
        if data.dtype.is_float:
            test = any_of(test, not_equal(element, element))
        chosen = if_then_else(test, number.astype(dtype), const(terms - 1, dtype))
        return reduction.min(chosen, list(axes.values()))

    first_ = compute(value.shape, first, stage_name(name, "first"))
    return compute(value.shape, lambda *i: first_[i].astype("int64"), name)


def _place_at_once(
    operator: str, data: Tensor, places: Sequence[int], name: str, *, keepdims: bool
) -> Tensor:
    """Return the index of the extreme element by one reduction of pairs."""
    axes = _reduce_axes(data, places)
    shape = without(data.shape, places, 1 if keepdims else None)
    find = reduction.argmax if operator == "argmax" else reduction.argmin
    _, indices = compute_tuple(
        shape,
        lambda *i: find(_element(data, axes, i), list(axes.values())),
        [stage_name(name, "value"), name],
    )
    return indices


def _reduce_axes(data: Tensor, dimensions: Sequence[int]) -> dict[int, ReduceAxis]:
    names = ["k"] if len(dimensions) == 1 else [f"k{d}" for d in dimensions]
    pairs = zip(dimensions, names, strict=True)
    return {d: reduce_axis(data.shape[d], name) for d, name in pairs}


def _element(data: Tensor, axes: dict[int, ReduceAxis], indices: Sequence[Scalar]) -> Scalar:
    """Return the element of `data` at `indices` of the result, with or without `keepdims`."""
    rank, is_kept = len(data.shape), len(indices) == len(data.shape)
    rest = iter(indices)
    position: list[Scalar] = []
    for d in range(rank):
        if d in axes:
            position.append(axes[d])
            if is_kept:
                next(rest)
        else:
            position.append(next(rest))
    return data[tuple(position)]
