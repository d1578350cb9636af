"""Compute loop-invariant values before the loop.

                                          alloc Y.hoisted[1] register:
for i in 0..8:                                Y.hoisted[0] = rsqrt(v[0] + 0.1)
    Y[i] = X[i] * rsqrt(v[0] + 0.1)   ->      for i in 0..8:
                                                  Y[i] = X[i] * Y.hoisted[0]

LLVM's code generator moves some values out of loops, but not the mean, the square root and the
division of a layer norm (docs/decisions/0013).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Binary, Call, Expr, Load, Ramp, Select, Var, const, dtype_of
from ansorc.ir.node import Node, children, map_children
from ansorc.ir.passes.accesses import Stores
from ansorc.ir.stmt import (
    Allocate,
    For,
    Function,
    If,
    LoopKind,
    Seq,
    Stmt,
    Store,
    map_substatements,
    statements,
)

_SEQUENTIAL = (LoopKind.SERIAL, LoopKind.UNROLLED)


def hoist_values(function: Function) -> Function:
    """Return `function` with floating-point arithmetic as far out of its loops as it can be.

    Values stay under their condition and inside parallel loops. Plain loads are not moved: they are
    operands of the instructions that use them.
    """
    body = _Hoisting(function).stmt(function.body, ())
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True)
class _OuterLoop:
    """A loop around the current statement."""

    var: str
    stored: frozenset[str]
    """The buffers that are stored inside it."""
    values: list[tuple[Buffer, Expr]] = field(default_factory=list[tuple[Buffer, Expr]])
    """The values that are computed before it."""


class _Hoisting:
    def __init__(self, function: Function) -> None:
        allocated = [s.buffer.name for s in statements(function.body) if isinstance(s, Allocate)]
        self._names = {*allocated, *(buffer.name for buffer in function.params)}
        self._stores = Stores()

    def stmt(self, stmt: Stmt, loops: tuple[_OuterLoop, ...]) -> Stmt:
        """Return `stmt`; its values may be computed before any of the `loops` around it."""
        match stmt:
            case Store(buffer, _, value):
                new = self._expr(value, loops, buffer.name)
                return stmt if new is value else replace(stmt, value=new)
            case For(var, _, kind, body) if kind in _SEQUENTIAL:
                loop = _OuterLoop(var.name, self._stores.of(body))
                inner = self.stmt(body, (*loops, loop))
                return _before(stmt if inner is body else replace(stmt, body=inner), loop)
            case For() | If():
                return map_substatements(stmt, lambda below: self.stmt(below, ()))
            case _:
                return map_substatements(stmt, lambda below: self.stmt(below, loops))

    def _expr(self, expr: Expr, loops: tuple[_OuterLoop, ...], name: str) -> Expr:
        """Return `expr`, a value for the buffer `name`, with hoisted parts replaced by loads."""
        if isinstance(expr, Load):
            return expr
        if isinstance(expr, Select):  # only one of the arms may be evaluated
            condition = self._expr(expr.condition, loops, name)
            return expr if condition is expr.condition else replace(expr, condition=condition)
        if isinstance(expr, Binary | Call) and dtype_of(expr).is_float:
            depth = _depth(expr, loops)
            if depth < len(loops):
                return self._hoist(expr, loops[:depth], loops[depth], name)
        return map_children(expr, lambda below: self._expr(below, loops, name))  # pyright: ignore[reportArgumentType]

    def _hoist(
        self, expr: Expr, around: tuple[_OuterLoop, ...], loop: _OuterLoop, name: str
    ) -> Expr:
        """Compute `expr` before `loop`, inside the loops `around` it; return a load of it."""
        value = self._expr(expr, around, name)
        held = next((buffer for buffer, known in loop.values if known == value), None)
        if held is None:
            dtype = dtype_of(value)
            held = Buffer(self._free(name), (dtype.lanes,), dtype.element, Scope.REGISTER)
            loop.values.append((held, value))
        return Load(held, _whole(held))

    def _free(self, name: str) -> str:
        stem = name.removesuffix(".reg")
        number = 0
        while (name_ := f"{stem}.hoisted{number or ''}") in self._names:
            number += 1
        self._names.add(name_)
        return name_


def _depth(expr: Node, loops: tuple[_OuterLoop, ...]) -> int:
    """Return the number of `loops` that must be around `expr`."""
    if isinstance(expr, Var):
        return next((n for n, loop in enumerate(loops, 1) if loop.var == expr.name), 0)
    depth = max((_depth(below, loops) for below in children(expr)), default=0)
    if isinstance(expr, Load):
        stored = [n for n, loop in enumerate(loops, 1) if expr.buffer.name in loop.stored]
        return max([depth, *stored])
    return depth


def _before(loop: For, around: _OuterLoop) -> Stmt:
    """Return `loop` after the values that were moved out of it."""
    if not around.values:
        return loop
    scope: Stmt = Seq((*(Store(held, _whole(held), value) for held, value in around.values), loop))
    for held, _ in reversed(around.values):
        scope = Allocate(held, scope)
    return scope


def _whole(held: Buffer) -> tuple[Expr, ...]:
    lanes = held.shape[0]
    return (const(0) if lanes == 1 else Ramp(const(0), const(1), lanes),)
