"""Skip the terms that padding adds to a reduction, such as 0 times a weight.

for rw:                                        for rw:
    Y[w] = Y[w] + (X[w + rw - 1]       ->          if w + rw >= 1:
        if w + rw >= 1 else 0) * W[rw]                 Y[w] = Y[w] + X[w + rw - 1] * W[rw]

Padding is a Select with a constant in the definition, so an absent element counts as nothing, even
where the other factor is infinite or not a number. Conditions on lanes of a vector stay: leaving
out lanes takes more instructions than adding nothing. So do those that choose a product of several
elements, or 0, in copies of unrolled loops: `if_to_select` would make of an If there that one of
the factors is 0, and the others may be infinite.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Select, Var, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.stmt import For, Function, If, LoopKind, Stmt, Store, map_substatements

LaneVars = frozenset[str]


def skip_padding(function: Function) -> Function:
    """Return `function` with reductions that skip padded elements."""
    body = _skip(function.body, frozenset(), is_copied=False)
    return function if body is function.body else replace(function, body=body)


def _skip(stmt: Stmt, lanes: LaneVars, *, is_copied: bool) -> Stmt:
    match stmt:
        case Store():
            return _guard(stmt, lanes, is_copied=is_copied)
        case For(var, _, kind):
            is_copied = kind is LoopKind.UNROLLED or (is_copied and kind is LoopKind.VECTORIZED)
            lanes = lanes | {var.name} if kind is LoopKind.VECTORIZED else lanes
        case _:
            pass
    return map_substatements(stmt, lambda part: _skip(part, lanes, is_copied=is_copied))


def _guard(store: Store, lanes: LaneVars, *, is_copied: bool) -> Stmt:
    """Return `store` under the condition that it adds something to its element."""
    value = store.value
    if not isinstance(value, Binary) or value.op not in (BinaryOp.ADD, BinaryOp.MAX, BinaryOp.MIN):
        return store
    if is_copied and any(map(_chooses_product, (value.left, value.right))):
        return store
    old = Load(store.buffer, store.indices)
    if value.left == old:
        term, conditions = present(value.right, value.op, lanes)
        changed = Binary(value.op, value.left, term)
    elif value.right == old:
        term, conditions = present(value.left, value.op, lanes)
        changed = Binary(value.op, term, value.right)
    else:
        return store
    return If(conjunction(conditions), replace(store, value=changed)) if conditions else store


def present(term: Expr, op: BinaryOp, lanes: LaneVars = frozenset()) -> tuple[Expr, list[Expr]]:
    """Return `term` without its padding, and the conditions unless which it adds nothing by `op`.

    Conditions that depend on the variables `lanes` stay in the term.
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


def _chooses_product(term: Expr) -> bool:
    """Return whether `term` is 0 or the product of different floats, all loaded from memory."""
    if not isinstance(term, Select) or not dtype_of(term).is_float:
        return False
    return len({factor for factor in _factors(term.then) if reads_memory(factor)}) > 1


def _factors(term: Expr) -> list[Expr]:
    if isinstance(term, Binary) and term.op is BinaryOp.MUL:
        return [*_factors(term.left), *_factors(term.right)]
    return [term]


def _adds_nothing(other: Const, op: BinaryOp) -> bool:
    """Return whether `x op other` is x for every x that `op` combines."""
    if op is BinaryOp.ADD:
        return other.value == 0
    sign = -1 if op is BinaryOp.MAX else 1
    if other.dtype.is_float:
        return other.value == sign * float("inf")
    limits = np.iinfo(other.dtype.element.name)
    return other.value == (limits.min if op is BinaryOp.MAX else limits.max)


def _is_scalar(condition: Expr, lanes: LaneVars) -> bool:
    """Return whether `condition` reads no memory and is the same for all lanes."""
    return dtype_of(condition).lanes == 1 and not any(
        isinstance(part, Load) or (isinstance(part, Var) and part.name in lanes)
        for part in walk(condition)
    )
