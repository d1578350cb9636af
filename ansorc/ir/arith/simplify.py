"""Rewrite expressions and statements to simpler ones of equal value."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import lru_cache
from operator import is_ as _is
from typing import assert_never, overload

from ansorc.ir.arith import integer, scalar
from ansorc.ir.arith.affine import (
    Atom,
    Linear,
    add_atom,
    collect,
    is_index,
    leading_dtype,
    linear,
    wraps,
)
from ansorc.ir.arith.affine import integer as literal
from ansorc.ir.arith.interval import Ranges, narrow
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import BOOL, DType
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Checked,
    Compare,
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
    dtype_of,
)
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
    with_body,
    written_buffers,
)

_ADDITIVE = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL)
_DIVISIVE = (BinaryOp.FLOORDIV, BinaryOp.MOD)
_BITWISE = (BinaryOp.SHR, BinaryOp.BIT_AND)
_SHIFTED = 62
"""Of an index; its divisors are int64."""
_OF_INDICES = (*_ADDITIVE, *_DIVISIVE)


def simplify(expr: Expr, ranges: Ranges | None = None) -> Expr:
    """Return a simpler expression of equal value, for variables within `ranges`.

    `ranges` maps names to inclusive bounds. `expr` itself is returned if nothing changes.
    """
    return Simplifier(dict(ranges or {})).expr(expr)


@overload
def simplify_stmt(root: Function) -> Function: ...
@overload
def simplify_stmt(root: Stmt) -> Stmt: ...
def simplify_stmt(root: Stmt | Function) -> Stmt | Function:
    """Return `root` with every expression simplified, using loop extents and enclosing Ifs.

    Statements that never run are removed, and so are loops that run once, except loops bound to
    threads.
    """
    if not isinstance(root, Function):
        return Simplifier({}).stmt(root)
    body = Simplifier({}).stmt(root.body)
    return root if body is root.body else replace(root, body=body)


class Simplifier:
    """Simplifies expressions and statements by facts that hold at one point of a program."""

    __slots__ = ("_facts", "_memo", "_ranges")

    def __init__(self, ranges: dict[str, tuple[int, int]], facts: dict[Expr, bool] | None = None):
        self._ranges = ranges
        self._facts = facts or {}
        self._memo: dict[int, tuple[Expr, Expr]] = {}

    def assuming(self, condition: Expr, changed: Set[Buffer] = frozenset()) -> Simplifier:
        """Return a simplifier that also knows that `condition`, already simplified, holds.

        Facts that depend on the buffers `changed` are left out.
        """
        ranges, facts = dict(self._ranges), dict(self._facts)
        for part in scalar.conjuncts(condition):
            if not changed or changed.isdisjoint(_loads_of(part)):
                facts[part] = True
            if isinstance(part, Compare):
                narrow(part, ranges)
        return Simplifier(ranges, facts)

    def expr(self, expr: Expr) -> Expr:
        """Return `expr` simplified."""
        if isinstance(expr, Const):
            return expr
        if isinstance(expr, Var):
            interval = self._ranges.get(expr.name)
            return literal(interval[0]) if interval and interval[0] == interval[1] else expr
        known = self._memo.get(id(expr))
        if known is None:
            # The old expression is kept alive with its id.
            known = self._memo[id(expr)] = (expr, self._rewritten(expr))
        return known[1]

    def _rewritten(self, expr: Expr) -> Expr:
        match expr:
            case Binary(op, left, _):
                if op in _OF_INDICES and is_index(leading_dtype(left)):
                    return self._index(expr)
                return self._binary(expr)
            case Load(buffer, indices):
                new = self.exprs(indices)
                return expr if new is indices else Load(buffer, new)
            case Compare():
                return self._apply_facts(self._compare(expr))
            case Select():
                return self._select(expr)
            case Not(operand):
                new = self.expr(operand)
                simpler = scalar.negation(new)
                if simpler is not None:
                    return self.expr(simpler)
                return self._apply_facts(expr if new is operand else Not(new))
            case Cast(dtype, operand):
                return self._cast(expr, self.expr(operand), dtype.element)
            case Call() | Dot() | MatrixMultiply() | Checked():
                return self._arguments(expr)
            case Ramp(base, stride, lanes):
                first, step = self.expr(base), self.expr(stride)
                if isinstance(step, Const) and step.value == 0:
                    return Broadcast(first, lanes)
                return expr if first is base and step is stride else Ramp(first, step, lanes)
            case (
                Broadcast(operand) | Reduce(_, operand) | Shuffle(operand) | MatrixLoad(operand)
                | Transpose(operand)
            ):  # fmt: skip
                new = scalar.as_wide(self.expr(operand), operand)
                return expr if new is operand else replace(expr, operand=new)
            case Const() | Var():
                return expr
            case _:
                assert_never(expr)

    def _check_value(self, expr: Checked) -> Expr:
        value, condition, args = self.expr(expr.value), self.expr(expr.condition), expr.args
        if isinstance(condition, Const) and condition.value:
            return value
        details = self.exprs(args)
        if value is expr.value and condition is expr.condition and details is args:
            return expr
        return Checked(value, condition, expr.kind, expr.about, details)

    def _arguments(self, expr: Call | Dot | MatrixMultiply | Checked) -> Expr:
        if isinstance(expr, Checked):
            return self._check_value(expr)
        old = expr.args if isinstance(expr, Call) else (expr.total, expr.left, expr.right)
        new = self.exprs(old)
        if new is old:
            return expr
        if isinstance(expr, Call):
            return replace(expr, args=new)
        total, left, right = map(scalar.as_wide, new, old)
        return replace(expr, total=total, left=left, right=right)

    def exprs(self, exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return a tuple of expressions simplified; the same tuple if nothing changes."""
        new = tuple(map(self.expr, exprs))
        return exprs if all(map(_is, new, exprs)) else new

    def _index(self, expr: Binary) -> Expr:
        names = _names_of_index(expr)
        if names is None:
            return self.index(expr)
        ranges = self._ranges
        result = _index_within(expr, tuple((n, ranges[n]) for n in names if n in ranges))
        return expr if result == expr else result

    def index(self, expr: Binary) -> Expr:
        """Return an int64 sum, difference, product, quotient or remainder simplified."""
        return self._binary(expr) if expr.op in _DIVISIVE else self._sum(expr)

    def _sum(self, expr: Binary) -> Expr:
        total: Linear[Atom] = Linear()
        if not collect(expr, 1, total, self._add):
            return self._binary(expr)
        integer.rejoin(total, self._ranges)
        result = total.to_expr()
        return expr if result == expr else result

    def _add(self, expr: Expr, scale: int, total: Linear[Atom]) -> bool:
        """Add `scale` times the simplified `expr`, which is not a sum."""
        if isinstance(expr, Binary) and expr.op is BinaryOp.MUL:
            expr = _rebuild(expr, self.expr(expr.left), self.expr(expr.right))
        else:
            expr = self.expr(expr)
        return collect(expr, scale, total, add_atom)

    def _binary(self, expr: Binary) -> Expr:
        op, left, right = expr.op, self.expr(expr.left), self.expr(expr.right)
        if isinstance(left, Const) and isinstance(right, Const):
            folded = scalar.fold(op, left, right)
            if folded is not None:
                return folded
        simpler = self._law(op, left, right)
        if simpler is None:
            return _rebuild(expr, left, right)
        return expr if simpler == expr else simpler

    def _law(self, op: BinaryOp, left: Expr, right: Expr) -> Expr | None:
        if op is BinaryOp.AND:
            return scalar.both(left, right)
        if op is BinaryOp.OR:
            return scalar.either(left, right)
        if op in (BinaryOp.MIN, BinaryOp.MAX):
            return integer.extreme(op, left, right, self._ranges)
        if op in _DIVISIVE and isinstance(right, Const) and right.value > 0:
            simpler = self._divide(op, left, int(right.value))
            if simpler is not None:
                return simpler
        if op in _BITWISE and isinstance(right, Const) and is_index(right.dtype):
            simpler = self._bits_of_index(op, left, int(right.value))
            if simpler is not None:
                return simpler
        return scalar.neutral(op, left, right)

    def _bits_of_index(self, op: BinaryOp, left: Expr, value: int) -> Expr | None:
        """Return bits of an index as a quotient or remainder; None if they are not one."""
        if op is BinaryOp.SHR and 0 <= value < _SHIFTED:
            return self._divide(BinaryOp.FLOORDIV, left, 1 << value)
        if op is BinaryOp.BIT_AND and 0 < value < 1 << _SHIFTED and not value & (value + 1):
            return self._divide(BinaryOp.MOD, left, value + 1)
        return None

    def _divide(self, op: BinaryOp, left: Expr, divisor: int) -> Expr | None:
        total = linear(left)
        if total is None or wraps(total):
            return None
        law = integer.divide if op is BinaryOp.FLOORDIV else integer.remainder
        result = law(total, divisor, self._ranges)
        integer.rejoin(result, self._ranges)
        return result.to_expr()

    def _compare(self, expr: Compare) -> Expr:
        left, right = self.expr(expr.left), self.expr(expr.right)
        if isinstance(left, Const) and isinstance(right, Const):
            return scalar.fold_compare(expr.op, left, right)
        new = expr if left is expr.left and right is expr.right else Compare(expr.op, left, right)
        result = integer.comparison(new, self._ranges)
        return expr if result == expr else result

    def _apply_facts(self, condition: Expr) -> Expr:
        if not self._facts or condition not in self._facts:
            return condition
        return Const(self._facts[condition], BOOL)

    def _select(self, expr: Select) -> Expr:
        condition = self.expr(expr.condition)
        if isinstance(condition, Const):
            return self.expr(expr.then if condition.value else expr.otherwise)
        then = self.assuming(condition).expr(expr.then)
        otherwise = self.expr(expr.otherwise)
        if dtype_of(condition).lanes == 1 and scalar.same(then, otherwise):
            return then
        if condition is expr.condition and then is expr.then and otherwise is expr.otherwise:
            return expr
        return Select(condition, then, otherwise)

    def _cast(self, expr: Cast, operand: Expr, dtype: DType) -> Expr:
        if dtype_of(operand).element == dtype:
            return operand
        folded = scalar.fold_cast(dtype, operand) if isinstance(operand, Const) else None
        if folded is not None:
            return folded
        return expr if operand is expr.operand else Cast(expr.dtype, operand)

    def stmt(self, stmt: Stmt) -> Stmt:
        """Return `stmt` simplified."""
        match stmt:
            case Store(_, indices, value):
                position, new = self.exprs(indices), self.expr(value)
                unchanged = position is indices and new is value
                return stmt if unchanged else replace(stmt, indices=position, value=new)
            case For():
                return self._loop(stmt)
            case If():
                return self._if(stmt)
            case Seq():
                return self._seq(stmt)
            case Allocate(buffer, body):
                new = self.stmt(body)
                if _is_empty(new):
                    return new
                return stmt if new is body else Allocate(buffer, new)
            case Prefetch(buffer, indices):
                position = self.exprs(indices)
                return stmt if position is indices else Prefetch(buffer, position)
            case Check():
                return self._check(stmt)
            case Barrier() | Await() | CallC():
                return stmt
            case _:
                assert_never(stmt)

    def _check(self, stmt: Check) -> Stmt:
        condition, args = self.expr(stmt.condition), self.exprs(stmt.args)
        if isinstance(condition, Const) and condition.value:
            return Seq(())
        if condition is stmt.condition and args is stmt.args:
            return stmt
        return Check(condition, stmt.kind, stmt.about, args)

    def _loop(self, loop: For) -> Stmt:
        if loop.extent == 0:
            return Seq(())
        inner = Simplifier({**self._ranges, loop.var.name: loop.span}, self._facts)
        body = inner.stmt(loop.body)
        is_kept = bool(loop.bounds) or loop.kind in (LoopKind.BOUND, LoopKind.SIZE)
        if _is_empty(body) or (loop.extent == 1 and not is_kept):
            return body
        bounds = self.exprs(loop.bounds)
        if bounds is not loop.bounds and bounds != loop.bounds:
            loop = replace(loop, begin=bounds[0], end=bounds[1])
        if body is loop.body:
            return loop
        return with_body(loop, body)

    def _if(self, stmt: If) -> Stmt:
        condition = self.expr(stmt.condition)
        if isinstance(condition, Const):
            chosen = stmt.then if condition.value else stmt.otherwise
            return Seq(()) if chosen is None else self.stmt(chosen)
        changed = _stores_of(stmt.then) if _loads_of(condition) else frozenset[Buffer]()
        then = self.assuming(condition, changed).stmt(stmt.then)
        if _is_empty(then):
            return then if stmt.otherwise is None else self._if(If(Not(condition), stmt.otherwise))
        otherwise = None if stmt.otherwise is None else self.stmt(stmt.otherwise)
        if otherwise is not None and _is_empty(otherwise):
            otherwise = None
        if condition is stmt.condition and then is stmt.then and otherwise is stmt.otherwise:
            return stmt
        return If(condition, then, otherwise)

    def _seq(self, seq: Seq) -> Stmt:
        new: list[Stmt] = []
        for part in map(self.stmt, seq.stmts):
            new.extend(part.stmts if isinstance(part, Seq) else (part,))
        if len(new) == 1:
            return new[0]
        unchanged = len(new) == len(seq.stmts) and all(map(_is, new, seq.stmts))
        return seq if unchanged else Seq(tuple(new))


def _loads_of(condition: Expr) -> Set[Buffer]:
    return {part.buffer for part in walk(condition) if isinstance(part, Load)}


def _stores_of(stmt: Stmt) -> Set[Buffer]:
    return set(written_buffers(stmt))


@lru_cache(maxsize=1 << 13)
def _index_within(expr: Binary, ranges: tuple[tuple[str, tuple[int, int]], ...]) -> Expr:
    """Return an index simplified by the ranges of its own variables alone.

    It is cached: passes, and programs of one sketch, simplify the same indices many times.
    """
    return Simplifier(dict(ranges)).index(expr)


@lru_cache(maxsize=1 << 13)
def _names_of_index(expr: Expr) -> tuple[str, ...] | None:
    """Return the variables of an index; None if its value depends on known conditions."""
    names: dict[str, None] = {}
    for part in walk(expr):
        if isinstance(part, Compare | Select | Not):
            return None
        if isinstance(part, Var):
            names[part.name] = None
    return tuple(names)


def _rebuild(old: Binary, left: Expr, right: Expr) -> Binary:
    return old if left is old.left and right is old.right else Binary(old.op, left, right)


def _is_empty(stmt: Stmt) -> bool:
    return isinstance(stmt, Seq) and not stmt.stmts
