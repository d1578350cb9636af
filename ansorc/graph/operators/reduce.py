"""Reductions that frameworks have beyond those of `ac.ops`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ansorc.ir.expr import Expr, const
from ansorc.lang import reduction
from ansorc.lang.define import compute, compute_tuple
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.reduce import Dims, reduced, without
from ansorc.lang.operators.shapes import axis_number, axis_numbers
from ansorc.lang.reduction import Reduction, TupleReduction, reduce_axis
from ansorc.lang.scalar import all_of, exp, if_then_else, log
from ansorc.lang.tensor import Tensor


def any_true(data: Tensor, axis: Dims = None, *, keepdims: bool = False) -> Tensor:
    """Return whether one of the bools `data` over `axis` holds."""
    return reduced("any", data, axis, reduction.any, AutoName("any"), keepdims=keepdims)


def all_true(data: Tensor, axis: Dims = None, *, keepdims: bool = False) -> Tensor:
    """Return whether all of the bools `data` over `axis` hold."""
    return reduced("all", data, axis, reduction.all, AutoName("all"), keepdims=keepdims)


def log_sum_exp(data: Tensor, axis: Dims = None, *, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(data))) over `axis`, without overflow.

    Stages: the largest element, where it is finite, the sum of the exponentials of the differences
    to it, and the result.
    """
    name = AutoName("log_sum_exp")
    places = axis_numbers("log_sum_exp", data, axis)
    top = reduced("max", data, axis, reduction.max, stage_name(name, "max"), keepdims=True)

    def shift(*i: Expr) -> Expr:
        peak = top[tuple(const(0) if d in places else index for d, index in enumerate(i))]
        is_finite = all_of(peak > -math.inf, peak < math.inf)
        return if_then_else(is_finite, peak, 0.0)

    raised = compute(data.shape, lambda *i: exp(data[i] - shift(*i)), stage_name(name, "exp"))
    total = reduced("sum", raised, axis, reduction.sum, stage_name(name, "sum"), keepdims=True)
    result = compute(total.shape, lambda *i: log(total[i]) + shift(*i), name)
    if keepdims:
        return result
    kept = [d for d in range(len(data.shape)) if d not in places]

    def squeezed(*i: Expr) -> Expr:
        given = dict(zip(kept, i, strict=True))
        return result[tuple(given.get(d, const(0)) for d in range(len(data.shape)))]

    shape = without(data.shape, places, None)
    return compute(shape, squeezed, stage_name(name, "squeezed"))


def last_argmax(data: Tensor, axis: int) -> Tensor:
    """Return where the largest elements of `data` are along `axis`, the last of equal ones."""
    return _last_place(data, axis, reduction.argmax, AutoName("argmax"))


def last_argmin(data: Tensor, axis: int) -> Tensor:
    """Return where the smallest elements of `data` are along `axis`, the last of equal ones."""
    return _last_place(data, axis, reduction.argmin, AutoName("argmin"))


def _last_place(
    data: Tensor, axis: int, find: Callable[..., TupleReduction], name: AutoName
) -> Tensor:
    place = axis_number(name, data, axis)
    last = data.shape[place] - 1
    k = reduce_axis(data.shape[place], "k")
    shape = without(data.shape, [place], None)
    _, found = compute_tuple(
        shape,
        lambda *i: find(data[(*i[:place], last - k, *i[place:])], k),
        [stage_name(name, "value"), stage_name(name, "place")],
    )
    return compute(shape, lambda *i: last - found[i], name)


def cumulative_sum(
    data: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Return the sums of `data` along `axis` up to each element, that left out if `exclusive`.

    With `reverse` from each element to the end.
    """
    return _cumulative(data, axis, reduction.sum, 0, exclusive, reverse)


def cumulative_product(
    data: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Return the products of `data` along `axis` up to each element; see `cumulative_sum`."""
    return _cumulative(data, axis, reduction.prod, 1, exclusive, reverse)


def _cumulative(
    data: Tensor,
    axis: int,
    combine: Callable[..., Reduction],
    neutral: int,
    *flags: bool,
) -> Tensor:
    place = axis_number("cumulative", data, axis)
    k = reduce_axis(data.shape[place], "k")
    exclusive, reverse = flags

    def body(*i: Expr) -> Reduction:
        first, second = (i[place], k) if reverse else (k, i[place])
        is_in = first < second if exclusive else first <= second
        element = data[(*i[:place], k, *i[place + 1 :])]
        return combine(if_then_else(is_in, element, const(neutral, data.dtype)), axis=k)

    return compute(data.shape, body, AutoName("cumulative"))


def determinant(data: Tensor) -> Tensor:
    """Return the determinants [...] of matrices data [..., n, n], all n! terms of each."""
    n = data.shape[-1]

    def minor(outer: tuple[Expr, ...], row: int, columns: tuple[int, ...]) -> Expr:
        if row == n - 1:
            return data[(*outer, row, columns[0])]
        total: Expr | None = None
        for number, column in enumerate(columns):
            rest = (*columns[:number], *columns[number + 1 :])
            term = data[(*outer, row, column)] * minor(outer, row + 1, rest)
            total = term if total is None else total - term if number % 2 else total + term
        return const(1, data.dtype) if total is None else total

    return compute(data.shape[:-2], lambda *i: minor(i, 0, tuple(range(n))), AutoName("det"))


REDUCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "all": all_true,
    "any": any_true,
    "cumulative_product": cumulative_product,
    "cumulative_sum": cumulative_sum,
    "determinant": determinant,
    "last_argmax": last_argmax,
    "last_argmin": last_argmin,
    "log_sum_exp": log_sum_exp,
}
"""Definitions by the name of their operator."""
