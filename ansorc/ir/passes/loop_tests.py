"""The tests below a loop, and the values of its variable for which they are decided.

A test is an order comparison of affine sums in the condition of an If or of a Select. For the
values of a variable in 0 … 3 and `v*6 + i < 20`, i in 0 … 5: it holds for v < 3, and is open at 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansorc.ir.arith.affine import Atom, Linear, atom_expr, difference
from ansorc.ir.arith.interval import Interval, Ranges, bounds, linear_bounds
from ansorc.ir.expr import Compare, CompareOp, Expr, Load, Select, Var
from ansorc.ir.node import walk
from ansorc.ir.stmt import Allocate, Barrier, For, If, Seq, Stmt, Store

_ORDERS = (CompareOp.LT, CompareOp.LE, CompareOp.GT, CompareOp.GE)


@dataclass(frozen=True, slots=True)
class LoopTest:
    """A test of the program: it holds where `total` is negative."""

    total: Linear
    inner: Mapping[str, Interval]
    """The bounds of the variables of the loops between the place that asks and the test."""
    is_guard: bool
    """Whether it decides if statements run (an If), not which value is taken (a Select)."""

    def depends_on(self, name: str) -> bool:
        """Whether the variable `name` occurs in it."""
        return any(name in _names(atom) for atom in self.total.terms)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where the values low … high of `atom` are cut: each place begins a new range."""

    atom: Atom
    low: int
    high: int
    places: tuple[int, ...]

    def ranges(self) -> list[Interval]:
        """Return the ranges, inclusive, from low to high."""
        starts = (self.low, *self.places)
        ends = (*(place - 1 for place in self.places), self.high)
        return list(zip(starts, ends, strict=True))


def loop_tests(stmt: Stmt) -> list[LoopTest]:
    """Return the tests in `stmt`, without those on data."""
    return list(_tests(stmt, {}))


def find_cuts(name: str, tests: Sequence[LoopTest], ranges: Ranges) -> list[Cuts]:
    """Return where the variable `name`, and expressions of it, are cut to decide `tests`.

    `ranges` bounds the variables around, and `name`. Those that decide guards come first, then
    those with the largest coefficients.
    """
    places: dict[Atom, set[int]] = {}
    ranks: dict[Atom, tuple[bool, int]] = {}
    for test in tests:
        atom = _atom(name, test)
        found = [] if atom is None else _places(test, atom, name, ranges)
        if atom is not None and found:
            places.setdefault(atom, set()).update(found)
            rank = (test.is_guard, abs(test.total.terms[atom]))
            ranks[atom] = max(rank, ranks.get(atom, rank))
    cuts: list[Cuts] = []
    for atom in sorted(places, key=lambda atom: ranks[atom], reverse=True):
        low, high = bounds(atom_expr(atom), ranges) or (0, 0)
        cuts.append(Cuts(atom, low, high, tuple(sorted(places[atom]))))
    return cuts


def _tests(stmt: Stmt, inner: dict[str, Interval]) -> Iterator[LoopTest]:
    match stmt:
        case Store(_, indices, value):
            for expr in (*indices, value):
                yield from _choices(expr, inner)
        case For(var, extent, _, body):
            yield from _tests(body, {**inner, var.name: (0, extent - 1)})
        case If(condition, then, otherwise):
            yield from _comparisons(condition, inner, is_guard=True)
            yield from _tests(then, inner)
            if otherwise is not None:
                yield from _tests(otherwise, inner)
        case Seq(stmts):
            for part in stmts:
                yield from _tests(part, inner)
        case Allocate(_, body):
            yield from _tests(body, inner)
        case Barrier():
            pass


def _choices(expr: Expr, inner: dict[str, Interval]) -> Iterator[LoopTest]:
    for part in walk(expr):
        if isinstance(part, Select):
            yield from _comparisons(part.condition, inner, is_guard=False)


def _comparisons(
    condition: Expr, inner: dict[str, Interval], *, is_guard: bool
) -> Iterator[LoopTest]:
    for part in walk(condition):
        if not isinstance(part, Compare) or part.op not in _ORDERS:
            continue
        total = difference(part.left, part.right)
        if total is None or any(_reads_memory(atom) for atom in total.terms):
            continue
        if part.op in (CompareOp.GT, CompareOp.GE):
            negated = Linear()
            negated.add_scaled(total, -1)
            total = negated
        total.constant -= part.op in (CompareOp.LE, CompareOp.GE)
        yield LoopTest(total, inner, is_guard)


def _atom(name: str, test: LoopTest) -> Atom | None:
    """Return the largest term of the test with the variable `name` and without inner ones."""
    best: Atom | None = None
    for atom, coefficient in test.total.terms.items():
        used = _names(atom)
        if name not in used:
            continue
        if not used.isdisjoint(test.inner):
            return None
        if best is None or abs(coefficient) > abs(test.total.terms[best]):
            best = atom
    return best


def _places(test: LoopTest, atom: Atom, name: str, ranges: Ranges) -> list[int]:
    """Return where to cut the values of `atom` to decide the test: nowhere if it does not pay.

    It pays if the values for which the test stays open are at most half of all, or one. A test
    that also depends on loops around must not stay open at all.
    """
    known = {**ranges, **test.inner}
    rest = Linear(dict(test.total.terms), test.total.constant)
    factor = rest.terms.pop(atom)
    low_high, span = linear_bounds(rest, known), bounds(atom_expr(atom), known)
    if low_high is None or span is None:
        return []
    first, last = _open_values(factor, low_high)
    first, last = max(first, span[0]), min(last, span[1] + 1)
    is_open = max(0, last - first)
    known_here = test.inner.keys() | {name}
    is_alone = all(_names(other) <= known_here for other in rest.terms)
    allowed = max(1, (span[1] - span[0] + 1) // 2) if is_alone else 0
    if is_open > allowed:
        return []
    return [place for place in {first, last} if span[0] < place <= span[1]]


def _open_values(factor: int, rest: Interval) -> Interval:
    """Return [first, last) of the x for which the sign of factor * x + rest is not decided."""
    low, high = rest
    if factor > 0:
        return (-high - 1) // factor + 1, -(low // factor)
    return low // -factor + 1, high // -factor + 1


def _names(atom: Atom) -> set[str]:
    if isinstance(atom, str):
        return {atom}
    return {part.name for part in walk(atom) if isinstance(part, Var)}


def _reads_memory(atom: Atom) -> bool:
    return not isinstance(atom, str) and any(isinstance(part, Load) for part in walk(atom))
