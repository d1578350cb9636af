"""Add up the shares of a tensor: sums become stages, and factors are taken out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from ansorc.ir.dtype import FLOAT32, DType
from ansorc.ir.expr import Const, Expr, Load, Var, const
from ansorc.ir.substitute import free_vars, substitute
from ansorc.lang.access import has_data_reuse
from ansorc.lang.compute_op import Combiner
from ansorc.lang.gradient.gather import Share, leaves_tensor
from ansorc.lang.gradient.stages import Stages
from ansorc.lang.gradient.terms import (
    add,
    convert,
    factors_of,
    is_number,
    product_of,
    times,
    under,
    zero,
)
from ansorc.lang.hints import Hints
from ansorc.lang.tensor import Tensor

_Sum = tuple[Share, Expr]
"""Sums, as a share whose value is 0, and a factor of them."""


def accumulate(
    tensor: Tensor, shares: Sequence[Share], stages: Stages, seed: Tensor | Const | None
) -> Tensor | Const:
    """Return the sum of `shares` (and of `seed`) for each element of `tensor`.

    It is computed in float32 for floats of 16 bits. It is a number if it is the same for all.
    """
    kind = FLOAT32 if tensor.dtype.bits <= 16 else tensor.dtype
    names = _names(tensor)
    parts, sums = list[Expr](), list[tuple[_Sum, Expr]]()
    for share in shares:
        value = convert(share.value, kind)
        if not share.free:
            parts.append(under(share.guards, value))
        else:
            _add_sum(sums, share, value, kind)
    if seed is not None:
        here = tuple(Var(name) for name in names)
        element = seed if isinstance(seed, Const) else Load(stages.buffer(seed), here)
        parts.append(convert(element, kind))
    if len(sums) == 1 and not parts and tensor.dtype == kind:
        (share, factor), value = sums[0]
        if not share.places.strides and is_number(factor, 1):
            return _stage(tensor, share, value, stages, _GRAD)
    summed = [_sum(tensor, key, value, stages) for key, value in sums]
    total = convert(reduce(add, (*parts, *summed), zero(kind)), tensor.dtype)
    if isinstance(total, Const):
        return total
    return stages.compute(tensor, total, _GRAD, _hints(tensor, total))


_GRAD = "gradient"


def _hints(tensor: Tensor, total: Expr) -> Hints:
    """Return that the derivative is stored, if the sums of a product will read it many times."""
    op = tensor.definition
    is_product = op is not None and op.combiner is Combiner.SUM and has_data_reuse(op)
    is_copy = isinstance(total, Load)
    return {"never_compute_inline": "1"} if is_product and not is_copy else {}


def _names(tensor: Tensor) -> list[str]:
    op = tensor.definition
    return [f"i{d}" for d in range(len(tensor.shape))] if op is None else [a.name for a in op.axes]


def _add_sum(sums: list[tuple[_Sum, Expr]], share: Share, value: Expr, kind: DType) -> None:
    """Add a share to the sums; one over the same axes, with the same factor, is joined with it."""
    free = {name for name, _ in (*share.free, *share.scattered)}
    ranges = {n: (0, extent - 1) for n, extent in share.places.elements.items()}
    outer, inner = list[tuple[Expr, bool]](), list[tuple[Expr, bool]]()
    for factor in factors_of(value):
        is_outer = not free & free_vars(factor[0]) and not leaves_tensor((factor[0],), ranges)
        (outer if is_outer else inner).append(factor)
    key = replace(share, value=zero(kind)), product_of(outer, kind)
    term = product_of(inner, kind)
    for number, (other, before) in enumerate(sums):
        if other == key:
            sums[number] = key, add(before, term)
            return
    sums.append((key, term))


def _sum(tensor: Tensor, key: _Sum, value: Expr, stages: Stages) -> Expr:
    """Return a sum, a stage, times its factor, for an element of `tensor`."""
    share, factor = key
    places = share.places
    if isinstance(value, Const) and not share.guards and not share.scattered:
        count = const(value.value * prod(extent for _, extent in share.free), value.dtype)
        return substitute(times(factor, count), places.positions)
    suffix = f"{_GRAD}.phases" if places.strides else f"{_GRAD}.sum"
    stage = _stage(tensor, share, value, stages, suffix)
    element: Expr = Load(stages.buffer(stage), tuple(Var(name) for name in places.elements))
    return substitute(times(factor, element), places.positions)


def _stage(tensor: Tensor, share: Share, value: Expr, stages: Stages, suffix: str) -> Tensor:
    """Return the stage of the sums of `value`."""
    term, free = under(share.guards, value), dict(share.free)
    if share.scattered:
        places = dict(share.scattered)
        return stages.scatter(share.places.elements, term, (free, places), (tensor, suffix))
    return stages.define(share.places.elements, term, free, (tensor, suffix))
