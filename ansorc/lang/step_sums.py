"""Evaluate the reductions in the steps of a scan by NumPy, and bound their rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ansorc.ir.aligned import Array
from ansorc.ir.expr import Binary, BinaryOp, Expr
from ansorc.lang.compute_op import Combiner, ComputeOp, StepSum
from ansorc.lang.contract import contract
from ansorc.lang.grid import Grid

_UFUNCS: Mapping[Combiner, np.ufunc] = {
    Combiner.SUM: np.add,
    Combiner.PROD: np.multiply,
    Combiner.MAX: np.maximum,
    Combiner.MIN: np.minimum,
    Combiner.ANY: np.logical_or,
    Combiner.ALL: np.logical_and,
}
WithBound: TypeAlias = "tuple[Array, Array | None]"
"""Values, and bounds of their errors."""


def evaluate_sums(op: ComputeOp, grid: Grid) -> dict[str, Array]:
    """Return the reductions in the step of `op` at the places of `grid`, by name."""
    held: dict[str, Array] = {}
    for each in op.step_sums:
        inner = _inner_grid(each, grid)
        factors = [inner.evaluate(factor) for factor in _factors_of(each)]
        held[each.buffer.name] = _combine(each, factors, inner, grid)
    return held


def bound_sums(
    op: ComputeOp, grid: Grid, evaluate: Callable[[Grid, Expr], WithBound], many: float
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the reductions in the step of `op`, and bounds of their errors, by name.

    Exact ones have no bound.
    `evaluate` returns the values of an expression with bounds; sums of n terms are rounded by
    sqrt(n) / `many` units in the last place of their magnitudes, at most.
    """
    held: dict[str, Array] = {}
    bounds: dict[str, Array] = {}
    for each in op.step_sums:
        inner, name = _inner_grid(each, grid), each.buffer.name
        pairs = [evaluate(inner, factor) for factor in _factors_of(each)]
        values = [value for value, _ in pairs]
        held[name] = _combine(each, values, inner, grid)
        if each.combiner not in (Combiner.SUM, Combiner.PROD):
            if (error := pairs[0][1]) is not None:
                error = error.reshape(*[1] * (inner.rank - error.ndim), *error.shape)
                bounds[name] = np.max(error, axis=tuple(range(grid.rank, inner.rank)), initial=0.0)
            continue
        sizes = [np.abs(value.astype(np.float64)) for value in values]
        wider = [
            size if bound is None else size + bound
            for size, (_, bound) in zip(sizes, pairs, strict=True)
        ]
        most = _combine(each, wider, inner, grid)
        moved = most - _combine(each, sizes, inner, grid)
        if each.buffer.dtype.is_float:
            count = math.prod(axis.extent for axis in each.axes)
            rounded = each.buffer.dtype.epsilon * max(1.0, math.sqrt(count) / many)
            moved = moved + rounded * most
        bounds[name] = moved
    return held, bounds


def _inner_grid(each: StepSum, grid: Grid) -> Grid:
    """Return the grid of all terms of the places of `grid`."""
    rank = grid.rank + len(each.axes)
    axes = {
        name: values.reshape(*values.shape, *[1] * len(each.axes))
        for name, values in grid.axes.items()
    }
    for number, axis in enumerate(each.axes):
        shape = [1] * rank
        shape[grid.rank + number] = -1
        along: Array = np.arange(axis.extent, dtype=np.int64)
        axes[axis.name] = along.reshape(shape)
    return Grid(axes, grid.tensors, grid.floats, grid.op_name, rank)


def _factors_of(each: StepSum) -> list[Expr]:
    """Return the factors of the terms of a sum; of another reduction the term."""
    factors = [each.body]
    if each.combiner is not Combiner.SUM or not each.buffer.dtype.is_float:
        return factors
    while isinstance(first := factors[0], Binary) and first.op is BinaryOp.MUL:
        factors[:1] = [first.left, first.right]
    return factors


def _combine(each: StepSum, factors: Sequence[Array], inner: Grid, grid: Grid) -> Array:
    """Return the terms, products of `factors`, combined at each place of `grid`."""
    names = {axis.name for axis in each.axes}
    outer = [1] * grid.rank
    for name, values in grid.axes.items():
        if name not in names:
            outer = [max(pair) for pair in zip(outer, values.shape, strict=True)]
    shape = [*outer, *(axis.extent for axis in each.axes)]
    kind = factors[0].dtype
    full = [np.broadcast_to(f, f.shape if f.ndim == inner.rank else shape) for f in factors]
    if len(full) > 1 or (each.combiner is Combiner.SUM and kind.kind == "f"):
        wide = [factor.astype(np.float64, copy=False) for factor in full]
        return contract(wide, shape, grid.rank).astype(kind, copy=False)
    along = tuple(range(grid.rank, inner.rank))
    terms = np.broadcast_to(full[0], [*full[0].shape[: grid.rank], *shape[grid.rank :]])
    return _reduce(_UFUNCS[each.combiner], terms, along)


def _reduce(ufunc: np.ufunc, terms: Array, along: tuple[int, ...]) -> Array:
    kind = None if terms.dtype.kind == "b" else terms.dtype
    return ufunc.reduce(terms, axis=along, dtype=kind)
