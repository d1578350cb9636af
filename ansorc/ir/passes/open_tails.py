"""Compute what a tile holds beyond the end, where nobody reads it, instead of testing each row.

if r + b < n:                             T[r] = 0
    T[r] = 0
for k: if r + b < n:               ->     for k: T[r] = T[r] + A[min(r + b, n - 1), k]
    T[r] = T[r] + A[r + b, k]
if r + b < n: C[r + b] = T[r]             if r + b < n: C[r + b] = T[r]

All accesses of the local T are under one test of its index, so elements for which it fails are
never seen: they may be anything. What is read for them is that of the last row, which exists. The
tile that the end of a run-time extent cuts off is then as fast as a whole one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ansorc.ir.arith.affine import Atom, Linear, difference, linear
from ansorc.ir.arith.interval import Ranges, linear_bounds
from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dim import MARK
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Checked,
    Compare,
    CompareOp,
    Expr,
    Load,
    Var,
    dtype_of,
)
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.operator import DIVISIONS
from ansorc.ir.passes.accesses import Accesses, BufferAccess, is_inside
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.stmt import Allocate, For, Function, If, Stmt, Store, map_substatements
from ansorc.ir.substitute import free_vars


def open_tails(function: Function) -> Function:
    """Return `function` without tests of rows of local tiles that nobody reads."""
    if not function.dims:
        return function
    return replace(function, body=_Opening({}).stmt(function.body))


@dataclass(frozen=True)
class _End:
    """A test `index + rest < 0` along a dimension of a buffer, under which all accesses are."""

    buffer: Buffer
    dimension: int
    rest: tuple[tuple[Atom, int], ...]
    constant: int


class _Opening:
    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def stmt(self, stmt: Stmt) -> Stmt:
        """Return `stmt` with the tests of tiles that are allocated in it removed."""
        if isinstance(stmt, For):
            inner = _Opening({**self._ranges, stmt.var.name: stmt.span})
            return map_substatements(stmt, inner.stmt)
        if isinstance(stmt, Allocate) and stmt.buffer.scope is Scope.LOCAL:
            ends = _common_ends(stmt.buffer, stmt.body)
            for end in ends:
                opened = _opened(stmt.body, end, self._ranges)
                stmt = stmt if opened is stmt.body else Allocate(stmt.buffer, opened)
        return map_substatements(stmt, self.stmt)


def _common_ends(buffer: Buffer, body: Stmt) -> list[_End]:
    """Return the tests under which all accesses of `buffer` in `body` are."""
    own = [access for access in Accesses(body).all if access.buffer.name == buffer.name]
    moving = {loop.var.name for access in own for loop in access.loops}
    if not own or any(access.buffer != buffer for access in own):
        return []
    found = dict.fromkeys(end for access in own for end in _ends_of(access, moving))
    return [end for end in found if all(_is_under(access, end) for access in own)]


def _is_under(access: BufferAccess, end: _End) -> bool:
    """Return whether the tests around an access say that it is before `end`."""
    place = linear(access.indices[end.dimension])
    if place is None:
        return False
    total = Linear(dict(end.rest), end.constant).plus(place)
    ranges = {loop.var.name: loop.span for loop in access.loops}
    for guard in access.place.guards:
        for part in conjuncts(guard.condition):
            known = _negative_total(part)
            behind = None if known is None else linear_bounds(total.plus(known, -1), ranges)
            if behind is not None and behind[1] <= 0:
                return True
    return False


def _ends_of(access: BufferAccess, moving: set[str]) -> Iterator[_End]:
    """Yield the tests around an access that depend on one of its indices, and not on loops."""
    for guard in access.place.guards:
        for part in conjuncts(guard.condition):
            yield from _as_ends(part, access.buffer, access.indices, moving)


def _as_ends(
    test: Expr, buffer: Buffer, indices: Sequence[Expr], moving: set[str]
) -> Iterator[_End]:
    total = _negative_total(test)
    for dimension, index in enumerate(indices if total is not None else ()):
        place = None if reads_memory(index) else linear(index)
        if total is None or place is None or not place.terms:
            continue
        rest = total.plus(place, -1)
        names = {name for atom in rest.terms for name in _names(atom)}
        if moving.isdisjoint(names) and any(name.startswith(MARK) for name in names):
            terms = tuple(sorted(rest.terms.items(), key=str))
            yield _End(buffer, dimension, terms, rest.constant)


def _negative_total(test: Expr) -> Linear[Atom] | None:
    """Return the sum that is negative where an order of scalars holds; None for other tests."""
    if not isinstance(test, Compare) or dtype_of(test).lanes > 1 or reads_memory(test):
        return None
    match test.op:
        case CompareOp.LT | CompareOp.LE:
            total = difference(test.left, test.right)
        case CompareOp.GT | CompareOp.GE:
            total = difference(test.right, test.left)
        case _:
            return None
    is_strict = test.op in (CompareOp.LT, CompareOp.GT)
    return total if total is None or is_strict else total.offset_by(-1)


def _opened(stmt: Stmt, end: _End, ranges: Ranges, loops: tuple[str, ...] = ()) -> Stmt:
    """Return `stmt` with stores to the buffer of `end` that are not under its test any more."""
    match stmt:
        case For(var):
            inner = {**ranges, var.name: stmt.span}
            return map_substatements(stmt, lambda s: _opened(s, end, inner, (*loops, var.name)))
        case If(condition, then, None):
            parts = conjuncts(condition)
            kept = [part for part in parts if not _is_end(part, then, end, set(loops))]
            opened = _without_end(then, end, ranges) if len(kept) < len(parts) else None
            if opened is not None:
                return If(conjunction(kept), opened) if kept else opened
        case _:
            pass
    return map_substatements(stmt, lambda part: _opened(part, end, ranges, loops))


def _is_end(test: Expr, then: Stmt, end: _End, moving: set[str]) -> bool:
    """Return whether `test` is that of `end` for the store that it guards."""
    store = _only_store(then)
    if store is None or store.buffer != end.buffer:
        return False
    inside = {name for index in store.indices for name in free_vars(index)}
    return end in _as_ends(test, store.buffer, store.indices, moving | inside)


def _only_store(stmt: Stmt) -> Store | None:
    while isinstance(stmt, For):
        stmt = stmt.body
    return stmt if isinstance(stmt, Store) else None


def _without_end(stmt: Stmt, end: _End, ranges: Ranges) -> Stmt | None:
    """Return the store in `stmt` for all indices, reading what exists; None if it cannot be."""
    if isinstance(stmt, For):
        body = _without_end(stmt.body, end, {**ranges, stmt.var.name: stmt.span})
        return body and replace(stmt, body=body)
    if not isinstance(stmt, Store) or not is_inside(stmt.buffer, stmt.indices, ranges):
        return None
    for part in walk(stmt.value):
        if isinstance(part, Checked) or (isinstance(part, Binary) and part.op in DIVISIONS):
            return None
    place = linear(stmt.indices[end.dimension])
    assert place is not None
    total = Linear(dict(end.rest), end.constant).plus(place)
    reader = _Reader(end.buffer, total, ranges)
    value = rewrite(stmt.value, reader.rule)
    return replace(stmt, value=value) if reader.is_safe else None


@dataclass
class _Reader:
    """Moves loads to places that exist where `total` is not negative."""

    own: Buffer
    total: Linear[Atom]
    ranges: Ranges
    is_safe: bool = True

    def rule(self, node: Node) -> Node | None:
        """Return a load of the last row instead of one beyond it."""
        if not isinstance(node, Load) or node.buffer == self.own:
            return None
        if is_inside(node.buffer, node.indices, self.ranges):
            return None
        moved = self._moved(node.indices)
        self.is_safe &= moved is not None
        return None if moved is None else Load(node.buffer, moved)

    def _moved(self, indices: Sequence[Expr]) -> tuple[Expr, ...] | None:
        """Return the indices with the only one that follows the test cut off; None for others."""
        varying = {name for atom in self.total.terms for name in _names(atom)}
        varying = {name for name in varying if not name.startswith(MARK)}
        following = [n for n, index in enumerate(indices) if varying & free_vars(index)]
        if len(following) != 1 or any(map(reads_memory, indices)):
            return None
        (number,) = following
        place = linear(indices[number])
        limit = None if place is None else place.plus(self.total, -1)
        if limit is None or varying & {n for atom in limit.terms for n in _names(atom)}:
            return None
        last = limit.offset_by(-1).to_expr()
        cut = Binary(BinaryOp.MIN, indices[number], last)
        return (*indices[:number], cut, *indices[number + 1 :])


def _names(atom: Atom) -> set[str]:
    if isinstance(atom, str):
        return {atom}
    return {part.name for part in walk(atom) if isinstance(part, Var)}
