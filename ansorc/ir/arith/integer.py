"""Simplify //, %, min, max and comparisons of int64 sums whose variables have bounds.

All rules assume that index arithmetic does not overflow. Sums that contain loaded data may wrap,
and are not changed (see `affine.wraps`).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from ansorc.ir.arith.affine import Atom, Linear, difference, integer, linear, wraps
from ansorc.ir.arith.interval import Ranges, decide, linear_bounds
from ansorc.ir.dtype import BOOL
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Const, Expr


def divide(total: Linear[Atom], divisor: int, ranges: Ranges) -> Linear[Atom]:
    """Return `total // divisor` for a positive divisor, with d the divisor:

    d*q + r      ->  q + r//d
    r            ->  m                    where r lies in m*d … m*d + d-1
    g*h + t      ->  (h + m) // (d/g)     where g divides d and t lies in m*g … m*g + g-1
    (y // a)     ->  y // (a*d)
    """
    quotient, rest = total.split(divisor)
    bucket = _bucket(rest, divisor, ranges)
    if bucket is not None:
        quotient.constant += bucket
        return quotient
    for factor in _factors(rest, divisor):
        head, tail = rest.split(factor)
        bucket = _bucket(tail, factor, ranges)
        if bucket is not None:
            head.constant += bucket
            quotient.add_scaled(divide(head, divisor // factor, ranges), 1)
            return quotient
    match rest.to_expr():
        case Binary(BinaryOp.FLOORDIV, inner, Const(first, _)) if first > 0:
            nested = linear(inner) or Linear()
            quotient.add_scaled(divide(nested, int(first) * divisor, ranges), 1)
        case expr:
            quotient.add(Binary(BinaryOp.FLOORDIV, expr, integer(divisor)), 1)
    return quotient


def remainder(total: Linear[Atom], divisor: int, ranges: Ranges) -> Linear[Atom]:
    """Return `total % divisor` for a positive divisor, with d the divisor:

    d*q + r      ->  r % d
    r            ->  r - m*d                      where r lies in m*d … m*d + d-1
    g*h + t      ->  g*((h + m) % (d/g)) + t-m*g  where g divides d and t is in m*g … m*g + g-1
    (y % (a*d))  ->  y % d
    """
    rest = _without_inner_mod(total.split(divisor)[1], divisor).split(divisor)[1]
    bucket = _bucket(rest, divisor, ranges)
    if bucket is not None:
        rest.constant -= bucket * divisor
        return rest
    for factor in _factors(rest, divisor):
        head, tail = rest.split(factor)
        bucket = _bucket(tail, factor, ranges)
        if bucket is not None:
            head.constant += bucket
            whole = remainder(head, divisor // factor, ranges).times(factor)
            return whole.plus(tail).offset_by(-bucket * factor)
    return Linear({Binary(BinaryOp.MOD, rest.to_expr(), integer(divisor)): 1})


def rejoin(total: Linear[Atom], ranges: Ranges) -> None:
    """Rewrite, in place, where x may be some y // d:

    (x // c)*c*a + (x % c)*a      ->  x*a
    (x // c % e)*c*a + (x % c)*a  ->  (x % (c*e))*a, which may be simpler
    """
    while any(_rejoin_digits(total, atom, ranges) for atom in total.terms if _is_remainder(atom)):
        pass


def _is_remainder(atom: Atom) -> bool:
    return isinstance(atom, Binary) and atom.op is BinaryOp.MOD


def _rejoin_digits(total: Linear[Atom], atom: Atom, ranges: Ranges) -> bool:
    """Join the remainder `atom` with the digits above it; return whether there were any."""
    factor = total.coefficient(atom)
    match atom:
        case Binary(BinaryOp.MOD, inner, Const(divisor, _) as literal) if factor:
            pass
        case _:
            return False
    quotient = Binary(BinaryOp.FLOORDIV, inner, literal)
    match inner:
        case Binary(BinaryOp.FLOORDIV, dividend, Const(first, _)):  # x // c, simplified
            quotient = Binary(BinaryOp.FLOORDIV, dividend, integer(int(first) * int(divisor)))
        case _:
            pass
    whole = linear(inner)
    if whole and divisor and total.coefficient(quotient) == factor * divisor:
        _replace(total, (atom, quotient), whole, factor)
        return True
    for above, coefficient in total.terms.items():
        count = _count(above, quotient)
        if count and divisor > 0 and coefficient == factor * divisor:
            if whole is None or wraps(whole):
                whole = Linear[Atom]({inner: 1})
            joined = remainder(whole, int(divisor) * count, ranges)
            _replace(total, (atom, above), joined, factor)
            return True
    return False


def _count(atom: Atom, quotient: Expr) -> int:
    """Return c if `atom` is `quotient % c` for a positive c, else 0."""
    match atom:
        case Binary(BinaryOp.MOD, left, Const(count, _)) if count > 0 and left == quotient:
            return int(count)
        case _:
            return 0


def _replace(total: Linear[Atom], old: tuple[Atom, Atom], new: Linear[Atom], factor: int) -> None:
    """Replace the first of `old` by `factor * new`, in place; the order of terms is kept."""
    terms = list(total.terms.items())
    first = next(atom for atom in total.terms if atom in old)
    total.terms.clear()
    for atom, coefficient_ in terms:
        if atom == first:
            total.add_scaled(new, factor)
        elif atom not in old:
            total.add(atom, coefficient_)


def extreme(op: BinaryOp, left: Expr, right: Expr, ranges: Ranges) -> Expr | None:
    """Return the operand that is always the MIN or MAX; None if neither is."""
    total = difference(left, right)
    interval = None if total is None else linear_bounds(total, ranges)
    if interval is None:
        return None
    smaller = left if interval[1] <= 0 else right if interval[0] >= 0 else None
    if smaller is None or op is BinaryOp.MIN:
        return smaller
    return right if smaller is left else left


def comparison(expr: Compare, ranges: Ranges) -> Expr:
    """Return a comparison of int64 sums in canonical form, or its value:

    a op b         ->  True or False      where the bounds of a - b decide
    a + c < b + d  ->  a < b + (d - c)    with every term on the side where it is positive
    g*h + t < g*k  ->  h < k - m          where t lies in m*g … m*g + g-1
    """
    total = difference(expr.left, expr.right)
    if total is None:
        return expr
    interval = linear_bounds(total, ranges)
    known = None if interval is None else decide(expr.op, interval)
    if known is not None:
        return Const(known, BOOL)
    if expr.op in (CompareOp.EQ, CompareOp.NE):
        return _equality(expr.op, total)
    return _order(negative_when(expr.op, total), ranges)


def negative_when(op: CompareOp, total: Linear[Atom]) -> Linear[Atom]:
    """Return the sum that is < 0 exactly if `total op 0` holds, for an ordering operator."""
    sign = 1 if op in (CompareOp.LT, CompareOp.LE) else -1
    return total.times(sign).offset_by(-(op in (CompareOp.LE, CompareOp.GE)))


def _order(total: Linear[Atom], ranges: Ranges) -> Expr:
    reduced: Linear[Atom] | None = total
    while reduced is not None:
        total, reduced = reduced, _coarser(reduced, ranges)
    if not total.terms:
        return Const(total.constant < 0, BOOL)
    above, below = _sides(total)
    if above.terms:
        below.constant = -total.constant
        return Compare(CompareOp.LT, above.to_expr(), below.to_expr())
    return Compare(CompareOp.GE, below.to_expr(), integer(total.constant + 1))


def _coarser(total: Linear[Atom], ranges: Ranges) -> Linear[Atom] | None:
    """Return a smaller sum that is negative exactly if `total` is (`total // g`), or None."""
    for factor in _distinct(map(abs, total.terms.values())):
        head, tail = total.split(factor)
        bucket = _bucket(tail, factor, ranges)
        if bucket is not None:
            head.constant += bucket
            return head
    return None


def _equality(op: CompareOp, total: Linear[Atom]) -> Expr:
    factor = gcd(*total.terms.values())
    if factor == 0 or total.constant % factor:
        return Const((op is CompareOp.EQ) == (factor == 0 and total.constant == 0), BOOL)
    sign = 1 if next(iter(total.terms.values())) > 0 else -1
    result = total.split(factor)[0].times(sign)
    left, right = _sides(result)
    right.constant = -result.constant
    return Compare(op, left.to_expr(), right.to_expr())


def _sides(total: Linear[Atom]) -> tuple[Linear[Atom], Linear[Atom]]:
    """Return the positive and the negative terms, without the constant."""
    added = {atom: c for atom, c in total.terms.items() if c > 0}
    taken = {atom: -c for atom, c in total.terms.items() if c < 0}
    return Linear(added), Linear(taken)


def _bucket(total: Linear[Atom], divisor: int, ranges: Ranges) -> int | None:
    """Return `total // divisor` if the bounds allow only one value, else None."""
    interval = linear_bounds(total, ranges)
    if interval is None:
        return None
    bucket = interval[0] // divisor
    return bucket if bucket == interval[1] // divisor else None


def _factors(rest: Linear[Atom], divisor: int) -> list[int]:
    shared = _distinct(gcd(coefficient, divisor) for coefficient in rest.terms.values())
    return [factor for factor in shared if factor < divisor]


def _distinct(values: Iterable[int]) -> list[int]:
    """Return the distinct values above 1, the largest first."""
    return sorted({value for value in values if value > 1}, reverse=True)


def _without_inner_mod(rest: Linear[Atom], divisor: int) -> Linear[Atom]:
    def value(atom: Atom) -> Linear[Atom]:
        match atom:
            case Binary(BinaryOp.MOD, inner, Const(c, _)) if c > 0 and c % divisor == 0:
                total = linear(inner)
                return Linear({atom: 1}) if total is None else _without_inner_mod(total, divisor)
            case _:
                return Linear({atom: 1})

    return rest.at(value)
