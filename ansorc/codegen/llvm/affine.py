"""Index expressions as sums over loop variables, worked out once for all unrolled copies.

The loops that several threads share are often one loop over several axes: then quotients and rests
of its variable are terms of the sums too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from ansorc.codegen.llvm.linear import Atom, Linear
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Broadcast, Const, Expr, Ramp, Var, dtype_of
from ansorc.ir.passes.places import reads_memory

Term: TypeAlias = str | Binary
"""A variable's name, or a scalar quotient or rest."""


@dataclass(slots=True)
class Affine:
    """The sum of coefficient x term, plus `constant`; lane `l` has `step * l` more."""

    terms: dict[Term, int]
    constant: int = 0
    lanes: int = 1
    step: int = 0
    uneven: tuple[int, ...] = ()
    """What each lane has besides, where that is not `step` more than the lane before."""

    @property
    def is_constant(self) -> bool:
        """Whether it is one number."""
        return not self.terms and not self.step and not self.uneven

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """Return `self + factor * other`."""
        terms = dict(self.terms)
        for name, coefficient in other.terms.items():
            terms[name] = terms.get(name, 0) + factor * coefficient
        return Affine(
            terms,
            self.constant + factor * other.constant,
            max(self.lanes, other.lanes),
            self.step + factor * other.step,
            _sum(self.uneven, other.uneven, factor),
        )

    def even(self) -> Affine | None:
        """Return the same without `uneven`; None if the lanes are not evenly spaced."""
        if not self.uneven:
            return self
        step = self.uneven[1] - self.uneven[0]
        if any(b - a != step for a, b in pairwise(self.uneven)):
            return None
        constant = self.constant + self.uneven[0]
        return Affine(self.terms, constant, self.lanes, self.step + step)

    def at(self, variables: Mapping[str, Linear], divided: Callable[[Binary], Linear]) -> Linear:
        """Return the value where the variables stand for `variables`; `divided` knows the rest."""
        terms: dict[Atom, int] = {}
        constant = self.constant
        for term, coefficient in self.terms.items():
            value = variables[term] if isinstance(term, str) else divided(term)
            constant += coefficient * value.constant
            for atom, inner in value.terms.items():
                terms[atom] = terms.get(atom, 0) + coefficient * inner
        if 0 in terms.values():
            terms = {atom: coefficient for atom, coefficient in terms.items() if coefficient}
        return Linear(terms, constant, self.lanes, self.step)


def affine(expr: Expr) -> Affine | None:
    """Return `expr` as a sum over its variables and their quotients; None if it is not one."""
    match expr:
        case Var(name):
            return Affine({name: 1})
        case Const(value, dtype):
            return Affine({}, int(value), dtype.lanes)
        case Binary(BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MUL, left, right):
            a, b = affine(left), affine(right)
            return None if a is None or b is None else _combined(expr.op, a, b)
        case Ramp(base, stride, lanes):
            start, step = affine(base), affine(stride)
            if start is None or step is None or not step.is_constant:
                return None
            return Affine(start.terms, start.constant, lanes, step.constant)
        case Broadcast(operand, lanes):
            inner = affine(operand)
            return inner and Affine(inner.terms, inner.constant, lanes)
        case Binary(BinaryOp.FLOORDIV | BinaryOp.MOD, Ramp(), Const(divisor)) if divisor > 0:
            return _divided(expr.op, affine(expr.left), int(divisor))
        case Binary(BinaryOp.FLOORDIV | BinaryOp.MOD, left, Const(divisor)) if divisor > 0:
            is_scalar = dtype_of(left).lanes == 1 and not reads_memory(left)
            return Affine({expr: 1}) if is_scalar else None
        case _:
            return None


def _divided(op: BinaryOp, dividend: Affine | None, divisor: int) -> Affine | None:
    """Return the lanes of known numbers, each divided."""
    if dividend is None or dividend.terms:
        return None
    place = 0 if op is BinaryOp.FLOORDIV else 1
    numbers = (dividend.constant + dividend.step * lane for lane in range(dividend.lanes))
    uneven = tuple(divmod(number, divisor)[place] for number in numbers)
    return Affine({}, 0, dividend.lanes, 0, uneven)


def _sum(left: tuple[int, ...], right: tuple[int, ...], factor: int) -> tuple[int, ...]:
    if not left or not right:
        return left or tuple(factor * number for number in right)
    return tuple(a + factor * b for a, b in zip(left, right, strict=True))


def _combined(op: BinaryOp, a: Affine, b: Affine) -> Affine | None:
    if op is not BinaryOp.MUL:
        return a.plus(b, 1 if op is BinaryOp.ADD else -1)
    if not a.is_constant:
        a, b = b, a
    if not a.is_constant:
        return None
    return Affine({}, 0, a.lanes).plus(b, a.constant)


def affine_distance(buffer: Buffer, indices: tuple[Expr, ...]) -> Affine | None:
    """Return how many elements `buffer[indices]` is from the start; None if it is not affine."""
    total = Affine({})
    for index, stride in zip(indices, buffer.strides, strict=True):
        part = affine(index)
        if part is None:
            return None
        total = total.plus(part, stride)
    return total.even()
