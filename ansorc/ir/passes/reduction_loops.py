"""Find the VECTORIZED loops that only add up terms, and bring them to one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import is_
from typing import assert_never

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.identity import identity
from ansorc.ir.arith.interval import Interval
from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.arith.simplify import Simplifier
from ansorc.ir.dtype import BOOL
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Const, Expr, Load, Select
from ansorc.ir.node import walk
from ansorc.ir.operator import REDUCTIONS
from ansorc.ir.passes.queries import reads_memory, uses
from ansorc.ir.size_expr import size_expr
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
)


@dataclass(frozen=True, slots=True)
class ReductionLoop:
    """A VECTORIZED loop with loops of one copy of `buffer[indices] = buffer[indices] op term`.

    The indices do not depend on the loop, and the term does not read the buffer.
    """

    loop: For
    store: Store
    op: BinaryOp
    term: Expr


@dataclass(frozen=True, slots=True)
class Known:
    """Facts at a statement: the bounds of variables, and the conditions around it."""

    ranges: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    conditions: tuple[Expr, ...] = ()

    def inside(self, *loops: For) -> Known:
        """Return the facts inside `loops`."""
        extents = {loop.var.name: loop.span for loop in loops}
        return replace(self, ranges={**self.ranges, **extents})

    def is_legal(self, store: Store) -> bool:
        """Return whether the indices of `store` are inside its buffer."""
        rules = Simplifier(dict(self.ranges))
        for condition in self.conditions:
            rules = rules.assuming(rules.expr(condition))
        tests = [
            Compare(op, index, limit)
            for index, extent in zip(store.indices, store.buffer.extents, strict=True)
            for op, limit in ((CompareOp.GE, integer(0)), (CompareOp.LT, size_expr(extent)))
        ]
        return all(rules.expr(test) == Const(True, BOOL) for test in tests)


def with_reductions(stmt: Stmt, reductions: dict[int, ReductionLoop], known: Known) -> Stmt:
    """Return `stmt` with its reductions in one form; add them to `reductions` by id of the loop."""
    match stmt:
        case Store() | Barrier() | Prefetch() | Await() | Check() | CallC():
            return stmt
        case For(_, _, kind, body, _):
            reduction = find_reduction(stmt, known) if kind is LoopKind.VECTORIZED else None
            if reduction is not None:
                reductions[id(reduction.loop)] = reduction
                return reduction.loop
            new = with_reductions(body, reductions, known.inside(stmt))
            return stmt if new is body else replace(stmt, body=new)
        case If(condition, then, otherwise):
            held = replace(known, conditions=(*known.conditions, condition))
            new = with_reductions(then, reductions, held)
            other = None if otherwise is None else with_reductions(otherwise, reductions, known)
            return stmt if new is then and other is otherwise else If(condition, new, other)
        case Seq(stmts):
            parts = tuple(with_reductions(part, reductions, known) for part in stmts)
            return stmt if all(map(is_, parts, stmts)) else Seq(parts)
        case Allocate(buffer, body):
            new = with_reductions(body, reductions, known)
            return stmt if new is body else Allocate(buffer, new)
        case _:
            assert_never(stmt)


def find_reduction(loop: For, known: Known) -> ReductionLoop | None:
    """Return the reduction of `loop`; None if it is not a reduction.

    A condition becomes part of the term: the term is the identity if it does not hold.
    """
    inner, guards, store = _nest(loop.body)
    if store is None or any(uses(index, loop.var.name) for index in store.indices):
        return None
    update = _update(store)
    if update is None:
        return None
    op, term = update
    if guards:
        if not known.inside(loop, *inner).is_legal(store):
            return None
        term = Select(conjunction(guards), term, identity(op, store.buffer.dtype))
    total = Load(store.buffer, store.indices)
    store = replace(store, value=Binary(op, total, term))
    body: Stmt = store
    for each in reversed(inner):
        body = replace(each, body=body)
    return ReductionLoop(replace(loop, body=body), store, op, term)


def _nest(stmt: Stmt) -> tuple[list[For], list[Expr], Store | None]:
    """Return the loops, conditions and the store of a nest; the store is None for other nests."""
    loops: list[For] = []
    guards: list[Expr] = []
    while True:
        match stmt:
            case For(_, _, LoopKind.SERIAL | LoopKind.UNROLLED, body, _):
                loops.append(stmt)
                stmt = body
            case If(condition, then, None) if not reads_memory(condition):
                guards += conjuncts(condition)
                stmt = then
            case Store():
                return loops, guards, stmt
            case _:
                return loops, guards, None


def _update(store: Store) -> tuple[BinaryOp, Expr] | None:
    """Return `op, term` of `total = total op term`, or None."""
    total = Load(store.buffer, store.indices)
    loads = [part for part in walk(store) if isinstance(part, Load)]
    if sum(load.buffer.name == store.buffer.name for load in loads) != 1:
        return None
    value = store.value
    op = value.op if isinstance(value, Binary) else None
    op = BinaryOp.ADD if op is BinaryOp.SUB else op
    term = None if op not in REDUCTIONS else _without(value, op, total)
    return None if op is None or term is None else (op, term)


def _without(value: Expr, op: BinaryOp, total: Load) -> Expr | None:
    """Return the term where `value` is `place op term`, whatever the grouping."""
    if not isinstance(value, Binary):
        return None
    minus = op is BinaryOp.ADD and value.op is BinaryOp.SUB
    if value.op is not op and not minus:
        return None
    left, right = value.left, value.right
    if left == total:
        return -right if minus else right
    if right == total and not minus:
        return left
    rest = _without(left, op, total)
    if rest is not None:
        return Binary(value.op, rest, right)
    rest = None if minus else _without(right, op, total)
    return None if rest is None else Binary(op, left, rest)
