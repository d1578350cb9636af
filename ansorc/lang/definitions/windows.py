"""Find the sliding windows of a convolution in the body of its sum."""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.ir.arith.affine import Linear, affine
from ansorc.ir.expr import Binary, BinaryOp, Load, Var
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp


@dataclass(frozen=True)
class SlidingWindow:
    """One dimension of the data along which a window slides, one element for each result."""

    axis: Axis
    """The axis of the results."""
    tap: Axis
    """The reduce axis of the window's elements."""
    dimension: int
    """The dimension of the data; its index is `axis + gap * tap + offset`."""
    gap: int
    """Elements from one tap to the next (the dilation)."""
    offset: int
    weight_dimension: int
    """The dimension of the weight; its index is `tap`."""


@dataclass(frozen=True)
class Convolution:
    """A sum of products of data, along windows, and a weight."""

    data: Load
    weight: Load
    windows: tuple[SlidingWindow, ...]
    """Outermost first."""


def convolution_of(op: ComputeOp, taps: int) -> Convolution | None:
    """Return `op` as a convolution with windows of `taps` elements, or None.

    Only windows of stride 1 count. Windows of other lengths or strides stay ordinary reductions.
    """
    if op.combiner is not Combiner.SUM or op.more or not isinstance(op.body, Binary):
        return None
    left, right = op.body.left, op.body.right
    if op.body.op is not BinaryOp.MUL or not isinstance(left, Load) or not isinstance(right, Load):
        return None
    for data, weight in ((left, right), (right, left)):
        windows = _windows(op, data, weight, taps)
        if windows and data.buffer.name != weight.buffer.name:
            return Convolution(data, weight, windows)
    return None


def _windows(op: ComputeOp, data: Load, weight: Load, taps: int) -> tuple[SlidingWindow, ...]:
    windows_found: list[SlidingWindow] = []
    for dimension, index in enumerate(data.indices):
        form = affine(index)
        pair = None if form is None else _slid(op, form, taps)
        if form is None or pair is None:
            continue
        axis, tap = pair
        gap = form.coefficient(tap.name)
        names = {axis.name, tap.name}
        others = (*data.indices[:dimension], *data.indices[dimension + 1 :])
        places = [n for n, index in enumerate(weight.indices) if index == Var(tap.name)]
        others += tuple(index for index in weight.indices if index != Var(tap.name))
        if len(places) == 1 and not any(names & free_vars(index) for index in others):
            windows_found.append(SlidingWindow(axis, tap, dimension, gap, form.constant, places[0]))
    return tuple(windows_found)


def _slid(op: ComputeOp, form: Linear[str], taps: int) -> tuple[Axis, Axis] | None:
    """Return the axis and the tap if `form` is `axis + gap * tap + constant`, else None."""
    axes = [axis for axis in op.axes if form.coefficient(axis.name) == 1]
    reduce = [a for a in op.reduce_axes if form.coefficient(a.name) > 0 and a.extent == taps]
    if len(form.terms) != 2:
        return None
    return (axes[0], reduce[0]) if len(axes) == 1 and len(reduce) == 1 else None
