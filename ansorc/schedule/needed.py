"""Which iterations of a stage matter: not results that no reader takes, nor terms that are 0.

    seen[i, m] = scores[i, m] if m <= i else -inf           scores matters where m - i <= 0
    power[i, m] = exp(…) if m <= i else 0
    mix[i, d] = sum(power[i, m] * values[m, d], axis=m)     mix matters where m - i <= 0

A causal mask leaves out half of the products so. As with padding, 0 times anything counts as 0.
What is compared may be data, such as how long a sequence is: m < lengths[b].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.ir.arith.affine import Linear, affine
from ansorc.ir.arith.scalar import conjuncts
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Select,
    Var,
    const,
)
from ansorc.ir.node import Node, children
from ansorc.ir.substitute import free_vars, substitute
from ansorc.lang.compute_op import Combiner
from ansorc.schedule.stage import Stage
from ansorc.schedule.state import State

_ORDER = {CompareOp.LE: (1, 0), CompareOp.LT: (1, 1), CompareOp.GE: (-1, 0), CompareOp.GT: (-1, 1)}
LEAST_SHARE = 0.25
"""Of the range of such a sum, above 0: padding leaves out less, and would cost tests."""


@dataclass(frozen=True)
class Need:
    """What holds in each iteration that matters: a sum of axes is at most `most`."""

    total: Linear[str]
    most: Expr
    """0, or what inputs say of axes."""


def needed(state: State, stage: Stage) -> tuple[Need, ...]:
    """Return what holds in each iteration of `stage` that matters; nothing if most of them do."""
    extents = {axis.name: axis.extent for axis in (*stage.op.axes, *stage.op.reduce_axes)}
    is_sum = stage.op.combiner is Combiner.SUM
    of_terms = _where_not_zero(state, stage.op.body) if is_sum else ()
    conditions = dict.fromkeys((*of_terms, *_where_taken(state, stage)))
    found: list[Need] = []
    for need in (need for need in map(_need, conditions) if need is not None):
        moved = [factor * (extents[axis] - 1) for axis, factor in need.total.terms.items()]
        most = need.total.constant + sum(each for each in moved if each > 0)
        if need.most != const(0):
            found += [need] if _is_of_inputs(state, need.most) else []
        elif most >= LEAST_SHARE * sum(map(abs, moved)) > 0:
            found.append(need)
    return tuple(found)


def _where_not_zero(state: State, term: Expr) -> Iterator[Expr]:
    """Conditions that hold wherever a term is not 0."""
    match term:
        case Binary(BinaryOp.MUL, left, right):
            yield from _where_not_zero(state, left)
            yield from _where_not_zero(state, right)
        case Select(condition, _, Const(value)) if value == 0:
            yield from conjuncts(condition)
        case Load(buffer, indices):
            source = state.source(buffer.name)
            if source is not None and not source.op.reduce_axes and not source.op.more:
                axes = (axis.name for axis in source.op.axes)
                places = dict(zip(axes, indices, strict=True))
                found = _where_not_zero(state, source.op.body)
                yield from (substitute(condition, places) for condition in found)
        case _:
            pass


def _where_taken(state: State, stage: Stage) -> list[Expr]:
    """Conditions that hold wherever a reader takes a result, and its reader takes what it makes."""
    taken: list[list[Expr]] = []
    for reader in () if stage.is_output else state.readers(stage.name):
        further = tuple(_where_taken(state, reader))
        for body in reader.op.parts:
            for load, conditions in _loads(body, stage, further):
                pairs = zip(stage.op.axes, load.indices, strict=True)
                own = {i.name: Var(axis.name) for axis, i in pairs if isinstance(i, Var)}
                fitting = (each for each in conditions if free_vars(each) <= own.keys())
                taken.append([substitute(condition, own) for condition in fitting])
    if not taken:
        return []
    return [condition for condition in taken[0] if all(condition in each for each in taken)]


def _loads(
    node: Node, stage: Stage, held: tuple[Expr, ...]
) -> Iterator[tuple[Load, tuple[Expr, ...]]]:
    """The loads of what `stage` computes, and the conditions under which they happen."""
    if isinstance(node, Load) and node.buffer in stage.op.buffers:
        yield node, held
    for place, child in enumerate(children(node)):
        more = conjuncts(node.condition) if isinstance(node, Select) and place == 1 else ()
        yield from _loads(child, stage, (*held, *more))


def _need(condition: Expr) -> Need | None:
    """A comparison as a sum that is at most 0, or at most what data says."""
    if not isinstance(condition, Compare) or condition.op not in _ORDER:
        return None
    left, right = affine(condition.left), affine(condition.right)
    sign, more = _ORDER[condition.op]
    if left is not None and right is not None:
        return Need(left.plus(right, -1).times(sign).shifted(more), const(0))
    less, greater = (left, condition.right) if sign > 0 else (right, condition.left)
    return None if less is None else Need(less.shifted(more), greater)


def _is_of_inputs(state: State, expr: Expr) -> bool:
    """Whether an expression is an element of an input, which lies where the caller has it."""
    match expr:
        case Cast(_, Load() as load) | (Load() as load):
            is_input = state.source(load.buffer.name) is None
            return is_input and not load.buffer.constant
        case _:
            return False
