"""Move conditions out of the loops whose variable they do not use.

for i in 0..8:                            if n < 3:
    for j in 0..8:                ->          for i in 0..8:
        if n < 3 and i < 5:                       if i < 5:
            X[i, j] = 1                               for j in 0..8:
                                                          X[i, j] = 1
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.expr import Binary, BinaryOp, Expr, Load, Var, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    Function,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
)


def hoist_conditions(function: Function) -> Function:
    """Return `function` with every If as far out as its condition allows.

    Conditions on data are not moved, nor are those inside loops bound to GPU threads.
    """
    body = _hoist(function.body)
    return function if body is function.body else replace(function, body=body)


def _hoist(stmt: Stmt) -> Stmt:
    match stmt:
        case Store() | Barrier() | Prefetch() | Await() | Check() | CallC():
            return stmt
        case For():
            body = _hoist(stmt.body)
            return _lift(stmt if body is stmt.body else replace(stmt, body=body))
        case Allocate(buffer, body):
            inner = _hoist(body)
            if isinstance(inner, If) and inner.otherwise is None and _is_pure(inner.condition):
                return If(inner.condition, Allocate(buffer, inner.then))
            return stmt if inner is body else Allocate(buffer, inner)
        case If(condition, then, otherwise):
            new = _hoist(then)
            other = None if otherwise is None else _hoist(otherwise)
            unchanged = new is then and other is otherwise
            return _join(stmt if unchanged else If(condition, new, other))
        case Seq(stmts):
            return _merge(stmt, [_hoist(part) for part in stmts])
        case _:
            assert_never(stmt)


def _lift(loop: For) -> Stmt:
    """Return `loop` inside the part of its body's condition that does not use its variable."""
    body = loop.body
    if not isinstance(body, If) or loop.kind is LoopKind.BOUND:
        return loop
    if body.otherwise is not None:
        if not _is_invariant(body.condition, loop):
            return loop
        first, second = replace(loop, body=body.then), replace(loop, body=body.otherwise)
        return If(body.condition, first, second)
    parts = conjuncts(body.condition)
    outside = [part for part in parts if _is_invariant(part, loop)]
    if not outside:
        return loop
    inside = [part for part in parts if not any(part is other for other in outside)]
    rest = If(conjunction(inside), body.then) if inside else body.then
    return If(conjunction(outside), replace(loop, body=rest))


def _join(outer: If) -> If:
    """Return `if a: if b: x` as `if a and b: x`, if evaluating b is always safe."""
    inner = outer.then
    if outer.otherwise is not None or not isinstance(inner, If) or inner.otherwise is not None:
        return outer
    if not _is_pure(inner.condition):
        return outer
    return If(Binary(BinaryOp.AND, outer.condition, inner.condition), inner.then)


def _merge(seq: Seq, parts: list[Stmt]) -> Stmt:
    """Return `seq` with neighbouring statements under one condition joined."""
    result: list[Stmt] = []
    for part in parts:
        last = result[-1] if result else None
        if isinstance(last, If) and isinstance(part, If) and _is_same_test(last, part):
            then = Seq((last.then, part.then))
            result[-1] = If(last.condition, then, _either(last.otherwise, part.otherwise))
        else:
            result.append(part)
    if all(new is old for new, old in zip(result, seq.stmts, strict=False)):
        return seq if len(result) == len(seq.stmts) else Seq(tuple(result))
    return result[0] if len(result) == 1 else Seq(tuple(result))


def _is_same_test(first: If, second: If) -> bool:
    return first.condition == second.condition and _is_pure(first.condition)


def _either(first: Stmt | None, second: Stmt | None) -> Stmt | None:
    if first is None or second is None:
        return first or second
    return Seq((first, second))


def _is_invariant(condition: Expr, loop: For) -> bool:
    names = {part.name for part in walk(condition) if isinstance(part, Var)}
    return loop.var.name not in names and _is_pure(condition)


def _is_pure(condition: Expr) -> bool:
    """Return whether `condition` reads no memory, so that it can be evaluated anywhere.

    A mask of lanes is not pure either, since it belongs to its store.
    """
    return dtype_of(condition).lanes == 1 and not any(
        isinstance(part, Load) for part in walk(condition)
    )
