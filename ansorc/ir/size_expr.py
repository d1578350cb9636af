"""Sizes as expressions of programs, over the variables of dimensions."""

from __future__ import annotations

from functools import reduce

from ansorc.ir.dim import Atom, Dim, Size, SizeLike, most_of
from ansorc.ir.expr import Binary, BinaryOp, Expr, Var, const
from ansorc.ir.stmt import For, LoopKind, Stmt


def size_expr(size: SizeLike) -> Expr:
    """Return `size` as an int64 expression."""
    if isinstance(size, int):
        return const(size)
    terms = [_term(list(map(_atom, product)), factor) for product, factor in size.terms]
    total = reduce(lambda left, right: Binary(BinaryOp.ADD, left, right), terms)
    if size.constant < 0:
        return Binary(BinaryOp.SUB, total, const(-size.constant))
    return Binary(BinaryOp.ADD, total, const(size.constant)) if size.constant else total


def loop_over(var: Var, extent: SizeLike, body: Stmt) -> For:
    """Return a serial loop of `body` over 0 … extent - 1."""
    if isinstance(extent, int):
        return For(var, extent, LoopKind.SERIAL, body)
    begin, end = const(0), size_expr(extent)
    return For(var, most_of(extent), LoopKind.RAGGED, body, begin=begin, end=end)


def dim_var(dim: Dim) -> Var:
    """Return the variable that counts the multiples of a dimension."""
    return Var(dim.variable)


def _atom(atom: Atom) -> Expr:
    if isinstance(atom, Dim):
        return dim_var(atom)
    dividend: Size = atom.dividend
    return Binary(BinaryOp.FLOORDIV, size_expr(dividend), const(atom.divisor))


def _term(factors: list[Expr], factor: int) -> Expr:
    value = reduce(lambda left, right: Binary(BinaryOp.MUL, left, right), factors)
    return value if factor == 1 else Binary(BinaryOp.MUL, value, const(factor))
