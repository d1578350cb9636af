"""Integer sums in one canonical form: coefficients of what is added, and a constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from ansorc.ir.dtype import INT64, DType
from ansorc.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Load, Reduce, Var, dtype_of
from ansorc.ir.node import walk

Atom: TypeAlias = str | Expr
"""What a sum adds up: a variable, by name, or any other int64 expression."""

_LEAST = -(1 << 63)
_LARGE = 1 << 40
"""More than this is no size of an array in memory."""


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant + sum(coefficient * variable)`; terms are sorted by name and never zero."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    def coefficient(self, name: str) -> int:
        """Return what the variable `name` is multiplied by, 0 where it does not occur."""
        return next((factor for term, factor in self.terms if term == name), 0)

    def to_expr(self) -> Expr:
        """Return the sum as an expression."""
        return Linear(dict(self.terms), self.constant).to_expr()


@dataclass(slots=True)
class Linear:
    """`constant + sum(coefficient * atom)`, in order of first appearance, being put together."""

    terms: dict[Atom, int] = field(default_factory=dict[Atom, int])
    constant: int = 0

    def add(self, atom: Atom, coefficient: int) -> None:
        """Add `coefficient * atom`."""
        total = self.terms.get(atom, 0) + coefficient
        if total:
            self.terms[atom] = total
        else:
            self.terms.pop(atom, None)

    def add_scaled(self, other: Linear, factor: int) -> None:
        """Add `factor * other`."""
        for atom, coefficient in other.terms.items():
            self.add(atom, factor * coefficient)
        self.constant += factor * other.constant

    def split(self, divisor: int) -> tuple[Linear, Linear]:
        """Return `(q, r)` with `self == divisor * q + r` and the constant of r in 0 … divisor-1.

        r keeps the terms whose coefficient `divisor` does not divide.
        """
        quotient, rest = Linear(), Linear()
        for atom, coefficient in self.terms.items():
            if coefficient % divisor:
                rest.terms[atom] = coefficient
            else:
                quotient.terms[atom] = coefficient // divisor
        quotient.constant, rest.constant = divmod(self.constant, divisor)
        return quotient, rest

    def to_expr(self) -> Expr:
        """Return the sum as an expression: what is added, then what is taken away, the constant."""
        terms = [(atom, _wrapped(c)) for atom, c in self.terms.items()]
        added = [(atom, c) for atom, c in terms if c > 0 or c == _LEAST]
        taken = [(atom, -c) for atom, c in terms if _LEAST < c < 0]
        constant = _wrapped(self.constant)
        if added:
            total = _product(*added.pop(0))
        elif taken and not constant:
            atom, coefficient = taken.pop(0)
            total = _product(atom, -coefficient)
        else:
            total, constant = integer(constant), 0
        for atom, coefficient in added:
            total = Binary(BinaryOp.ADD, total, _product(atom, coefficient))
        for atom, coefficient in taken:
            total = Binary(BinaryOp.SUB, total, _product(atom, coefficient))
        if constant > 0 or constant == _LEAST:
            return Binary(BinaryOp.ADD, total, integer(constant))
        return Binary(BinaryOp.SUB, total, integer(-constant)) if constant else total


def affine(expr: Expr) -> Affine | None:
    """Return the scalar int64 `expr` as a sum of variables, or None where it is not one."""
    total = linear(expr)
    if total is None:
        return None
    terms: list[tuple[str, int]] = []
    for atom, coefficient in total.terms.items():
        if not isinstance(atom, str):
            return None
        terms.append((atom, coefficient))
    return Affine(tuple(sorted(terms)), total.constant)


def linear(expr: Expr) -> Linear | None:
    """Return the scalar int64 `expr` as a sum of atoms, None for another dtype."""
    total = Linear()
    return total if collect(expr, 1, total, None) else None


def difference(left: Expr, right: Expr) -> Linear | None:
    """Return `left - right` as a sum, None unless both are scalar int64 that cannot wrap."""
    total, taken = linear(left), linear(right)
    if total is None or taken is None or wraps(total) or wraps(taken):
        return None
    total.add_scaled(taken, -1)
    return total


def wraps(total: Linear) -> bool:
    """Whether int64 arithmetic may wrap around in `total`: on data, or on immense literals."""
    if abs(total.constant) > _LARGE or any(abs(c) > _LARGE for c in total.terms.values()):
        return True
    return any(
        isinstance(part, Load | Cast | Call | Reduce)
        or (isinstance(part, Const) and abs(part.value) > _LARGE)
        for atom in total.terms
        if not isinstance(atom, str)
        for part in walk(atom)
    )


def collect(expr: Expr, scale: int, total: Linear, atom: Callable[[Expr], Expr] | None) -> bool:
    """Add `scale * expr` to `total`, with what is no sum passed through `atom`.

    Returns False, leaving `total` half done, where something is not scalar int64.
    """
    if isinstance(expr, Binary):
        op, left, right = expr.op, expr.left, expr.right
        if op is BinaryOp.ADD or op is BinaryOp.SUB:
            other = scale if op is BinaryOp.ADD else -scale
            return collect(left, scale, total, atom) and collect(right, other, total, atom)
        if op is BinaryOp.MUL and isinstance(right, Const):
            return is_index(right.dtype) and collect(left, scale * int(right.value), total, atom)
        if op is BinaryOp.MUL and isinstance(left, Const):
            return is_index(left.dtype) and collect(right, scale * int(left.value), total, atom)
    if isinstance(expr, Const):
        if is_index(expr.dtype):
            total.constant += scale * int(expr.value)
        return is_index(expr.dtype)
    if atom is not None:
        return collect(atom(expr), scale, total, None)
    if isinstance(expr, Var):
        total.add(expr.name, scale)
        return is_index(expr.dtype)
    total.add(expr, scale)
    return is_index(dtype_of(expr))


def is_index(dtype: DType) -> bool:
    """Whether `dtype` is that of an index: one int64."""
    return dtype is INT64 or dtype == INT64


def leading_dtype(expr: Expr) -> DType:
    """Return the dtype of the leftmost operand, which is that of `expr` up to lanes."""
    while isinstance(expr, Binary):
        expr = expr.left
    return expr.buffer.dtype if isinstance(expr, Load) else dtype_of(expr)


@lru_cache(maxsize=4096)
def integer(value: int) -> Const:
    """Return an int64 literal."""
    return Const(value, INT64)


@lru_cache(maxsize=4096)
def variable(name: str) -> Var:
    """Return the int64 variable `name`."""
    return Var(name)


def atom_expr(atom: Atom) -> Expr:
    """Return an atom as an expression."""
    return variable(atom) if isinstance(atom, str) else atom


def _wrapped(value: int) -> int:
    """Return what int64 arithmetic makes of `value`."""
    return (value - _LEAST) % (1 << 64) + _LEAST


def _product(atom: Atom, coefficient: int) -> Expr:
    expr = atom_expr(atom)
    return expr if coefficient == 1 else Binary(BinaryOp.MUL, expr, integer(coefficient))
