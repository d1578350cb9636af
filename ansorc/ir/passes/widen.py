"""Run a statement for several values of a variable at once: scalars become vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from ansorc.ir.arith.affine import Linear, difference, integer
from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Expr, Load, Not, Ramp
from ansorc.ir.node import walk
from ansorc.ir.passes.queries import uses
from ansorc.ir.passes.widen_expr import ExprWidener, LaneRange, NotWidenableError
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
from ansorc.ir.substitute import free_vars


def widen(stmt: Stmt, lanes: LaneRange, *, may_mask: bool = False) -> Stmt:
    """Return `stmt` run once for all lanes; raise NotWidenableError if that is not possible.

    The iterations must be independent (see `independence`). With `may_mask`, diverging lanes are
    masked; else they run one by one.
    """
    return _Widener(lanes, may_mask=may_mask).stmt(stmt)


class _Widener:
    __slots__ = ("_everywhere", "_exprs", "_lanes", "_may_mask", "_where")

    def __init__(self, lanes: LaneRange, *, may_mask: bool) -> None:
        self._lanes = lanes
        self._may_mask = may_mask
        self._exprs = ExprWidener(lanes)
        self._everywhere = ExprWidener(lanes, lanes.mask)
        """For values that are computed in unused lanes, too."""
        self._where: list[Expr] = []
        """The conditions on lanes of the Ifs around."""

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Store():
                return self._store(stmt)
            case For(var, extent, _, body, _):
                if any(self._lanes.name in free_vars(bound) for bound in stmt.bounds):
                    raise NotWidenableError
                for exprs in (self._exprs, self._everywhere):
                    exprs.forget()  # what was simplified with the bounds of another loop
                self._lanes.ranges[var.name] = (0, extent - 1)
                return replace(stmt, body=self.stmt(body))
            case If():
                return self._if(stmt)
            case Seq(stmts):
                return Seq(tuple(map(self.stmt, stmts)))
            case Allocate(buffer, body):
                new = Allocate(self._own(buffer), self.stmt(body))
                self._lanes.private.pop(buffer.name, None)
                return new
            case Barrier() | Prefetch() | Await() | Check() | CallC():
                raise NotWidenableError
            case _:
                assert_never(stmt)

    def _own(self, buffer: Buffer) -> Buffer:
        """Return a buffer with an element for each lane for every element of `buffer`."""
        count = self._lanes.count
        if count == 1:
            return buffer
        wide_ = replace(buffer, name=f"{buffer.name}.x{count}", shape=(*buffer.shape, count))
        self._lanes.private[buffer.name] = (wide_, Ramp(integer(0), integer(1), count))
        return wide_

    def _store(self, store: Store) -> Stmt:
        mask = self._mask(store.buffer)
        exprs = self._everywhere if mask is None else self._exprs
        buffer, indices, is_vector = exprs.place(store.buffer, store.indices)
        value = exprs.wide(store.value)
        if not is_vector and (value[1] or self._where):
            raise NotWidenableError
        if not is_vector:
            return replace(store, buffer=buffer, indices=indices, value=value[0])
        new = replace(store, buffer=buffer, indices=indices, value=exprs.widen(value))
        return new if mask is None else If(mask, new)

    def _mask(self, buffer: Buffer) -> Expr | None:
        """Return the mask of lanes that may store to `buffer`; None if all may."""
        padding = self._lanes.mask
        if not self._where:
            return None if self._lanes.owns(buffer) else padding
        return conjunction([*([] if padding is None else [padding]), *self._where])

    def _if(self, stmt: If) -> Stmt:
        test, is_vector = self._everywhere.wide(stmt.condition)
        if not is_vector:
            otherwise = None if stmt.otherwise is None else self.stmt(stmt.otherwise)
            return If(test, self.stmt(stmt.then), otherwise)
        apart = self._mask_stores(stmt, test) if self._may_mask else None
        all_hold = [self._for_all(part) for part in conjuncts(stmt.condition)]
        known = [test for test in all_hold if test is not None]
        if len(known) != len(all_hold) or stmt.otherwise is not None:
            if apart is None:
                raise NotWidenableError
            return apart
        return If(conjunction(known), self.stmt(stmt.then), apart or self._one_by_one(stmt))

    def _mask_stores(self, stmt: If, test: Expr) -> Stmt | None:
        """Return `stmt` with masked stores; None if its stores may change its condition."""
        is_alone = isinstance(stmt.then, Store) and stmt.otherwise is None
        if not is_alone and any(isinstance(part, Load) for part in walk(test)):
            return None
        parts: list[Stmt] = []
        for condition, arm in ((test, stmt.then), (Not(test), stmt.otherwise)):
            if arm is not None:
                self._where.append(condition)
                parts.append(self.stmt(arm))
                self._where.pop()
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def _for_all(self, condition: Expr) -> Expr | None:
        """Return the scalar condition that `condition` holds for every lane."""
        test, is_vector = self._exprs.wide(condition)
        if not is_vector:
            return test
        if not isinstance(test, Compare) or not isinstance(condition, Compare):
            return None
        total = difference(condition.left, condition.right) or Linear()
        step = total.terms.pop(self._lanes.name, 0)
        if any(not isinstance(x, str) and uses(x, self._lanes.name) for x in total.terms):
            return None
        ends = {CompareOp.LT: step > 0, CompareOp.LE: step > 0}
        ends |= {CompareOp.GT: step < 0, CompareOp.GE: step < 0}
        if step == 0 or condition.op not in ends:
            return None
        last = (self._lanes.wanted or self._lanes.count) - 1 if ends[condition.op] else 0
        base = _plus(self._lanes.base, integer(last))
        worst = replace(self._lanes, base=base, count=1, wanted=0)
        return ExprWidener(worst).wide(condition)[0]

    def _one_by_one(self, stmt: Stmt) -> Stmt:
        """Return `stmt` as a loop over the lanes."""
        lane = self._lanes.lane
        private = {name: (wide_, lane) for name, (wide_, _) in self._lanes.private.items()}
        base = _plus(self._lanes.base, lane)
        single = LaneRange(self._lanes.name, base, 1, dict(self._lanes.ranges), dict(private))
        kind = LoopKind.UNROLLED if uses_registers(stmt) else LoopKind.SERIAL
        return For(lane, self._lanes.wanted or self._lanes.count, kind, widen(stmt, single))


def uses_registers(stmt: Stmt) -> bool:
    """Return whether `stmt` accesses registers, whose indices must become constants."""
    return any(
        isinstance(part, Load | Store) and part.buffer.scope is Scope.REGISTER
        for part in walk(stmt)
    )


def _plus(left: Expr, right: Expr) -> Expr:
    return Binary(BinaryOp.ADD, left, right)
