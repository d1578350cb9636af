"""Bound integer expressions, and prove comparisons by the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from ansorc.ir.arith.affine import Atom, Linear, difference, linear
from ansorc.ir.arith.bits import bit_bounds
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Const, Expr, Not, Select, Var
from ansorc.ir.operator import BITWISE

Interval: TypeAlias = tuple[int, int]
"""Inclusive bounds."""
Ranges: TypeAlias = Mapping[str, Interval]
"""The inclusive bounds of variables, by name."""

_BITS = 64
"""Of an index."""
_MIRRORED = {CompareOp.GT: CompareOp.LT, CompareOp.GE: CompareOp.LE}


def bounds(expr: Expr, ranges: Ranges) -> Interval | None:
    """Return bounds of the scalar int64 `expr`, or None if they are unknown.

    They are exact for sums in which every variable occurs once; else they may be too wide.
    """
    total = _form(expr)
    return None if total is None else linear_bounds(total, ranges)


@lru_cache(maxsize=1 << 13)
def _form(expr: Expr) -> Linear[Atom] | None:
    """Return `linear(expr)`, cached; callers do not change the result."""
    return linear(expr)


def linear_bounds(total: Linear[Atom], ranges: Ranges) -> Interval | None:
    """Return bounds of a sum, or None if an atom has none."""
    low = high = total.constant
    for atom, coefficient in total.terms.items():
        interval = ranges.get(atom) if isinstance(atom, str) else _atom_bounds(atom, ranges)
        if interval is None:
            return None
        if coefficient > 0:
            low += coefficient * interval[0]
            high += coefficient * interval[1]
        else:
            low += coefficient * interval[1]
            high += coefficient * interval[0]
    return low, high


def prove(condition: Expr, ranges: Ranges) -> bool | None:
    """Return True if `condition` always holds, False if it never holds, None if unknown."""
    match condition:
        case Const(value, _):
            return bool(value)
        case Not(operand):
            known = prove(operand, ranges)
            return None if known is None else not known
        case Binary(BinaryOp.AND, left, right):
            both = (prove(left, ranges), prove(right, ranges))
            return False if False in both else None if None in both else True
        case Binary(BinaryOp.OR, left, right):
            both = (prove(left, ranges), prove(right, ranges))
            return True if True in both else None if None in both else False
        case Compare(op, left, right):
            total = difference(left, right)
            interval = None if total is None else linear_bounds(total, ranges)
            return None if interval is None else decide(op, interval)
        case _:
            return None


def decide(op: CompareOp, interval: Interval) -> bool | None:
    """Return whether `d op 0` holds for all (True) or no (False) d in `interval`, else None."""
    low, high = interval
    match op:
        case CompareOp.LT:
            return True if high < 0 else False if low >= 0 else None
        case CompareOp.LE:
            return True if high <= 0 else False if low > 0 else None
        case CompareOp.GT:
            return True if low > 0 else False if high <= 0 else None
        case CompareOp.GE:
            return True if low >= 0 else False if high < 0 else None
        case CompareOp.EQ:
            return True if low == high == 0 else False if low > 0 or high < 0 else None
        case CompareOp.NE:
            return False if low == high == 0 else True if low > 0 or high < 0 else None


def narrow(condition: Compare, ranges: dict[str, Interval]) -> None:
    """Tighten, in place, the bounds of the only variable of a `condition` that holds."""
    total = difference(condition.left, condition.right)
    if total is None or len(total.terms) != 1:
        return
    ((name, factor),) = total.terms.items()
    interval = ranges.get(name) if isinstance(name, str) else None
    if not isinstance(name, str) or interval is None or condition.op is CompareOp.NE:
        return
    low, high = interval
    op, constant = condition.op, total.constant
    if op in (CompareOp.GT, CompareOp.GE):
        op, factor, constant = _MIRRORED[op], -factor, -constant
    constant += op is CompareOp.LT  # factor * x + constant <= 0, or == 0
    if factor > 0:
        high = min(high, -constant // factor)
    else:
        low = max(low, -(-constant // -factor))
    if op is CompareOp.EQ:
        low = high = -constant // factor
    if interval[0] <= low <= high <= interval[1]:
        ranges[name] = (low, high)


def _atom_bounds(expr: Expr, ranges: Ranges) -> Interval | None:
    match expr:
        case Var(name, _):
            return ranges.get(name)
        case Select(condition, then, otherwise):
            return _select_bounds(condition, then, otherwise, ranges)
        case Binary(op, left, right):
            a, b = bounds(left, ranges), bounds(right, ranges)
            return _combine(op, a, b)
        case _:
            return None


def _select_bounds(condition: Expr, then: Expr, otherwise: Expr, ranges: Ranges) -> Interval | None:
    known = prove(condition, ranges)
    if known is not None:
        return bounds(then if known else otherwise, ranges)
    a, b = bounds(then, ranges), bounds(otherwise, ranges)
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _combine(op: BinaryOp, a: Interval | None, b: Interval | None) -> Interval | None:
    if op is BinaryOp.MOD:
        return None if b is None or b[0] <= 0 else _modulo(a, b)
    if op is BinaryOp.BIT_AND:
        return _mask(a, b)
    if a is None or b is None:
        return None
    match op:
        case BinaryOp.MIN:
            return min(a[0], b[0]), min(a[1], b[1])
        case BinaryOp.MAX:
            return max(a[0], b[0]), max(a[1], b[1])
        case BinaryOp.MUL:
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case BinaryOp.FLOORDIV if b[0] > 0:
            corners = [x // y for x in a for y in b]
            return min(corners), max(corners)
        case _ if op in BITWISE:
            return _within_index(bit_bounds(op, a, b, _BITS))
        case _:
            return None


def _mask(a: Interval | None, b: Interval | None) -> Interval | None:
    """Return bounds of a & b, of which one alone may give them."""
    if a is not None and b is not None:
        return bit_bounds(BinaryOp.BIT_AND, a, b, _BITS)
    known = a if b is None else b
    return None if known is None or known[0] < 0 else (0, known[1])


def _within_index(interval: Interval) -> Interval | None:
    """Return the bounds of a shift; None where it may leave the 64 bits of an index."""
    least = -1 << (_BITS - 1)
    return interval if least <= interval[0] and interval[1] < -least else None


def _modulo(a: Interval | None, b: Interval) -> Interval:
    """Return bounds of a % b for positive b."""
    divisor = b[0]
    if a is not None and b[0] == b[1] and a[0] // divisor == a[1] // divisor:
        return a[0] % divisor, a[1] % divisor
    if a is not None and a[0] >= 0:
        return 0, min(a[1], b[1] - 1)
    return 0, b[1] - 1
