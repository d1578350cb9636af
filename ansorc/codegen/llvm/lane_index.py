"""Integer indices while code is written: linear forms of run-time symbols, one for each lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeAlias

from ansorc.ir.arith.affine import Atom, AtomT, Linear, collect
from ansorc.ir.expr import Binary, BinaryOp, Broadcast, Const, Expr, Ramp, Var, dtype_of

_LIMIT = 1 << 62
_LaneTerm: TypeAlias = Atom | tuple[int, ...]
"""A scalar, or the known numbers of the lanes of a vector."""


@dataclass(eq=False, slots=True)
class Symbol:
    """An `i64` known only at run time, defined `depth` scopes deep, within [low, high]."""

    name: str
    depth: int
    order: int
    """Later symbols have larger numbers: with `depth`, a stable order of terms."""
    low: int
    high: int


@dataclass(slots=True)
class LaneIndex(Generic[AtomT]):
    """An index in each of `lanes` lanes: lane `l` has `first + step * l`."""

    first: Linear[AtomT]
    lanes: int = 1
    step: int = 0

    @property
    def reach(self) -> int:
        """How far the last lane is from the first."""
        return self.step * (self.lanes - 1)

    def lane(self, number: int) -> Linear[AtomT]:
        """Return one lane as a scalar."""
        return self.first.offset_by(number * self.step)


def bounds(total: Linear[Symbol], reach: int = 0) -> tuple[int, int] | None:
    """The smallest and largest value from `total` to `total + reach`; None if it may overflow."""
    low = high = total.constant
    size = abs(low)
    for symbol, coefficient in total.terms.items():
        least, most = symbol.low * coefficient, symbol.high * coefficient
        if coefficient < 0:
            least, most = most, least
        low += least
        high += most
        size += most if most > -least else -least
    if reach < 0:
        return (low + reach, high) if size - reach < _LIMIT else None
    return (low, high + reach) if size + reach < _LIMIT else None


def depth_of(total: Linear[Symbol]) -> int:
    """Return the depth of the innermost scope that `total` needs."""
    depth = 0
    for symbol in total.terms:
        depth = max(depth, symbol.depth)
    return depth


def by_depth(total: Linear[Symbol]) -> list[tuple[Symbol, int]]:
    """The terms, those of outer scopes first."""
    return sorted(total.terms.items(), key=_order)


def _order(term: tuple[Symbol, int]) -> tuple[int, int]:
    return term[0].depth, term[0].order


def lane_form(exprs: Sequence[Expr], factors: Sequence[int] = (1,)) -> LaneIndex[Atom] | None:
    """Return the sum of the int64 `exprs`, each times its factor, worked out for all copies.

    None if the lanes are not known to be evenly spaced.
    """
    total: Linear[_LaneTerm] = Linear()
    for expr, factor in zip(exprs, factors, strict=True):
        if not collect(expr, factor, total, _add_term):
            return None
    lanes = max((dtype_of(expr).lanes for expr in exprs), default=1)
    scalars: dict[Atom, int] = {}
    numbers = [total.constant] * lanes
    for term, coefficient in total.terms.items():
        if isinstance(term, tuple):
            numbers = [n + coefficient * more for n, more in zip(numbers, term, strict=True)]
        else:
            scalars[term] = coefficient
    steps = {after - before for before, after in pairwise(numbers)} or {0}
    return LaneIndex(Linear(scalars, numbers[0]), lanes, *steps) if len(steps) == 1 else None


def _add_term(expr: Expr, scale: int, total: Linear[_LaneTerm]) -> bool:
    match expr:
        case Var(name):
            total.add(name, scale)
        case Const(value):
            total.constant += scale * int(value)
        case Ramp(base, stride, lanes):
            step = _number(stride)
            if step is None:
                return False
            total.add(tuple(range(lanes)), scale * step)
            return collect(base, scale, total, _add_term)
        case Broadcast(operand):
            return collect(operand, scale, total, _add_term)
        case Binary(BinaryOp.MUL, left, right) if (factor := _number(left)) is not None:
            return collect(right, scale * factor, total, _add_term)
        case Binary(BinaryOp.MUL, left, right) if (factor := _number(right)) is not None:
            return collect(left, scale * factor, total, _add_term)
        case Binary(BinaryOp.FLOORDIV | BinaryOp.MOD, Ramp(), Const(divisor)) if divisor > 0:
            lanes = _divide_lanes(expr.op, lane_form((expr.left,)), int(divisor))
            total.add(lanes, scale)
            return bool(lanes)
        case _ if dtype_of(expr).lanes > 1:
            return False
        case _:
            total.add(expr, scale)
    return True


def _number(expr: Expr) -> int | None:
    """Return what `expr` is in every lane, if that is one number."""
    form = lane_form((expr,))
    return form.first.constant if form and not form.first.terms and not form.step else None


def _divide_lanes(op: BinaryOp, dividend: LaneIndex[Atom] | None, divisor: int) -> tuple[int, ...]:
    """Return the lanes of known numbers, each divided; nothing if they are not known."""
    if dividend is None or dividend.first.terms:
        return ()
    part = 0 if op is BinaryOp.FLOORDIV else 1
    first, step = dividend.first.constant, dividend.step
    return tuple(divmod(first + step * n, divisor)[part] for n in range(dividend.lanes))
