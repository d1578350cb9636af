"""Refuse definitions that read outside of a tensor, where that can be known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ansorc.errors import LanguageError
from ansorc.ir.arith.affine import affine
from ansorc.ir.arith.interval import Interval, bounds
from ansorc.ir.expr import Expr, Load, Select
from ansorc.ir.node import Node, children
from ansorc.ir.printer import expr_text
from ansorc.lang.compute_op import ComputeOp


def check_reads_in_range(op: ComputeOp) -> None:
    """Raise LanguageError for an index that leaves its tensor for some values of the axes.

    Affine indices are decided exactly, others only if all their values lie outside. Reads in an
    arm of `if_then_else` are the business of its condition.
    """
    ranges = {axis.name: (0, axis.extent - 1) for axis in (*op.axes, *op.reduce_axes)}
    for load in _unguarded(op.body):
        for place, index in enumerate(load.indices):
            _check(op, load, place, index, ranges)


def _unguarded(root: Node) -> Iterator[Load]:
    stack: list[Node] = [root]
    while stack:
        top = stack.pop()
        if isinstance(top, Load):
            yield top
        stack.extend([top.condition] if isinstance(top, Select) else children(top))


def _check(
    op: ComputeOp, load: Load, place: int, index: Expr, ranges: Mapping[str, Interval]
) -> None:
    found = bounds(index, ranges)
    if found is None:
        return
    low, high = found
    extent = load.buffer.shape[place]
    is_outside = high < 0 or low >= extent
    if is_outside or (affine(index) is not None and (low < 0 or high >= extent)):
        text, name = expr_text(index), load.buffer.name
        raise LanguageError(
            f"'{op.name}' reads '{name}' outside of it: index {place} is {text}, which runs over "
            f"{low}..{high}{_axes_text(index, ranges)}, but '{name}' has extent {extent} there; "
            "make the tensor larger, or guard the read by if_then_else"
        )


def _axes_text(index: Expr, ranges: Mapping[str, Interval]) -> str:
    found = affine(index)
    names = [] if found is None else [name for name, _ in found.terms]
    listed = ", ".join(f"{name} in 0..{ranges[name][1]}" for name in names)
    return f" for {listed}" if listed else ""
