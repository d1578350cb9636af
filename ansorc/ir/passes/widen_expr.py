"""Evaluate an expression for several values of a variable at once: scalars become vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from ansorc.ir.arith.affine import Atom, Linear, integer, linear
from ansorc.ir.arith.interval import Interval
from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import BOOL
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Checked,
    Compare,
    CompareOp,
    Const,
    Dot,
    Expr,
    Load,
    MatrixLoad,
    MatrixMultiply,
    Not,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Transpose,
    Var,
    const,
)
from ansorc.ir.node import walk
from ansorc.ir.passes.queries import uses
from ansorc.ir.passes.widen_dot import widen_operand

Wide: TypeAlias = tuple[Expr, bool]
"""An expression, and whether it is a vector with an element for each lane."""


class NotWidenableError(Exception):
    """The statement cannot run in lanes; it stays a loop."""


@dataclass(slots=True)
class LaneRange:
    """The values `base … base + count - 1` of the variable `name`, one for each lane.

    With `count` 1 widening is substitution. `ranges` bounds the variables around the expression.
    If `wanted` is not 0, only the first `wanted` lanes are used.
    """

    name: str
    base: Expr
    count: int
    ranges: dict[str, Interval]
    private: dict[str, tuple[Buffer, Expr]] = field(default_factory=dict[str, tuple[Buffer, Expr]])
    """The replacement of a private buffer of each lane, and the index of the lane in it."""
    wanted: int = 0

    @property
    def lane(self) -> Var:
        """The number of a lane, if lanes are processed one after another."""
        return Var(f"{self.name}.lane")

    @property
    def mask(self) -> Expr | None:
        """The mask of used lanes; None if all are used."""
        if not self.wanted:
            return None
        lanes = Ramp(integer(0), integer(1), self.count)
        return Compare(CompareOp.LT, lanes, Broadcast(integer(self.wanted), self.count))

    def owns(self, buffer: Buffer) -> bool:
        """Return whether each lane, used or not, has its own element of `buffer`."""
        return buffer.scope is Scope.REGISTER or buffer.name in self.private


class ExprWidener:
    """Widens expressions to the given lanes; values that all lanes share stay scalar.

    With `mask`, lanes outside it load nothing and have 0 instead.
    """

    __slots__ = ("_lanes", "_mask", "_memo")

    def __init__(self, lanes: LaneRange, mask: Expr | None = None) -> None:
        self._lanes = lanes
        self._mask = mask
        self._memo: dict[int, tuple[Expr, Wide]] = {}

    def wide(self, expr: Expr) -> Wide:
        """Return `expr` for all lanes, as a scalar if it is the same for all."""
        known = self._memo.get(id(expr))
        if known is None:
            known = self._memo[id(expr)] = (expr, self._widen(expr))
        return known[1]

    def forget(self) -> None:
        """Clear the cache of widened expressions."""
        self._memo.clear()

    def widen(self, wide: Wide) -> Expr:
        """Return a vector; a scalar is repeated."""
        expr, is_vector = wide
        return expr if is_vector else Broadcast(expr, self._lanes.count)

    def place(
        self, buffer: Buffer, indices: tuple[Expr, ...]
    ) -> tuple[Buffer, tuple[Expr, ...], bool]:
        """Return the buffer and indices for `buffer[indices]`, and whether it is a vector."""
        wide = [self.wide(index) for index in indices]
        indices_ = tuple(index for index, _ in wide)
        is_vector = any(vector for _, vector in wide)
        private = self._lanes.private.get(buffer.name)
        if private is None:
            return buffer, indices_, is_vector
        buffer_, lane = private
        return buffer_, (*indices_, lane), is_vector or isinstance(lane, Ramp)

    def _widen(self, expr: Expr) -> Wide:
        match expr:
            case Const():
                return expr, False
            case Var(name, _):
                return self._variable() if name == self._lanes.name else (expr, False)
            case Binary(op, left, right):
                return self._binary(op, self.wide(left), self.wide(right))
            case Compare():
                return self._compare(expr)
            case Not(operand):
                new, is_vector = self.wide(operand)
                return Not(new), is_vector
            case Select():
                return self._select(expr)
            case Cast() | Checked():
                return self._convert(expr)
            case Call(_, args):
                new, is_vector = self._alike([self.wide(arg) for arg in args])
                return replace(expr, args=tuple(new)), is_vector
            case Dot():
                return self._dot(expr)
            case Load(buffer, indices):
                buffer_, indices_, is_vector = self.place(buffer, indices)
                load = Load(buffer_, indices_)
                if self._mask is None or not is_vector or self._lanes.owns(buffer):
                    return load, is_vector
                zero = Broadcast(const(0, buffer.dtype), self._lanes.count)
                return Select(self._mask, load, zero), True
            case Ramp() | Broadcast() | Reduce():
                raise NotWidenableError
            case Shuffle() | MatrixLoad() | MatrixMultiply() | Transpose():
                raise NotWidenableError
            case _:
                assert_never(expr)

    def _convert(self, expr: Cast | Checked) -> Wide:
        """Return a widened conversion or check; unused lanes are not checked."""
        if isinstance(expr, Cast):
            new, is_vector = self.wide(expr.operand)
            return Cast(expr.dtype, new), is_vector
        condition, is_vector = self.wide(expr.condition)
        if is_vector and self._mask is not None:
            condition = Select(
                self._mask, condition, Broadcast(const(True, BOOL), self._lanes.count)
            )
        value, details = self.wide(expr.value), [self.wide(arg) for arg in expr.args]
        if not is_vector and any(wide for _, wide in details):
            raise NotWidenableError
        args = tuple(self.widen(arg) if is_vector else arg[0] for arg in details)
        new = self.widen(value) if is_vector else value[0]
        return Checked(new, condition, expr.kind, expr.about, args), is_vector or value[1]

    def _variable(self) -> Wide:
        lanes = self._lanes
        if lanes.count == 1:
            return lanes.base, False
        return Ramp(lanes.base, integer(1), lanes.count), True

    def _alike(self, parts: Sequence[Wide]) -> tuple[list[Expr], bool]:
        """Return all parts as vectors if one of them is, else all as scalars."""
        is_vector = any(vector for _, vector in parts)
        return [self.widen(part) if is_vector else part[0] for part in parts], is_vector

    def _binary(self, op: BinaryOp, left: Wide, right: Wide) -> Wide:
        if not left[1] and not right[1]:
            return Binary(op, left[0], right[0]), False
        ramp = self._ramp(op, left[0], right[0])
        if ramp is not None:
            return ramp
        if op is BinaryOp.BIT_XOR and not right[1]:
            inner = left[0]
            if isinstance(inner, Binary) and inner.op is op and isinstance(inner.left, Broadcast):
                shared = Binary(op, inner.left.operand, right[0])  # for all lanes at once
                return Binary(op, Broadcast(shared, inner.left.lanes), inner.right), True
        (a, b), _ = self._alike([left, right])
        return Binary(op, a, b), True

    def _ramp(self, op: BinaryOp, left: Expr, right: Expr) -> Wide | None:
        """Return arithmetic on evenly spaced integers as a ramp; None if the result is not one."""
        first, second = self._steps(left), self._steps(right)
        if first is None or second is None:
            return None
        (a, s), (b, t) = first, second
        if op in (BinaryOp.ADD, BinaryOp.SUB):
            return self._stepping(Binary(op, a, b), s + t if op is BinaryOp.ADD else s - t)
        if op is BinaryOp.MUL and isinstance(b, Const) and t == 0:
            return self._stepping(Binary(op, a, b), s * int(b.value))
        if op is BinaryOp.MUL and isinstance(a, Const) and s == 0:
            return self._stepping(Binary(op, a, b), t * int(a.value))
        total = linear(self._by_lane(Binary(op, self._at(left), self._at(right))))
        if total is None:
            return None
        step = total.terms.pop(self._lanes.lane.name, 0)
        return None if self._varies(total) else self._stepping(total.to_expr(), step)

    def _compare(self, expr: Compare) -> Wide:
        left, right = self.wide(expr.left), self.wide(expr.right)
        if not left[1] and not right[1]:
            return Compare(expr.op, left[0], right[0]), False
        if self._steps(left[0]) is not None and self._steps(right[0]) is not None:
            test = self._by_lane(Compare(expr.op, self._at(left[0]), self._at(right[0])))
            if not uses(test, self._lanes.lane.name):
                return test, False
        (a, b), _ = self._alike([left, right])
        return Compare(expr.op, a, b), True

    def _select(self, expr: Select) -> Wide:
        tests = [self.wide(part) for part in conjuncts(expr.condition)]
        shared = [test for test, is_vector in tests if not is_vector]
        apart = [test for test, is_vector in tests if is_vector]
        (then, otherwise), is_vector = self._alike(
            [self.wide(expr.then), self.wide(expr.otherwise)]
        )
        if not apart:
            return Select(conjunction(shared), then, otherwise), is_vector
        if not is_vector:
            then, otherwise = self.widen((then, False)), self.widen((otherwise, False))
        if isinstance(expr.otherwise, Const):  # A branch for all lanes is cheaper than a mask.
            inner = Select(conjunction(apart), then, otherwise)
            return (Select(conjunction(shared), inner, otherwise) if shared else inner), True
        (test,), _ = self._alike([self.wide(expr.condition)])
        return Select(test, then, otherwise), True

    def _dot(self, expr: Dot) -> Wide:
        lanes = self._lanes
        parts = [part for side in (expr.left, expr.right) for part in walk(side)]
        if any(isinstance(part, Load) and part.buffer.name in lanes.private for part in parts):
            raise NotWidenableError
        (left, varies), (right, also_varies) = (
            widen_operand(side, expr.terms, lanes.name, lanes.base, lanes.count)
            for side in (expr.left, expr.right)
        )
        total = self.wide(expr.total)
        is_vector = total[1] or varies or also_varies
        sums = self.widen(total) if is_vector else total[0]
        return replace(expr, total=sums, left=left, right=right), is_vector

    def _stepping(self, base: Expr, step: int) -> Wide:
        if step == 0:
            return base, False
        return Ramp(base, integer(step), self._lanes.count), True

    def _steps(self, expr: Expr) -> tuple[Expr, int] | None:
        """Return base and step of a ramp or an int64 scalar; None for other expressions."""
        match expr:
            case Ramp(base, Const(step, _), _):
                return base, int(step)
            case _ if linear(expr) is not None:
                return expr, 0
            case _:
                return None

    def _at(self, expr: Expr) -> Expr:
        """Return the element of a ramp for the lane `LaneRange.lane`, or the scalar."""
        match expr:
            case Ramp(base, stride, _):
                return Binary(BinaryOp.ADD, base, Binary(BinaryOp.MUL, self._lanes.lane, stride))
            case _:
                return expr

    def _by_lane(self, expr: Expr) -> Expr:
        lanes = self._lanes
        return simplify(expr, {**lanes.ranges, lanes.lane.name: (0, lanes.count - 1)})

    def _varies(self, total: Linear[Atom]) -> bool:
        name = self._lanes.lane.name
        return any(not isinstance(atom, str) and uses(atom, name) for atom in total.terms)
