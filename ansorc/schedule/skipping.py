"""Skip the iterations of a stage that do not matter (`ansorc/schedule/needed.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from ansorc.ir.arith.interval import Ranges, prove
from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.expr import BinaryOp as Op
from ansorc.ir.expr import CompareOp, Expr, Load, binary, compare, const
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import is_inside
from ansorc.ir.stmt import If, Stmt
from ansorc.schedule.needed import Need, find_limits
from ansorc.schedule.placed import Placed, axis_values_of
from ansorc.schedule.stage import Part
from ansorc.schedule.values import as_int, plus, times


def where_needed(
    placed: Placed, start: int, stmt: Stmt, needs: Sequence[Need], ranges: Ranges
) -> Stmt:
    """Return `stmt`, the loops from `start` on, skipped where none of them matters."""
    inner = placed.stage.iterators[start:]
    parts = [part for iterator in inner for part in placed.stage.parts[iterator.name]]
    if not needs or not all(part.is_whole for part in parts):
        return stmt
    leaves = placed.leaves | {it.name: const(0) for it in inner}
    possible = [_possible(placed, parts, leaves, need, ranges) for need in needs]
    tests = [t for t in possible if t is not None and prove(t, ranges) is not True]
    return If(conjunction(tests), stmt) if tests else stmt


def _possible(
    placed: Placed, inner: Sequence[Part], leaves: Mapping[str, Expr], need: Need, ranges: Ranges
) -> Expr | None:
    """Return a test that holds if any iteration of the parts `inner` may matter, or None.

    The bound may be a few elements of an input; it is only read where these exist.
    """
    values = axis_values_of(placed, leaves)[0]
    total: Expr = const(0)
    for axis, factor in need.total.terms.items():
        total = plus(total, times(values[axis], factor))
    least = (min(need.total.coefficient(p.axis), 0) * as_int(p.stride) * (as_int(p.extent) - 1)
             for p in inner)  # fmt: skip
    total = plus(total, const(need.total.constant + sum(least)))
    limits = find_limits(need.most, values, [part for part in inner if part.extent != 1])
    loads = [node for limit in limits for node in walk(limit) if isinstance(node, Load)]
    is_there = all(is_inside(load.buffer, load.indices, ranges) for load in loads)
    if not limits or not is_there:
        return None
    return compare(CompareOp.LE, total, reduce(partial(binary, Op.MAX), limits))
