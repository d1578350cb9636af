"""Reductions that frameworks have beyond those of `ac.ops`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ansorc.lang import reduction
from ansorc.lang.define import compute, compute_tuple
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.reduce import Dims, reduce_over, without
from ansorc.lang.operators.scan import cummax, cummin, cumprod, cumsum
from ansorc.lang.operators.shapes import axis_number, axis_numbers
from ansorc.lang.reduction import TupleReduction, reduce_axis
from ansorc.lang.scalar import all_of, const, exp, if_then_else, log
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor


def any_true(data: Tensor, axis: Dims = None, *, keepdims: bool = False) -> Tensor:
    """Return whether one of the bools `data` over `axis` holds."""
    return reduce_over("any", data, axis, reduction.any, AutoName("any"), keepdims=keepdims)


def all_true(data: Tensor, axis: Dims = None, *, keepdims: bool = False) -> Tensor:
    """Return whether all of the bools `data` over `axis` hold."""
    return reduce_over("all", data, axis, reduction.all, AutoName("all"), keepdims=keepdims)


def log_sum_exp(data: Tensor, axis: Dims = None, *, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(data))) over `axis`, without overflow.

    Stages: the largest element, where it is finite, the sum of the exponentials of the differences
    to it, and the result.
    """
    name = AutoName("log_sum_exp")
    places = axis_numbers("log_sum_exp", data, axis)
    top = reduce_over("max", data, axis, reduction.max, stage_name(name, "max"), keepdims=True)

    def shift(*i: Scalar) -> Scalar:
        peak = top[tuple(const(0, "int64") if d in places else index for d, index in enumerate(i))]
        is_finite = all_of(peak > -math.inf, peak < math.inf)
        return if_then_else(is_finite, peak, 0.0)

    raised = compute(data.shape, lambda *i: exp(data[i] - shift(*i)), stage_name(name, "exp"))
    total = reduce_over("sum", raised, axis, reduction.sum, stage_name(name, "sum"), keepdims=True)
    result = compute(total.shape, lambda *i: log(total[i]) + shift(*i), name)
    if keepdims:
        return result
    kept = [d for d in range(len(data.shape)) if d not in places]

    def squeeze(*i: Scalar) -> Scalar:
        given = dict(zip(kept, i, strict=True))
        return result[tuple(given.get(d, const(0, "int64")) for d in range(len(data.shape)))]

    shape = without(data.shape, places, None)
    return compute(shape, squeeze, stage_name(name, "squeezed"))


def last_argmax(data: Tensor, axis: int) -> Tensor:
    """Return where the largest elements of `data` are along `axis`, the last of equal ones."""
    return _last_place(data, axis, reduction.argmax, AutoName("argmax"))


def last_argmin(data: Tensor, axis: int) -> Tensor:
    """Return where the smallest elements of `data` are along `axis`, the last of equal ones."""
    return _last_place(data, axis, reduction.argmin, AutoName("argmin"))


def _last_place(
    data: Tensor, axis: int, find: Callable[..., TupleReduction], name: AutoName
) -> Tensor:
    dimension = axis_number(name, data, axis)
    last = data.shape[dimension] - 1
    k = reduce_axis(data.shape[dimension], "k")
    shape = without(data.shape, [dimension], None)
    _, indices = compute_tuple(
        shape,
        lambda *i: find(data[(*i[:dimension], last - k, *i[dimension:])], k),
        [stage_name(name, "value"), stage_name(name, "place")],
    )
    return compute(shape, lambda *i: last - indices[i], name)


def cumulative_sum(
    data: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Return the sums of `data` along `axis` up to each element, in its dtype; see `cumsum`."""
    return _narrow(data, cumsum(data, axis, exclusive=exclusive, reverse=reverse))


def cumulative_product(
    data: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Return the products of `data` along `axis` up to each element; see `cumulative_sum`."""
    return _narrow(data, cumprod(data, axis, exclusive=exclusive, reverse=reverse))


def cumulative_max(data: Tensor, axis: int) -> Tensor:
    """Return the largest elements of `data` along `axis` up to each one."""
    return cummax(data, axis)


def cumulative_min(data: Tensor, axis: int) -> Tensor:
    """Return the smallest elements of `data` along `axis` up to each one."""
    return cummin(data, axis)


def _narrow(data: Tensor, made: Tensor) -> Tensor:
    """Return `made` in the dtype of `data`."""
    if made.dtype == data.dtype:
        return made
    return compute(made.shape, lambda *i: made[i].astype(data.dtype), AutoName("cumulative"))


def determinant(data: Tensor) -> Tensor:
    """Return the determinants [...] of matrices data [..., n, n], all n! terms of each."""
    n = data.shape[-1]

    def minor(outer: tuple[Scalar, ...], row: int, columns: tuple[int, ...]) -> Scalar:
        if row == n - 1:
            return data[(*outer, row, columns[0])]
        total: Scalar | None = None
        for number, column in enumerate(columns):
            rest = (*columns[:number], *columns[number + 1 :])
            term = data[(*outer, row, column)] * minor(outer, row + 1, rest)
            total = term if total is None else total - term if number % 2 else total + term
        return const(1, data.dtype) if total is None else total

    return compute(data.shape[:-2], lambda *i: minor(i, 0, tuple(range(n))), AutoName("det"))


REDUCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "all": all_true,
    "any": any_true,
    "cumulative_max": cumulative_max,
    "cumulative_min": cumulative_min,
    "cumulative_product": cumulative_product,
    "cumulative_sum": cumulative_sum,
    "determinant": determinant,
    "last_argmax": last_argmax,
    "last_argmin": last_argmin,
    "log_sum_exp": log_sum_exp,
}
"""Definitions by the name of their operator."""
