"""The tests below a loop, and the values of its variable for which they are decided.

A test is an order comparison of affine sums in the condition of an If or of a Select. For the
values of a variable in 0 … 3 and `v*6 + i < 20`, i in 0 … 5: it holds for v < 3, and is open at 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from ansorc.ir.arith.affine import Atom, Linear, difference
from ansorc.ir.arith.integer import negative_when
from ansorc.ir.arith.interval import Interval, Ranges, linear_bounds
from ansorc.ir.expr import Compare, CompareOp, Expr, Load, Select, Var
from ansorc.ir.node import walk
from ansorc.ir.passes.code_size import executed_stores
from ansorc.ir.stmt import For, If, LoopKind, Seq, Stmt, Store, statements, substatements

_TILE_KINDS = (LoopKind.UNROLLED, LoopKind.VECTORIZED)
_ORDERS = (CompareOp.LT, CompareOp.LE, CompareOp.GT, CompareOp.GE)


@dataclass(frozen=True, slots=True)
class LoopTest:
    """A test of the program: it holds where `total` is negative."""

    total: Linear[Atom]
    loops: tuple[For, ...]
    """The loops between the place that asks and the test, the outermost first."""
    is_guard: bool
    """Whether it decides if statements run (an If), not which value is taken (a Select)."""
    placing: frozenset[str] = frozenset()
    """The variables in the indices of every store that it guards."""

    @property
    def inner(self) -> dict[str, Interval]:
        """The bounds of the variables of `loops`."""
        return {loop.var.name: (0, loop.extent - 1) for loop in self.loops}

    @property
    def tile(self) -> set[str]:
        """The variables of those `loops` that become copies or lanes."""
        return {loop.var.name for loop in self.loops if loop.kind in _TILE_KINDS}

    def depends_on(self, name: str) -> bool:
        """Whether the variable `name` occurs in it."""
        return any(name in _names(atom) for atom in self.total.terms)

    def is_of_a_tile_inside(self) -> bool:
        """Whether it guards a tile that one of `loops`, not a reduction, moves along.

        Or that one of them, which has another loop inside, makes more or less of.
        """
        if not any(self.depends_on(name) for name in self.tile):
            return False
        serial = [loop for loop in self.loops if loop.kind is LoopKind.SERIAL and loop.extent > 1]
        return any(
            self.depends_on(loop.var.name)
            and (loop.var.name in self.placing or loop is not serial[-1])
            for loop in serial
        )


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where the values low … high of the sum `share` are cut: each place begins a new range."""

    share: Linear[Atom]
    low: int
    high: int
    places: tuple[int, ...]

    @property
    def expr(self) -> Expr:
        """Return `share` as an expression."""
        return self.share.to_expr()

    def ranges(self) -> list[Interval]:
        """Return the ranges, inclusive, from low to high."""
        starts = (self.low, *self.places)
        ends = (*(place - 1 for place in self.places), self.high)
        return list(zip(starts, ends, strict=True))


def find_cuts(name: str | None, tests: Sequence[LoopTest], ranges: Ranges) -> list[Cuts]:
    """Return where the variable `name`, and expressions of it, are cut to decide `tests`.

    Without a `name`, expressions of all variables around. `ranges` bounds these, and `name`. Those
    that decide guards come first, then those with the largest coefficients.
    """
    shares: dict[Expr, Linear[Atom]] = {}
    places: dict[Expr, set[int]] = {}
    ranks: dict[Expr, tuple[bool, int]] = {}
    for test in tests:
        factor, share = _share(name, test)
        found = _places(test, factor, share, ranges) if factor else []
        if found:
            key = share.to_expr()
            shares[key] = share
            places.setdefault(key, set()).update(found)
            rank = (test.is_guard, abs(factor))
            ranks[key] = max(rank, ranks.get(key, rank))
    cuts: list[Cuts] = []
    for key in sorted(places, key=lambda key: ranks[key], reverse=True):
        low, high = linear_bounds(shares[key], ranges) or (0, 0)
        cuts.append(Cuts(shares[key], low, high, tuple(sorted(places[key]))))
    return cuts


class TestFinder:
    """Finds the tests below statements, and remembers what it found of each store and guard."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Stmt, tuple[Linear[Atom], ...], frozenset[str]]] = {}
        self._stores: dict[int, tuple[Stmt, int]] = {}

    def tests(self, stmt: Stmt, loops: tuple[For, ...] = ()) -> Iterator[LoopTest]:
        """Yield the tests in `stmt`, which is inside `loops`, without those on data."""
        match stmt:
            case Store():
                for total in self._totals(stmt)[1]:
                    yield LoopTest(total, loops, is_guard=False)
            case If(_, then, otherwise):
                _, totals, placing = self._totals(stmt)
                for total in () if _is_cheap(stmt) else totals:
                    yield LoopTest(total, loops, is_guard=True, placing=placing)
                yield from self.tests(then, loops)
                if otherwise is not None:
                    yield from self.tests(otherwise, loops)
            case Seq(parts):
                for part in parts:
                    if not self.is_minor(part, stmt):
                        yield from self.tests(part, loops)
            case _:
                inner = (*loops, stmt) if isinstance(stmt, For) else loops
                for part in substatements(stmt):
                    yield from self.tests(part, inner)

    def is_minor(self, part: Stmt, whole: Seq) -> bool:
        """Whether `part` runs a loop, but does less than half of the work of `whole`.

        Such a part decides its tests itself, so that the rest is not copied for them.
        """
        return _runs(part) and 2 * self._work(part) < self._work(whole)

    def _work(self, stmt: Stmt) -> int:
        found = self._stores.get(id(stmt))
        if found is None:
            found = self._stores[id(stmt)] = stmt, executed_stores(stmt)
        return found[1]

    def _totals(self, stmt: Store | If) -> tuple[Stmt, tuple[Linear[Atom], ...], frozenset[str]]:
        """Return `stmt`, what is negative where its tests hold, and what places its stores."""
        found = self._known.get(id(stmt))
        if found is None:
            if isinstance(stmt, If):
                found = stmt, tuple(_orders(stmt.condition)), _placing(stmt)
            else:
                found = stmt, tuple(_choices(stmt)), frozenset[str]()
            self._known[id(stmt)] = found
        return found


def _is_cheap(guard: If) -> bool:
    """Whether what `guard` decides about is a loop that runs: it is asked seldom enough."""
    return guard.otherwise is None and _runs(guard.then)


def _runs(stmt: Stmt) -> bool:
    """Whether there is a loop in `stmt` that stays one in the code."""
    return any(is_serial(part) for part in statements(stmt))


def is_serial(stmt: Stmt) -> bool:
    """Whether `stmt` is a loop of several iterations, one after another."""
    return isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL and stmt.extent > 1


def _choices(store: Store) -> Iterator[Linear[Atom]]:
    """Yield what is negative where a Select of `store` takes its first value."""
    for expr in (*store.indices, store.value):
        for part in walk(expr):
            if isinstance(part, Select):
                yield from _orders(part.condition)


def _placing(root: Stmt) -> frozenset[str]:
    """Return the variables in the indices of every store below `root`."""
    stores = [part for part in statements(root) if isinstance(part, Store)]
    names = [frozenset(n for index in store.indices for n in _names(index)) for store in stores]
    return reduce(frozenset[str].intersection, names) if names else frozenset()


def _orders(condition: Expr) -> Iterator[Linear[Atom]]:
    """Yield, for each comparison in `condition` that orders sums, what is negative if it holds."""
    for part in walk(condition):
        if not isinstance(part, Compare) or part.op not in _ORDERS:
            continue
        total = difference(part.left, part.right)
        if total is None or any(_reads_memory(atom) for atom in total.terms):
            continue
        yield negative_when(part.op, total)


def _share(name: str | None, test: LoopTest) -> tuple[int, Linear[Atom]]:
    """Return the factor and the sum, of terms with the variable `name`, that a test is cut along.

    For the guard of a tile, and without a name, that is the whole sum outside, else its largest
    term; the factor is 0 where there is none.
    """
    terms, inner = test.total.terms, test.inner.keys()
    outer = {atom: c for atom, c in terms.items() if _names(atom).isdisjoint(inner)}
    own = {a: c for a, c in terms.items() if name in _names(a)} if name is not None else outer
    if not own or not own.keys() <= outer.keys():
        return 0, Linear()
    within = {n for atom in terms.keys() - outer.keys() for n in _names(atom)}
    if name is None or (test.is_guard and within and within <= test.tile):
        factor = gcd(*outer.values())
        factor = factor if next(iter(outer.values())) > 0 else -factor
        return factor, Linear({atom: c // factor for atom, c in outer.items()})
    largest = max(own, key=lambda atom: abs(own[atom]))
    return own[largest], Linear({largest: 1})


def _places(test: LoopTest, factor: int, share: Linear[Atom], ranges: Ranges) -> list[int]:
    """Return where to cut the values of `share` to decide the test: nowhere if it does not pay.

    It pays if the values for which the test stays open are at most half of all, or one. A test
    that also depends on loops around must not stay open at all.
    """
    inner = test.inner
    rest = test.total.plus(share, -factor)
    low_high, span = linear_bounds(rest, {**ranges, **inner}), linear_bounds(share, ranges)
    if low_high is None or span is None:
        return []
    first, last = _open_values(factor, low_high)
    first, last = max(first, span[0]), min(last, span[1] + 1)
    is_open = max(0, last - first)
    is_alone = all(_names(other) <= inner.keys() | _all_names(share) for other in rest.terms)
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


def _all_names(total: Linear[Atom]) -> set[str]:
    return {name for atom in total.terms for name in _names(atom)}


def _reads_memory(atom: Atom) -> bool:
    return not isinstance(atom, str) and any(isinstance(part, Load) for part in walk(atom))
