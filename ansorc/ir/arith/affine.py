"""The linear form of an index: a constant and atoms with coefficients, for all of ansorc."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeAlias, TypeVar

from ansorc.ir.dtype import INT64, DType
from ansorc.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Load, Reduce, Var, dtype_of
from ansorc.ir.node import walk

Atom: TypeAlias = str | Expr
"""A term of an index expression: a variable, by name, or any other int64 expression."""
AtomT = TypeVar("AtomT", bound=Hashable)
OtherT = TypeVar("OtherT", bound=Hashable)

_LEAST = -(1 << 63)
_SHIFTED = 63
"""A product with 2 to this power is no int64."""
_LARGE = 1 << 40
"""No array in memory has more elements than this."""


@dataclass(slots=True)
class Linear(Generic[AtomT]):
    """`constant + sum(coefficient * atom)`, in order of first appearance, without coefficients 0.

    `add` and `add_scaled` change it in place; the other methods return a new one.
    """

    terms: dict[AtomT, int] = field(default_factory=dict[AtomT, int])
    constant: int = 0

    def add(self, atom: AtomT, coefficient: int) -> None:
        """Add `coefficient * atom`."""
        total = self.terms.get(atom, 0) + coefficient
        if total:
            self.terms[atom] = total
        else:
            self.terms.pop(atom, None)

    def add_scaled(self, other: Linear[AtomT], factor: int) -> None:
        """Add `factor * other`."""
        terms = self.terms
        for atom, coefficient in other.terms.items():
            if total := terms.get(atom, 0) + factor * coefficient:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        self.constant += factor * other.constant

    def coefficient(self, atom: AtomT) -> int:
        """Return the coefficient of `atom`, or 0 if it does not occur."""
        return self.terms.get(atom, 0)

    def plus(self, other: Linear[AtomT], factor: int = 1) -> Linear[AtomT]:
        """Return `self + factor * other`."""
        total = Linear(dict(self.terms), self.constant)
        total.add_scaled(other, factor)
        return total

    def times(self, factor: int) -> Linear[AtomT]:
        """Return `factor * self`."""
        terms = {a: factor * c for a, c in self.terms.items()} if factor else {}
        return Linear(terms, factor * self.constant)

    def offset_by(self, constant: int) -> Linear[AtomT]:
        """Return `self + constant`."""
        return Linear(dict(self.terms), self.constant + constant)

    def at(self, values: Callable[[AtomT], Linear[OtherT]]) -> Linear[OtherT]:
        """Return the sum with each atom replaced by `values(atom)`."""
        total: Linear[OtherT] = Linear({}, self.constant)
        for atom, coefficient in self.terms.items():
            total.add_scaled(values(atom), coefficient)
        return total

    def split(self, divisor: int) -> tuple[Linear[AtomT], Linear[AtomT]]:
        """Return `(q, r)` with `self == divisor * q + r` and the constant of r in 0 … divisor-1.

        r keeps the terms whose coefficient `divisor` does not divide.
        """
        whole = {a: c // divisor for a, c in self.terms.items() if not c % divisor}
        rest = {a: c for a, c in self.terms.items() if c % divisor}
        quotient, left = divmod(self.constant, divisor)
        return Linear(whole, quotient), Linear(rest, left)

    def to_expr(self: Linear[Atom]) -> Expr:
        """Return the sum as an expression: positive terms, negative terms, then the constant."""
        terms = [(atom, _wrap(c)) for atom, c in self.terms.items()]
        added = [(atom, c) for atom, c in terms if c > 0 or c == _LEAST]
        taken = [(atom, -c) for atom, c in terms if _LEAST < c < 0]
        constant = _wrap(self.constant)
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


def affine(expr: Expr) -> Linear[str] | None:
    """Return the scalar int64 `expr` as a sum of variables, by name; None if it is not affine."""
    total = linear(expr)
    if total is None:
        return None
    terms = sorted((atom, c) for atom, c in total.terms.items() if isinstance(atom, str))
    return Linear(dict(terms), total.constant) if len(terms) == len(total.terms) else None


def step_along(index: Expr, variable: str) -> int:
    """Return the change of `index` in one step of `variable`; 0 if `index` is not affine."""
    form = affine(index)
    return 0 if form is None else form.coefficient(variable)


def linear(expr: Expr) -> Linear[Atom] | None:
    """Return the scalar int64 `expr` as a sum of atoms; None for another dtype."""
    total: Linear[Atom] = Linear()
    return total if collect(expr, 1, total, add_atom) else None


def difference(left: Expr, right: Expr) -> Linear[Atom] | None:
    """Return `left - right` as a sum; None unless both are scalar int64 that cannot wrap."""
    total, taken = linear(left), linear(right)
    if total is None or taken is None or wraps(total) or wraps(taken):
        return None
    total.add_scaled(taken, -1)
    return total


def wraps(total: Linear[Atom]) -> bool:
    """Return whether int64 arithmetic may wrap around in `total`: on data or huge literals."""
    if abs(total.constant) > _LARGE or any(abs(c) > _LARGE for c in total.terms.values()):
        return True
    return any(not isinstance(atom, str) and _may_wrap(atom) for atom in total.terms)


@lru_cache(maxsize=1 << 13)
def _may_wrap(atom: Expr) -> bool:
    return any(
        isinstance(part, Load | Cast | Call | Reduce)
        or (isinstance(part, Const) and abs(part.value) > _LARGE)
        for part in walk(atom)
    )


def collect(
    expr: Expr,
    scale: int,
    total: Linear[AtomT],
    rest: Callable[[Expr, int, Linear[AtomT]], bool],
) -> bool:
    """Add `scale * expr` to `total`; `rest` adds terms that are neither sums nor int64 literals.

    Return False if `rest` does; `total` is then incomplete.
    """
    if isinstance(expr, Binary):
        op, left, right = expr.op, expr.left, expr.right
        if op is BinaryOp.ADD or op is BinaryOp.SUB:
            other = scale if op is BinaryOp.ADD else -scale
            return collect(left, scale, total, rest) and collect(right, other, total, rest)
        if op is BinaryOp.MUL:
            if isinstance(right, Const) and is_index(right.dtype):
                return collect(left, scale * int(right.value), total, rest)
            if isinstance(left, Const) and is_index(left.dtype):
                return collect(right, scale * int(left.value), total, rest)
        if op is BinaryOp.SHL and isinstance(right, Const) and _is_count(right):
            return collect(left, scale << int(right.value), total, rest)
    elif isinstance(expr, Const) and is_index(expr.dtype):
        total.constant += scale * int(expr.value)
        return True
    return rest(expr, scale, total)


def add_atom(expr: Expr, scale: int, total: Linear[Atom]) -> bool:
    """Add `scale * expr` as one atom; return whether it is scalar int64."""
    if isinstance(expr, Var):
        total.add(expr.name, scale)
        return is_index(expr.dtype)
    total.add(expr, scale)
    return is_index(dtype_of(expr))


def is_index(dtype: DType) -> bool:
    """Return whether `dtype` is the type of an index: scalar int64."""
    return dtype is INT64 or dtype == INT64


def leading_dtype(expr: Expr) -> DType:
    """Return the dtype of the leftmost operand; that of `expr` may differ only in lanes."""
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


def _is_count(literal: Const) -> bool:
    return is_index(literal.dtype) and 0 <= literal.value < _SHIFTED


def _wrap(value: int) -> int:
    """Return `value` wrapped around to int64."""
    return (value - _LEAST) % (1 << 64) + _LEAST


def _product(atom: Atom, coefficient: int) -> Expr:
    expr = atom_expr(atom)
    return expr if coefficient == 1 else Binary(BinaryOp.MUL, expr, integer(coefficient))
