"""Find the iterations of a stage that matter: results that a reader uses, terms that are not 0.

    seen[i, m] = scores[i, m] if m <= i else -inf           scores matters where m - i <= 0
    power[i, m] = exp(…) if m <= i else 0
    mix[i, d] = sum(power[i, m] * values[m, d], axis=m)     mix matters where m - i <= 0

So a causal mask skips half of the products. As with padding, 0 times anything counts as 0.
A bound may be data, such as the length of a sequence: m < lengths[b].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

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
from ansorc.schedule.stage import Part, Stage
from ansorc.schedule.state import State
from ansorc.schedule.values import as_int, plus

_ORDER = {CompareOp.LE: (1, 0), CompareOp.LT: (1, 1), CompareOp.GE: (-1, 0), CompareOp.GT: (-1, 1)}
MOST_LIMITS = 8
"""The most elements that one test reads: a tile spans no more sequences."""
LEAST_SHARE = 0.25
"""The least share of iterations that a test must skip: padding skips less and is not tested."""


@dataclass(frozen=True)
class Need:
    """A condition of each iteration that matters: a sum of axes is at most `most`."""

    total: Linear[str]
    most: Expr
    """0, or an element of an input."""


def find_needs(state: State, stage: Stage) -> tuple[Need, ...]:
    """Return the conditions of iterations of `stage` that matter; none if most iterations do."""
    extents = {axis.name: axis.extent for axis in (*stage.op.axes, *stage.op.reduce_axes)}
    is_sum = stage.op.combiner is Combiner.SUM
    of_terms = _where_not_zero(state, stage.op.body) if is_sum else ()
    conditions = dict.fromkeys((*of_terms, *_where_taken(state, stage, {})))
    needs: list[Need] = []
    for need in (need for need in map(_need, conditions) if need is not None):
        if not need.total.terms.keys() <= extents.keys():
            continue  # it follows a size that the caller gives
        moved = [factor * (extents[axis] - 1) for axis, factor in need.total.terms.items()]
        most = need.total.constant + sum(each for each in moved if each > 0)
        if need.most != const(0):
            needs += [need] if _is_of_inputs(state, need.most) else []
        elif most >= LEAST_SHARE * sum(map(abs, moved)) > 0:
            needs.append(need)
    return tuple(needs)


def find_limits(most: Expr, values: Mapping[str, Expr], inner: Sequence[Part]) -> list[Expr]:
    """Return the values of `most` in the iterations of `inner`; none if they are too many."""
    moving = [part for part in inner if part.axis in free_vars(most)]
    if prod(as_int(part.extent) for part in moving) > MOST_LIMITS:
        return []
    limits: list[Expr] = []
    for offsets in product(*(range(as_int(part.extent)) for part in moving)):
        moved = dict(values)
        for part, n in zip(moving, offsets, strict=True):
            moved[part.axis] = plus(moved[part.axis], const(n * as_int(part.stride)))
        limits.append(substitute(most, moved))
    return limits


def _where_not_zero(state: State, term: Expr) -> Iterator[Expr]:
    """Yield conditions that hold wherever `term` is not 0."""
    match term:
        case Binary(BinaryOp.MUL, left, right):
            yield from _where_not_zero(state, left)
            yield from _where_not_zero(state, right)
        case Select(condition, _, Const(value)) if value == 0:
            yield from conjuncts(condition)
        case Load(buffer, indices):
            source = state.source(buffer.name)
            op = None if source is None else source.op
            if op is not None and not (op.reduce_axes or op.more or op.overwrites):
                axes = (axis.name for axis in op.axes)
                places = dict(zip(axes, indices, strict=True))
                conditions = _where_not_zero(state, op.body)
                yield from (substitute(condition, places) for condition in conditions)
        case _:
            pass


def _where_taken(state: State, stage: Stage, known: dict[str, list[Expr]]) -> list[Expr]:
    """Return conditions that hold wherever a result of `stage` is used, directly or indirectly.

    `known` caches the conditions of stages, since paths of readers meet again.
    """
    if stage.name in known:
        return known[stage.name]
    taken: list[list[Expr]] = []
    for reader in () if stage.is_output else state.readers(stage.name):
        further = tuple(_where_taken(state, reader, known))
        for expr in reader.op.expressions:
            for load, conditions in _loads(expr, stage, further):
                pairs = zip(stage.op.axes, load.indices, strict=True)
                axes_of = {i.name: Var(axis.name) for axis, i in pairs if isinstance(i, Var)}
                fitting = (each for each in conditions if free_vars(each) <= axes_of.keys())
                taken.append([substitute(condition, axes_of) for condition in fitting])
    first = taken[0] if taken else []
    common = [condition for condition in first if all(condition in each for each in taken)]
    known[stage.name] = common
    return common


def _loads(
    node: Node, stage: Stage, held: tuple[Expr, ...]
) -> Iterator[tuple[Load, tuple[Expr, ...]]]:
    """Yield the loads of the result of `stage`, and the conditions under which they happen."""
    if isinstance(node, Load) and node.buffer in stage.op.buffers:
        yield node, held
    for position, child in enumerate(children(node)):
        more = conjuncts(node.condition) if isinstance(node, Select) and position == 1 else ()
        yield from _loads(child, stage, (*held, *more))


def _need(condition: Expr) -> Need | None:
    """Return a comparison as a sum that is at most 0 or at most an element; None if it is not."""
    if not isinstance(condition, Compare) or condition.op not in _ORDER:
        return None
    left, right = affine(condition.left), affine(condition.right)
    sign, more = _ORDER[condition.op]
    if left is not None and right is not None:
        return Need(left.plus(right, -1).times(sign).offset_by(more), const(0))
    less, greater = (left, condition.right) if sign > 0 else (right, condition.left)
    return None if less is None else Need(less.offset_by(more), greater)


def _is_of_inputs(state: State, expr: Expr) -> bool:
    """Return whether `expr` is an element of an input that is not packed."""
    match expr:
        case Cast(_, Load() as load) | (Load() as load):
            is_input = state.source(load.buffer.name) is None
            return is_input and not load.buffer.constant
        case _:
            return False
