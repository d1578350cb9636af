"""Find the tests below a loop, and the values of its variable for which they are decided.

A test is an order comparison of affine sums in the condition of an If or of a Select. For example,
`v*6 + i < 20` with v in 0 … 3 and i in 0 … 5 holds for v < 3, and is open for v = 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from ansorc.ir.arith.affine import Atom, Linear, difference
from ansorc.ir.arith.integer import negative_when
from ansorc.ir.arith.interval import Interval, Ranges, linear_bounds
from ansorc.ir.dim import MARK
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Expr, Load, Select, Var
from ansorc.ir.node import walk
from ansorc.ir.passes.code_size import count_stores
from ansorc.ir.stmt import For, If, LoopKind, Seq, Stmt, Store, statements, substatements

_TILE_KINDS = (LoopKind.UNROLLED, LoopKind.VECTORIZED)
_ORDERS = (CompareOp.LT, CompareOp.LE, CompareOp.GT, CompareOp.GE)


@dataclass(frozen=True, slots=True)
class LoopTest:
    """A test of the program: it holds if `total` is negative."""

    total: Linear[Atom]
    loops: tuple[For, ...]
    """The loops between the start of the search and the test, the outermost first."""
    is_guard: bool
    """Whether it decides if statements run (an If), not which value is chosen (a Select)."""
    placing: frozenset[str] = frozenset()
    """The variables in the indices of every store that it guards."""
    is_cut_off: bool = False
    """Whether it decides where an index is cut off, which lanes cannot do without gathering."""

    @property
    def inner(self) -> dict[str, Interval]:
        """The bounds of the variables of `loops`."""
        return {loop.var.name: loop.span for loop in self.loops}

    @property
    def tile(self) -> set[str]:
        """The variables of those `loops` that become copies or lanes."""
        return {loop.var.name for loop in self.loops if loop.kind in _TILE_KINDS}

    def depends_on(self, name: str) -> bool:
        """Return whether the variable `name` occurs in the test."""
        return any(name in _names(atom) for atom in self.total.terms)

    def is_of_a_tile_inside(self) -> bool:
        """Return whether it guards a tile that moves along one of `loops`, not a reduction.

        Return True also if one of `loops` with another loop inside changes the size of the tile.
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
    """The cuts of the values low … high of the sum `share`: each place begins a new range."""

    share: Linear[Atom]
    low: int
    high: int
    places: tuple[int, ...]
    has_cut_off: bool = False
    """Whether they decide where indices are cut off."""

    @property
    def expr(self) -> Expr:
        """Return `share` as an expression."""
        return self.share.to_expr()

    def ranges(self) -> list[Interval]:
        """Return the ranges, inclusive, from low to high."""
        starts = (self.low, *self.places)
        ends = (*(start - 1 for start in self.places), self.high)
        return list(zip(starts, ends, strict=True))


def find_cuts(name: str | None, tests: Sequence[LoopTest], ranges: Ranges) -> list[Cuts]:
    """Return the cuts of the variable `name`, and of expressions of it, that decide `tests`.

    Without a `name`, return cuts of expressions of all variables around. `ranges` bounds these
    variables. Cuts that decide guards come first, then those with the largest coefficients.
    """
    shares: dict[Expr, Linear[Atom]] = {}
    places: dict[Expr, set[int]] = {}
    ranks: dict[Expr, tuple[bool, int]] = {}
    cut_off = set[Expr]()
    for test in tests:
        factor, share = _share(name, test)
        starts = _places(test, factor, share, ranges) if factor else []
        if starts:
            key = share.to_expr()
            shares[key] = share
            places.setdefault(key, set()).update(starts)
            rank = (test.is_guard, abs(factor))
            ranks[key] = max(rank, ranks.get(key, rank))
            cut_off |= {key} if test.is_cut_off else set()
    cuts: list[Cuts] = []
    for key in sorted(places, key=lambda key: ranks[key], reverse=True):
        low, high = linear_bounds(shares[key], ranges) or (0, 0)
        cuts.append(Cuts(shares[key], low, high, tuple(sorted(places[key])), key in cut_off))
    return cuts


class TestFinder:
    """Finds the tests below statements, with a cache for each store and guard."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Stmt, tuple[Linear[Atom], ...], frozenset[str]]] = {}
        self._stores: dict[int, tuple[Stmt, int]] = {}
        self._chosen: dict[int, tuple[Store, tuple[tuple[Linear[Atom], bool], ...]]] = {}

    def tests(self, stmt: Stmt, loops: tuple[For, ...] = ()) -> Iterator[LoopTest]:
        """Yield the tests in `stmt`, which is inside `loops`, without those on data."""
        match stmt:
            case Store():
                for total, is_cut_off in self._choices_of(stmt):
                    yield LoopTest(total, loops, is_guard=False, is_cut_off=is_cut_off)
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
        """Return whether `part` runs a loop, but does less than half of the work of `whole`.

        The tests of such a part are decided inside it, so that the rest is not copied.
        """
        return _runs(part) and 2 * self._work(part) < self._work(whole)

    def _work(self, stmt: Stmt) -> int:
        known = self._stores.get(id(stmt))
        if known is None:
            known = self._stores[id(stmt)] = stmt, count_stores(stmt)
        return known[1]

    def _choices_of(self, store: Store) -> tuple[tuple[Linear[Atom], bool], ...]:
        """Return the tests of values and of indices in `store`, and whether of an index."""
        known = self._chosen.get(id(store))
        if known is None:
            known = self._chosen[id(store)] = store, tuple(_choices(store))
        return known[1]

    def _totals(self, stmt: If) -> tuple[Stmt, tuple[Linear[Atom], ...], frozenset[str]]:
        """Return `stmt`, the totals of its tests, and the variables in indices of its stores."""
        known = self._known.get(id(stmt))
        if known is None:
            known = stmt, tuple(_orders(stmt.condition)), _placing(stmt)
            self._known[id(stmt)] = known
        return known


def _is_cheap(guard: If) -> bool:
    """Return whether `guard` is around a loop that runs, so that it is tested rarely."""
    return guard.otherwise is None and _runs(guard.then)


def _runs(stmt: Stmt) -> bool:
    """Return whether `stmt` has a loop that remains a loop in the code."""
    return any(is_serial(part) for part in statements(stmt))


def is_serial(stmt: Stmt) -> bool:
    """Return whether `stmt` is a serial loop of several iterations."""
    return isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL and stmt.extent > 1


def _choices(store: Store) -> Iterator[tuple[Linear[Atom], bool]]:
    """Yield the sums that are negative if a Select of `store` takes its first value.

    Also those that decide where an index that is cut off is cut off; they come with True.
    """
    for expr in (*store.indices, store.value):
        for part in walk(expr):
            if isinstance(part, Select):
                for total in _orders(part.condition):
                    yield total, False
            elif isinstance(part, Load):
                for index in part.indices:
                    for total in _cut_offs(index):
                        yield total, True


def _cut_offs(index: Expr) -> Iterator[Linear[Atom]]:
    """Yield the sums that are negative where `index`, if it is cut off, is within its limits."""
    for part in walk(index):
        if isinstance(part, Binary) and part.op in (BinaryOp.MIN, BinaryOp.MAX):
            low, high = (
                (part.left, part.right) if part.op is BinaryOp.MIN else (part.right, part.left)
            )
            total = difference(low, high)
            if total is not None and not any(map(_reads_memory, total.terms)):
                yield negative_when(CompareOp.LE, total)


def _placing(root: Stmt) -> frozenset[str]:
    """Return the variables in the indices of every store below `root`."""
    stores = [part for part in statements(root) if isinstance(part, Store)]
    names = [frozenset(n for index in store.indices for n in _names(index)) for store in stores]
    return reduce(frozenset[str].intersection, names) if names else frozenset()


def _orders(condition: Expr) -> Iterator[Linear[Atom]]:
    """Yield the sum that is negative if it holds, for each order comparison in `condition`."""
    for part in walk(condition):
        if not isinstance(part, Compare) or part.op not in _ORDERS:
            continue
        total = difference(part.left, part.right)
        if total is None or any(_reads_memory(atom) for atom in total.terms):
            continue
        yield negative_when(part.op, total)


def _share(name: str | None, test: LoopTest) -> tuple[int, Linear[Atom]]:
    """Return the factor and the sum of terms with `name` along which a test is cut.

    For the guard of a tile, and without a name, this is the whole sum outside, else its largest
    term. The factor is 0 if there is none.
    """
    terms, inner = test.total.terms, test.inner.keys()
    outer = {atom: c for atom, c in terms.items() if _names(atom).isdisjoint(inner)}
    selected = {a: c for a, c in terms.items() if name in _names(a)} if name is not None else outer
    if not selected or not selected.keys() <= outer.keys():
        return 0, Linear()
    within = {n for atom in terms.keys() - outer.keys() for n in _names(atom)}
    is_sized = any(n.startswith(MARK) for atom in outer for n in _names(atom))
    if name is None or is_sized or (test.is_guard and within and within <= test.tile):
        factor = gcd(*outer.values())
        factor = factor if next(iter(outer.values())) > 0 else -factor
        return factor, Linear({atom: c // factor for atom, c in outer.items()})
    largest = max(selected, key=lambda atom: abs(selected[atom]))
    return selected[largest], Linear({largest: 1})


def _places(test: LoopTest, factor: int, share: Linear[Atom], ranges: Ranges) -> list[int]:
    """Return the cuts of the values of `share` that decide the test; none if it does not pay.

    It pays if the test stays open for at most half of the values, or for one. A test that also
    depends on loops around must not stay open at all.
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
    return [start for start in {first, last} if span[0] < start <= span[1]]


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
