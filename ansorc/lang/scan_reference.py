"""Evaluate scans by NumPy: step by step, or at once where the step is associative."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ansorc.ir.aligned import Array
from ansorc.ir.expr import Expr
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp
from ansorc.lang.grid import FloatType, Grid
from ansorc.lang.scan_form import accumulation_of, linear_of
from ansorc.lang.step_sums import evaluate_sums

UFUNCS: dict[Combiner, np.ufunc] = {
    Combiner.SUM: np.add,
    Combiner.PROD: np.multiply,
    Combiner.MAX: np.maximum,
    Combiner.MIN: np.minimum,
    Combiner.ANY: np.logical_or,
    Combiner.ALL: np.logical_and,
}


def evaluate_scan(op: ComputeOp, tensors: Mapping[str, Array], floats: FloatType) -> list[Array]:
    """Return the results of a scan for the `tensors` that it reads; see `reference.evaluate`."""
    form, linear = accumulation_of(op), linear_of(op)
    is_float = op.buffer.dtype.is_float
    wide: FloatType = np.dtype(np.float64) if floats is None and is_float else floats
    if form is not None:
        term, init = whole(op, tensors, floats, form.term), whole(op, tensors, floats, op.inits[0])
        if wide is not None and is_float:
            term, init = term.astype(wide, copy=False), init.astype(wide, copy=False)
        result = accumulate(op, UFUNCS[form.combiner], term, init)
    elif linear is not None:
        parts = (linear.factor, linear.term, op.inits[0])
        factor, term, init = (whole(op, tensors, floats, part) for part in parts)
        result = solve_linear(op, factor, term, init)
    else:
        return evaluate_steps(op, lambda t, own: _values(op, tensors, floats, t, own), floats)
    kind = op.buffer.dtype.numpy if floats is None or not is_float else floats
    return [result.astype(kind, copy=False)]


def evaluate_steps(
    op: ComputeOp,
    values: Callable[[int, list[Array]], list[Array]],
    floats: FloatType,
) -> list[Array]:
    """Return the results of a scan; `values(t, results)` gives those of the step at t."""
    results = [
        np.zeros(b.shape, b.dtype.numpy if floats is None or not b.dtype.is_float else floats)
        for b in op.buffers
    ]
    along = along_of(op)
    for step in steps_of(op):
        place = (slice(None),) * along + (slice(step, step + 1),)
        for result, value in zip(results, values(step, results), strict=True):
            result[place] = value
    return results


def steps_of(op: ComputeOp) -> range:
    """Return the places along the axis of a scan in the order of its steps."""
    assert op.scan is not None
    extent = op.axes[along_of(op)].extent
    return range(extent - 1, -1, -1) if op.scan.is_reversed else range(extent)


def along_of(op: ComputeOp) -> int:
    """Return the number of the axis of a scan."""
    return next(number for number, axis in enumerate(op.axes) if axis.name == op.scan_axis)


def step_grid(op: ComputeOp, tensors: Mapping[str, Array], floats: FloatType, step: int) -> Grid:
    """Return the grid of all places of the step at `step`."""
    starts = [step if axis.name == op.scan_axis else 0 for axis in op.axes]
    stops = [step + 1 if axis.name == op.scan_axis else axis.extent for axis in op.axes]
    return Grid(_axes(op.axes, starts, stops), tensors, floats, op.name, len(op.axes))


def whole(op: ComputeOp, tensors: Mapping[str, Array], floats: FloatType, expr: Expr) -> Array:
    """Return the values of `expr`, which reads no state, along all axes of a scan."""
    stops = [axis.extent for axis in op.axes]
    axes = _axes(op.axes, [0] * len(stops), stops)
    return Grid(axes, tensors, floats, op.name, len(stops)).evaluate(expr)


def accumulate(op: ComputeOp, ufunc: np.ufunc, term: Array, init: Array) -> Array:
    """Return `init` and the terms up to each step combined by `ufunc`."""
    terms, first = _in_order(op, term), _first(op, init)
    begun = np.concatenate((first.astype(terms.dtype, copy=False), terms), axis=-1)
    combined = ufunc.accumulate(begun, axis=-1, dtype=terms.dtype)
    return _from_order(op, combined[..., 1:])


def solve_linear(op: ComputeOp, factor: Array, term: Array, init: Array) -> Array:
    """Return `s[t] = factor[t] * s[t - 1] + term[t]` with `init` in front, in the steps' order.

    Blocks of about sqrt(n) steps are evaluated beside each other, then joined.
    """
    factors, terms = _in_order(op, factor), _in_order(op, term)
    outer, steps = terms.shape[:-1], terms.shape[-1]
    length = max(1, math.isqrt(steps))
    blocks = -(-steps // length)
    padding = [(0, 0)] * len(outer) + [(0, blocks * length - steps)]
    gains = np.pad(factors, padding).reshape(*outer, blocks, length).copy()
    local = np.pad(terms, padding).reshape(*outer, blocks, length).copy()
    for step in range(1, length):
        local[..., step] += gains[..., step] * local[..., step - 1]
        gains[..., step] *= gains[..., step - 1]
    state = _first(op, init)[..., 0]
    for block in range(blocks):
        local[..., block, :] += gains[..., block, :] * state[..., None]
        state = local[..., block, -1]
    return _from_order(op, local.reshape(*outer, blocks * length)[..., :steps])


def _values(
    op: ComputeOp, tensors: Mapping[str, Array], floats: FloatType, step: int, own: list[Array]
) -> list[Array]:
    begun = op.with_states(op.inits) if step == steps_of(op)[0] else op
    mine = {buffer.name: result for buffer, result in zip(op.buffers, own, strict=True)}
    grid = step_grid(op, {**tensors, **mine}, floats, step)
    grid = replace(grid, tensors={**grid.tensors, **evaluate_sums(begun, grid)})
    return [grid.evaluate(body) for body in begun.bodies]


def _axes(axes: tuple[Axis, ...], starts: list[int], stops: list[int]) -> dict[str, Array]:
    values: dict[str, Array] = {}
    for number, axis in enumerate(axes):
        shape = [1] * len(axes)
        shape[number] = -1
        span: Array = np.arange(starts[number], stops[number], dtype=np.int64)
        values[axis.name] = span.reshape(shape)
    return values


def _in_order(op: ComputeOp, values: Array) -> Array:
    """Return `values` at all places, the steps in their order along the last dimension."""
    full = np.broadcast_to(values, [axis.extent for axis in op.axes])
    moved = np.moveaxis(full, along_of(op), -1)
    return moved[..., ::-1] if op.scan is not None and op.scan.is_reversed else moved


def _from_order(op: ComputeOp, values: Array) -> Array:
    ordered = values[..., ::-1] if op.scan is not None and op.scan.is_reversed else values
    return np.moveaxis(ordered, -1, along_of(op))


def _first(op: ComputeOp, init: Array) -> Array:
    """Return the values in front of a scan, the last dimension of extent 1 along its steps."""
    along = along_of(op)
    shape: list[Any] = [1 if n == along else axis.extent for n, axis in enumerate(op.axes)]
    return np.moveaxis(np.broadcast_to(init, shape), along, -1)
