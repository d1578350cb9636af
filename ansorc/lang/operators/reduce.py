"""Reductions of tensors over some or all of their axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ansorc.ir.expr import Expr, Var
from ansorc.lang import reduction
from ansorc.lang.define import compute, compute_tuple
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import axis_numbers, require
from ansorc.lang.reduction import ReduceAxis, Reduction, TupleReduction, reduce_axis
from ansorc.lang.tensor import Tensor

Dims = int | Sequence[int] | None
"""The axes to reduce, negative ones counted from the end; None: all."""

_SUM, _MEAN, _MAX, _MIN = AutoName("sum"), AutoName("mean"), AutoName("max"), AutoName("min")
_PROD, _ARGMAX, _ARGMIN = AutoName("prod"), AutoName("argmax"), AutoName("argmin")


def sum(data: Tensor, axis: Dims = None, name: str = _SUM, *, keepdims: bool = False) -> Tensor:
    """Return the sums of `data` over `axis`; with `keepdims` those keep the extent 1.

    Without it the shape is that of `data` without `axis`. None: over all dimensions. Raise
    LanguageError where there is no such axis.
    """
    return reduced("sum", data, axis, reduction.sum, name, keepdims=keepdims)


def max(data: Tensor, axis: Dims = None, name: str = _MAX, *, keepdims: bool = False) -> Tensor:
    """Return the largest elements of `data` over `axis`; see `sum`."""
    return reduced("max", data, axis, reduction.max, name, keepdims=keepdims)


def min(data: Tensor, axis: Dims = None, name: str = _MIN, *, keepdims: bool = False) -> Tensor:
    """Return the smallest elements of `data` over `axis`; see `sum`."""
    return reduced("min", data, axis, reduction.min, name, keepdims=keepdims)


def prod(data: Tensor, axis: Dims = None, name: str = _PROD, *, keepdims: bool = False) -> Tensor:
    """Return the products of the elements of `data` over `axis`; see `sum`."""
    return reduced("prod", data, axis, reduction.prod, name, keepdims=keepdims)


def mean(data: Tensor, axis: Dims = None, name: str = _MEAN, *, keepdims: bool = False) -> Tensor:
    """Return the means of the floats `data` over `axis`; see `sum`.

    Two stages: `<name>.sum` and the division. Raise LanguageError for integers, too.
    """
    require(data.dtype.is_float, "mean", data, need="it needs floats; cast it first")
    total = reduced("mean", data, axis, reduction.sum, stage_name(name, "sum"), keepdims=keepdims)
    share = 1.0 / math.prod(data.shape[place] for place in axis_numbers("mean", data, axis))
    return compute(total.shape, lambda *i: total[i] * share, name)


def argmax(
    data: Tensor, axis: int | None = None, name: str = _ARGMAX, *, keepdims: bool = False
) -> Tensor:
    """Return where the largest elements of `data` are along `axis`, as int64.

    The first of equal ones wins, and NaN is the largest, as in NumPy. None: the place in the whole
    tensor, in row-major order. The element itself is the other output of the computation,
    `<name>.value`. Raise LanguageError where there is no such axis.
    """
    return _place("argmax", data, axis, reduction.argmax, name, keepdims=keepdims)


def argmin(
    data: Tensor, axis: int | None = None, name: str = _ARGMIN, *, keepdims: bool = False
) -> Tensor:
    """Return where the smallest elements of `data` are along `axis`; see `argmax`."""
    return _place("argmin", data, axis, reduction.argmin, name, keepdims=keepdims)


def reduced(
    operator: str,
    data: Tensor,
    axis: Dims,
    reduce: Callable[[Expr, list[ReduceAxis]], Reduction],
    name: str,
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return `reduce` of the elements of `data` over `axis`, as one stage.

    Over no axes at all it is `data` itself, copied.
    """
    places = axis_numbers(operator, data, axis)
    if not places:
        return compute(data.shape, lambda *i: data[i], name)
    axes = _reduce_axes(data, places)
    shape = without(data.shape, places, 1 if keepdims else None)
    return compute(shape, lambda *i: reduce(_element(data, axes, i), list(axes.values())), name)


def without(extents: Sequence[int], places: Sequence[int], kept: int | None) -> list[int]:
    """Return `extents` without those at `places`, or with `kept` instead of them."""
    found = [kept if place in places else extent for place, extent in enumerate(extents)]
    return [extent for extent in found if extent is not None]


def _place(
    operator: str,
    data: Tensor,
    axis: int | None,
    find: Callable[[Expr, list[ReduceAxis]], TupleReduction],
    name: str,
    *,
    keepdims: bool,
) -> Tensor:
    places = axis_numbers(operator, data, axis)
    require(bool(places), operator, data, need="there is no axis to search along")
    axes = _reduce_axes(data, places)
    shape = without(data.shape, places, 1 if keepdims else None)
    _, place = compute_tuple(
        shape,
        lambda *i: find(_element(data, axes, i), list(axes.values())),
        [stage_name(name, "value"), name],
    )
    return place


def _reduce_axes(data: Tensor, places: Sequence[int]) -> dict[int, ReduceAxis]:
    names = ["k"] if len(places) == 1 else [f"k{place}" for place in places]
    pairs = zip(places, names, strict=True)
    return {place: reduce_axis(data.shape[place], name) for place, name in pairs}


def _element(data: Tensor, axes: dict[int, ReduceAxis], indices: Sequence[Var]) -> Expr:
    """Return the element of `data` at `indices` of the result, whether dimensions were kept."""
    rank, is_kept = len(data.shape), len(indices) == len(data.shape)
    rest = iter(indices)
    found: list[Expr] = []
    for place in range(rank):
        if place in axes:
            found.append(axes[place])
            if is_kept:
                next(rest)
        else:
            found.append(next(rest))
    return data[tuple(found)]
