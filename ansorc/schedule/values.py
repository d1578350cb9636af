"""Express the axes of a stage by its loop variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansorc.ir.expr import Binary, CompareOp, Const, Expr, compare, const
from ansorc.ir.expr import BinaryOp as Op
from ansorc.ir.size_expr import size_expr
from ansorc.schedule.extent import Extent
from ansorc.schedule.stage import AxisKind, FuseRelation, SplitRelation, Stage


@dataclass(frozen=True)
class SplitPredicate:
    """A condition that skips iterations beyond the end, after a split that does not divide."""

    condition: Expr
    kind: AxisKind


def iterator_values(
    stage: Stage, leaves: Mapping[str, Expr]
) -> tuple[dict[str, Expr], list[SplitPredicate]]:
    """Return the value of every iterator that `stage` ever had, and the guards of its splits.

    `leaves` gives the values of its current iterators. Its first iterators have the names of its
    axes. All extents must be known numbers.
    """
    values = dict(leaves)
    guards: list[SplitPredicate] = []
    for relation in reversed(stage.relations):
        if isinstance(relation, SplitRelation):
            value = _join(relation, values)
            values[relation.parent.name] = value
            if not relation.is_exact:
                limit = size_expr(relation.parent.length)
                condition = compare(CompareOp.LT, value, limit)
                guards.append(SplitPredicate(condition, relation.parent.kind))
        else:
            values |= _split(relation, values[relation.child.name])
    return values, guards


def as_int(extent: Extent) -> int:
    """Return `extent` as a number; raise ValueError for a hole or a population."""
    if not isinstance(extent, int):
        raise ValueError("the state is a sketch or a population, not one program")
    return extent


def plus(left: Expr, right: Expr) -> Expr:
    """Return `left + right` without adding a literal 0."""
    if isinstance(left, Const) and left.value == 0:
        return right
    if isinstance(right, Const) and right.value == 0:
        return left
    return Binary(Op.ADD, left, right)


def times(left: Expr, factor: int) -> Expr:
    """Return `left * factor`, folded where one is a literal 0 or 1."""
    if factor == 1 or (isinstance(left, Const) and left.value == 0):
        return left
    return Binary(Op.MUL, left, const(factor))


def quotient(left: Expr, divisor: int) -> Expr:
    """Return `left // divisor`, folded where the divisor is 1 or `left` is 0."""
    if divisor == 1 or (isinstance(left, Const) and left.value == 0):
        return left
    return Binary(Op.FLOORDIV, left, const(divisor))


def _join(relation: SplitRelation, values: Mapping[str, Expr]) -> Expr:
    total: Expr = const(0)
    stride = 1
    for child in reversed(relation.children):
        total = plus(times(values[child.name], stride), total)
        stride *= as_int(child.extent)
    return total


def _split(relation: FuseRelation, value: Expr) -> dict[str, Expr]:
    parted: dict[str, Expr] = {}
    for parent in reversed(relation.parents[1:]):
        extent = size_expr(parent.length)
        parted[parent.name] = Binary(Op.MOD, value, extent)
        value = Binary(Op.FLOORDIV, value, extent)
    parted[relation.parents[0].name] = value
    return parted
