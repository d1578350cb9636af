"""Leave out what padding adds to a reduction: zero times a weight, the least number to a maximum.

for rw:                                        for rw:
    Y[w] = Y[w] + (X[w + rw - 1]       ->          if w + rw >= 1:
        if w + rw >= 1 else 0) * W[rw]                 Y[w] = Y[w] + X[w + rw - 1] * W[rw]

Padding is a Select with a constant in the definition, so an absent element counts as nothing, even
where the other factor is infinite or not a number. Conditions on lanes of a vector stay: leaving
out lanes takes more instructions than adding nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Select, Var, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.stmt import For, Function, If, LoopKind, Stmt, Store, map_substatements

LaneVars = frozenset[str]


def skip_padding(function: Function) -> Function:
    """Return `function` with reductions that skip the elements that padding stands for."""
    body = _skipped(function.body, frozenset())
    return function if body is function.body else replace(function, body=body)


def _skipped(stmt: Stmt, lanes: LaneVars) -> Stmt:
    match stmt:
        case Store():
            return _guarded(stmt, lanes)
        case For(var, _, LoopKind.VECTORIZED):
            return map_substatements(stmt, lambda part: _skipped(part, lanes | {var.name}))
        case _:
            return map_substatements(stmt, lambda part: _skipped(part, lanes))


def _guarded(store: Store, lanes: LaneVars) -> Stmt:
    """Return a store that adds something to its own element under the condition that it does."""
    value = store.value
    if not isinstance(value, Binary) or value.op not in (BinaryOp.ADD, BinaryOp.MAX, BinaryOp.MIN):
        return store
    own = Load(store.buffer, store.indices)
    if value.left == own:
        term, conditions = present(value.right, value.op, lanes)
        changed = Binary(value.op, value.left, term)
    elif value.right == own:
        term, conditions = present(value.left, value.op, lanes)
        changed = Binary(value.op, term, value.right)
    else:
        return store
    return If(conjunction(conditions), replace(store, value=changed)) if conditions else store


def present(term: Expr, op: BinaryOp, lanes: LaneVars = frozenset()) -> tuple[Expr, list[Expr]]:
    """Return `term` where it counts, and the conditions without which it adds nothing by `op`.

    Those that depend on the variables `lanes` stay in the term.
    """
    match term:
        case Select(condition, then, Const() as other) if _adds_nothing(other, op):
            parts = conjuncts(condition)
            outside = [part for part in parts if _is_scalar(part, lanes)]
            inside = [part for part in parts if not _is_scalar(part, lanes)]
            inner, more = present(then, op, lanes)
            kept = Select(conjunction(inside), inner, other) if inside else inner
            return kept, outside + more
        case Binary(BinaryOp.MUL, left, right) if op is BinaryOp.ADD:
            a, first = present(left, op, lanes)
            b, second = present(right, op, lanes)
            return (Binary(BinaryOp.MUL, a, b), first + second) if first or second else (term, [])
        case Cast(dtype, operand) if op is BinaryOp.ADD:
            inner, conditions = present(operand, op, lanes)
            return (Cast(dtype, inner), conditions) if conditions else (term, [])
        case _:
            return term, []


def _adds_nothing(other: Const, op: BinaryOp) -> bool:
    """Whether `x op other` is x for every x that `op` combines."""
    if op is BinaryOp.ADD:
        return other.value == 0
    sign = -1 if op is BinaryOp.MAX else 1
    if other.dtype.is_float:
        return other.value == sign * float("inf")
    limits = np.iinfo(other.dtype.element.name)
    return other.value == (limits.min if op is BinaryOp.MAX else limits.max)


def _is_scalar(condition: Expr, lanes: LaneVars) -> bool:
    """Whether it reads no memory, and is the same for all lanes."""
    return dtype_of(condition).lanes == 1 and not any(
        isinstance(part, Load) or (isinstance(part, Var) and part.name in lanes)
        for part in walk(condition)
    )
