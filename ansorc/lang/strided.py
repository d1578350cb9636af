"""Read a tensor at linear indices without copying it: what a NumPy programmer would write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ansorc.ir.aligned import Array
from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Var

Linear: TypeAlias = dict[str, int]
"""Factors of the variables; the constant has the name ""."""


def strided_view(tensor: Array, indices: Sequence[Expr], axes: Mapping[str, Array]) -> Array | None:
    """Return `tensor[indices]` for all values of `axes` as a view, extent 1 where nothing varies.

    Axis number d runs over consecutive values along dimension d. None unless all indices are sums
    of multiples of axes and lie inside the tensor.
    """
    start: list[slice] = []
    strides = dict.fromkeys(axes, 0)
    for index, extent, stride in zip(indices, tensor.shape, tensor.strides, strict=True):
        linear = linear_form(index)
        if linear is None:
            return None
        first = linear.pop("", 0) + sum(f * int(axes[name].flat[0]) for name, f in linear.items())
        reach = [factor * (axes[name].size - 1) for name, factor in linear.items()]
        low = first + sum(step for step in reach if step < 0)
        high = first + sum(step for step in reach if step > 0)
        if low < 0 or high >= extent:
            return None
        start.append(slice(first, first + 1))
        for name, factor in linear.items():
            strides[name] += factor * stride
    shape = [axes[name].size if step else 1 for name, step in strides.items()]
    corner = tensor[tuple(start)]
    return as_strided(corner, shape, tuple(strides.values()), writeable=False)


def linear_form(expr: Expr) -> Linear | None:
    """Return `expr` as a sum of multiples of variables, or None if it is none."""
    match expr:
        case Const(value) if isinstance(value, int | np.integer):
            return {"": int(value)}
        case Var(name):
            return {name: 1}
        case Binary(BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MUL as op, left, right):
            one, other = linear_form(left), linear_form(right)
            return None if one is None or other is None else _combined(op, one, other)
        case _:
            return None


def _combined(op: BinaryOp, one: Linear, other: Linear) -> Linear | None:
    if op is not BinaryOp.MUL:
        sign = 1 if op is BinaryOp.ADD else -1
        return {n: one.get(n, 0) + sign * other.get(n, 0) for n in {**one, **other}}
    if set(one) - {""}:
        one, other = other, one
    if set(one) - {""}:
        return None
    return {name: factor * one.get("", 0) for name, factor in other.items()}
