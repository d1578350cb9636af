"""Solve index equations: which values of the axes of a read meet the element p of a tensor.

A computation that reads A[2 i + r] adds to the derivative by A[p] for all i and r with 2 i + r = p.
These are r = p % 2 + 2 t and i = p // 2 - t for all t: a sum over t alone, of half as many terms.
In general an equation  c0 x0 + c1 x1 + … = K,  with K known, is solved for one axis:

* an axis whose coefficient is 1 or -1 is what is left by the others, over which the sum runs;
* if a divisor g is common to the coefficients of all axes but w, then w = (K / cw) % g + g t, with
  a new axis t, and the rest of the equation is divided by g;
* if g is common to all, K must be a multiple of it, which is a guard.

Quotients `e // c` and remainders `e % c` are axes of their own, with the equation
`c q + r = e`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from ansorc.ir.arith.affine import Atom, Linear, collect, integer, is_index
from ansorc.ir.arith.integer import divide, rejoin, remainder
from ansorc.ir.arith.interval import Interval, linear_bounds
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Const, Expr, Var, dtype_of
from ansorc.ir.substitute import substitute
from ansorc.lang.naming import unique_name


@dataclass(frozen=True)
class Solution:
    """The axes of a contribution in terms of the element and of axes that are left to sum over."""

    values: dict[str, Expr]
    """The value of each axis that is not left."""
    free: dict[str, int]
    """The axes that are left, from 0, and their extents."""
    limits: dict[str, tuple[Expr, int]]
    """For axes whose value may leave their range: the value, and the extent."""
    guards: list[Expr]
    """Other conditions under which there is a solution."""


class Equations:
    """Index equations, being solved; each is a sum that is 0."""

    def __init__(self, extents: Mapping[str, int], ranges: Mapping[str, Interval]) -> None:
        """Begin with unknown axes, from 0, and the bounds of the indices of the element."""
        self._extents, self._ranges = dict(extents), dict(ranges)
        self._sums: list[Linear[Atom]] = []
        self._guards: list[Expr] = []
        self._unknown = {name: extent for name, extent in extents.items() if extent > 1}
        self._solved: dict[str, Linear[Atom]] = {
            name: Linear() for name, extent in extents.items() if extent == 1
        }
        self._digits: dict[tuple[Expr, int], tuple[Linear[Atom], Linear[Atom]]] = {}

    def require(self, index: Expr, element: str) -> None:
        """Add the equation `index == element`, whose right side is known."""
        total: Linear[Atom] = Linear({element: 1})
        if collect(index, -1, total, self._add_atom):
            self._sums.append(total)
        else:
            self._guards.append(Compare(CompareOp.EQ, index, Var(element)))

    def solve(self) -> Solution:
        """Return the solution of all equations."""
        while self._sums:
            self._sums.sort(key=lambda total: len(self._unknowns(total)))
            self._solve_one(self._sums.pop(0))
            self._sums = [self._substitute_solved(total) for total in self._sums]
        values = {name: self._substitute_solved(value) for name, value in self._solved.items()}
        limits: dict[str, tuple[Expr, int]] = {}
        for name, value in values.items():
            extent, interval = self._extents[name], linear_bounds(value, self._bound_names())
            if interval is None or interval[0] < 0 or interval[1] >= extent:
                limits[name] = value.to_expr(), extent
        exprs = {name: value.to_expr() for name, value in values.items()}
        guards = [substitute(guard, exprs) for guard in self._guards]
        free = {name: extent for name, extent in self._extents.items() if name not in values}
        return Solution(exprs, free, limits, guards)

    def _bound_names(self) -> dict[str, Interval]:
        """Return the bounds of all names."""
        return self._ranges | {name: (0, extent - 1) for name, extent in self._extents.items()}

    def _unknowns(self, total: Linear[Atom]) -> dict[str, int]:
        """Return the unknown axes of a sum, and their coefficients."""
        return {
            atom: c
            for atom, c in total.terms.items()
            if isinstance(atom, str) and atom in self._unknown
        }

    def _known_part(self, total: Linear[Atom]) -> Linear[Atom]:
        unknown = self._unknowns(total)
        terms = {atom: c for atom, c in total.terms.items() if atom not in unknown}
        return Linear(terms, total.constant)

    def _add_atom(self, expr: Expr, scale: int, total: Linear[Atom]) -> bool:
        """Add `scale * expr`, which is no sum; return whether it is one of axes."""
        if isinstance(expr, Var):
            total.add_scaled(self._solved.get(expr.name, Linear({expr.name: 1})), scale)
            return is_index(expr.dtype)
        match expr:
            case Binary(BinaryOp.FLOORDIV | BinaryOp.MOD, inner, Const(divisor, _)) if divisor > 0:
                digits = self._split(inner, int(divisor))
                if digits is None:
                    return False
                total.add_scaled(digits[expr.op is BinaryOp.MOD], scale)
                return True
            case _:
                return False

    def _split(self, inner: Expr, divisor: int) -> tuple[Linear[Atom], Linear[Atom]] | None:
        """Return sums of axes for `inner // divisor` and `inner % divisor`; None if it has none."""
        if (known := self._digits.get((inner, divisor))) is not None:
            return known
        total: Linear[Atom] = Linear()
        if not (is_index(dtype_of(inner)) and collect(inner, 1, total, self._add_atom)):
            return None
        interval = linear_bounds(total, self._bound_names())
        if interval is None:
            return None
        first, last = (end // divisor for end in interval)
        quotient = self._new_axis("q", last - first + 1).offset_by(first)
        rest = self._new_axis("r", divisor)
        total.add_scaled(quotient, -divisor)
        total.add_scaled(rest, -1)
        self._sums.append(total)
        self._digits[inner, divisor] = quotient, rest
        return quotient, rest

    def _new_axis(self, stem: str, extent: int) -> Linear[Atom]:
        """Return a new unknown axis, or 0 if it has one value."""
        if extent == 1:
            return Linear()
        taken = {axis.rstrip("?") for axis in (*self._extents, *self._ranges)}
        name = unique_name(stem, taken) + "?"
        self._extents[name] = self._unknown[name] = extent
        return Linear({name: 1})

    def _substitute_solved(self, total: Linear[Atom]) -> Linear[Atom]:
        """Return a sum without solved axes."""

        def value(atom: Atom) -> Linear[Atom]:
            solved = self._solved.get(atom) if isinstance(atom, str) else None
            return Linear({atom: 1}) if solved is None else solved

        while any(isinstance(atom, str) and atom in self._solved for atom in total.terms):
            total = total.at(value)
        rejoin(total, self._bound_names())
        return total

    def _solve_one(self, total: Linear[Atom]) -> None:
        """Solve the equation `total == 0` for one of its unknown axes, or add it as a guard."""
        while unknown := self._unknowns(total):
            common = gcd(*unknown.values())
            reach = {name: self._unknown[name] * abs(c) for name, c in unknown.items()}
            target = max(unknown, key=lambda name: (reach[name], abs(unknown[name]) == 1))
            if common > 1:
                total = self._divide(total, common)
            elif abs(unknown[target]) == 1:
                self._eliminate(total, target)
                return
            else:
                total = self._shorten(total, *_find_helper(unknown, target, self._unknown))
        if total.terms or total.constant:
            self._guards.append(_is_zero(total))

    def _eliminate(self, total: Linear[Atom], name: str) -> None:
        sign = total.coefficient(name)
        rest = Linear(dict(total.terms), total.constant)
        rest.add(name, -sign)
        self._solved[name] = rest.times(-sign)
        del self._unknown[name]

    def _divide(self, total: Linear[Atom], common: int) -> Linear[Atom]:
        """Return the equation divided by a divisor of all unknown coefficients; guard the rest."""
        known = self._known_part(total)
        rest = remainder(known, common, self._bound_names())
        if rest.terms or rest.constant:
            self._guards.append(_is_zero(rest))
        result = divide(known, common, self._bound_names())
        for name, coefficient in self._unknowns(total).items():
            result.add(name, coefficient // common)
        return result

    def _shorten(self, total: Linear[Atom], name: str, divisor: int) -> Linear[Atom]:
        """Replace axis `name` by its known remainder and a shorter axis; return what is left.

        With K the known part, K + c w + g (…) = 0 gives w = (-K / c) % g + g t. A divisor of 1
        leaves the axis to be summed over.
        """
        unknown, known = self._unknowns(total), self._known_part(total)
        c = unknown.pop(name)
        del self._unknown[name]
        if divisor == 1:
            return total
        is_unit, ranges = abs(c) == 1, self._bound_names()
        inverse = c if is_unit else pow(c, -1, divisor)
        first = remainder(known.times(-inverse), divisor, ranges)
        turn = self._new_axis(name.rstrip("?"), -(-self._extents[name] // divisor))
        self._solved[name] = first.plus(turn, divisor)
        # K + c first is a multiple of g; for c = 1 or -1 it is -c times g ((-c K) // g)
        sign = -c if is_unit else 1
        result = divide(known.times(-c) if is_unit else known.plus(first, c), divisor, ranges)
        result.add_scaled(turn, sign * c)
        for other, coefficient in unknown.items():
            result.add(other, sign * coefficient // divisor)
        return result


def _find_helper(
    unknown: Mapping[str, int], target: str, extents: Mapping[str, int]
) -> tuple[str, int]:
    """Return the axis that most shortens, and the divisor of all other coefficients."""
    candidates: list[tuple[int, int, str]] = []
    for name in unknown:
        others = gcd(*(c for other, c in unknown.items() if other != name))
        if name != target:
            candidates.append((others, -extents[name], name))
    divisor, _, name = max(candidates)
    return name, divisor


def _is_zero(total: Linear[Atom]) -> Expr:
    return Compare(CompareOp.EQ, total.to_expr(), integer(0))
