"""Compute whole tiles of a thread, including elements beyond the border, which are not stored.

for k in 0..8:                                  for k in 0..8:
    for i in 0..4:                                  for i in 0..4:
        if b * 4 + i < 30:               ->             C.local[i] = C.local[i] + S[k, i]
            C.local[i] = C.local[i] + S[k, i]

A test inside a register tile costs more than it saves, since it divides the straight-line code. If
a condition prevents every store of an element, the element is never used and may have any value.
Loads must still be legal: global memory is not loaded beyond its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ansorc.ir.arith.affine import Atom, atom_expr, difference
from ansorc.ir.arith.interval import Interval
from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Binary, BinaryOp, Compare, Const, Exchange, Expr, Load
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import is_inside
from ansorc.ir.passes.gpu.elements import evaluate
from ansorc.ir.passes.queries import flat_offset
from ansorc.ir.stmt import (
    Allocate,
    For,
    Function,
    If,
    LoopKind,
    Stmt,
    Store,
    map_substatements,
    substatements,
)
from ansorc.ir.substitute import free_vars

_MOST = 1 << 14
"""The most iterations of the loops around a store that are evaluated one by one."""

_DIVISIONS = (BinaryOp.FLOORDIV, BinaryOp.MOD)

_Test: TypeAlias = tuple[str, frozenset[tuple[Atom, int]]]
"""The operator of a comparison with 0, and the compared terms outside of the tile."""
_Table: TypeAlias = dict[int, int]
"""The part of the comparison that depends on the tile, by number of the element."""


def compute_whole_tiles(function: Function) -> Function:
    """Return `function` without tests that are the same for all stores of an element."""
    body = _WholeTiles().stmt(function.body, {})
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True, eq=False)
class _GuardedStore:
    store: Store
    loops: tuple[For, ...]
    """The loops inside the allocation."""
    tests: Mapping[Expr, tuple[_Test, _Table]]
    """The conditions on elements around the store."""


class _WholeTiles:
    def stmt(self, stmt: Stmt, ranges: Mapping[str, Interval]) -> Stmt:
        match stmt:
            case For(var, extent, _, _):
                inner = {**ranges, var.name: (0, extent - 1)}
                return map_substatements(stmt, lambda part: self.stmt(part, inner))
            case Allocate(buffer, _) if buffer.scope in (Scope.LOCAL, Scope.REGISTER):
                new = map_substatements(stmt, lambda part: self.stmt(part, ranges))
                assert isinstance(new, Allocate)
                body = _without_tests(new.body, buffer, ranges)
                return new if body is new.body else Allocate(buffer, body)
            case _:
                return map_substatements(stmt, lambda part: self.stmt(part, ranges))


def _without_tests(body: Stmt, buffer: Buffer, ranges: Mapping[str, Interval]) -> Stmt:
    stores = list(_stores(body, buffer, (), ()))
    removable = {
        id(each.store): {
            expr
            for expr, test in each.tests.items()
            if all(other is each or _has(other, *test) for other in stores)
        }
        for each in stores
    }
    if not any(removable.values()):
        return body
    return _Removal(buffer, removable).stmt(body, dict(ranges))


def _has(stored: _GuardedStore, test: _Test, table: _Table) -> bool:
    """Return whether the store is under that condition, for the elements of both."""
    return any(
        mine == test
        and all(table.get(element, value) == value for element, value in values.items())
        for mine, values in stored.tests.values()
    )


class _Removal:
    def __init__(self, buffer: Buffer, removable: dict[int, set[Expr]]) -> None:
        self._buffer, self._removable = buffer, removable
        self._is_by_units = False
        """Whether the current statement is inside a MATRIX loop."""

    def stmt(self, stmt: Stmt, ranges: dict[str, Interval]) -> Stmt:
        match stmt:
            case For(var, extent, kind, _):
                inner = {**ranges, var.name: (0, extent - 1)}
                self._is_by_units = self._is_by_units or kind is LoopKind.MATRIX
                new = map_substatements(stmt, lambda part: self.stmt(part, inner))
                self._is_by_units = self._is_by_units and kind is not LoopKind.MATRIX
                return new
            case If(condition, Store() as store, None) if store.buffer == self._buffer:
                return self._drop_tests(condition, store, store, ranges)
            case If(condition, For() as loop, None) if self._is_by_units:
                parts = list(_nest_parts(loop))  # of warps, which matrix units need whole
                if not isinstance(parts[-1], Store) or parts[-1].buffer != self._buffer:
                    return stmt
                loops = [part for part in parts if isinstance(part, For)]
                inner = {**ranges, **{each.var.name: (0, each.extent - 1) for each in loops}}
                return self._drop_tests(condition, loop, parts[-1], inner)
            case _:
                return map_substatements(stmt, lambda part: self.stmt(part, ranges))

    def _drop_tests(
        self, condition: Expr, then: Stmt, store: Store, ranges: Mapping[str, Interval]
    ) -> Stmt:
        """Return `then`, which only does `store`, under the rest of `condition`."""
        drop = self._removable.get(id(store), set[Expr]())
        if not drop or not _is_safe(store, ranges):
            return If(condition, then)
        kept = [part for part in conjuncts(condition) if part not in drop]
        return If(conjunction(kept), then) if kept else then


def _nest_parts(stmt: Stmt) -> Iterator[Stmt]:
    """Yield the loops of a nest, and the statement inside them."""
    yield stmt
    if isinstance(stmt, For):
        yield from _nest_parts(stmt.body)


def _is_safe(store: Store, ranges: Mapping[str, Interval]) -> bool:
    """Return whether the value of `store` may be computed even if it is not used."""
    for part in walk(store.value):
        if isinstance(part, Exchange):
            return False
        if isinstance(part, Load) and not is_inside(part.buffer, part.indices, ranges):
            return False
        if isinstance(part, Binary) and part.op in _DIVISIONS and not _is_count(part.right):
            return False
    return is_inside(store.buffer, store.indices, ranges)


def _is_count(divisor: Expr) -> bool:
    return isinstance(divisor, Const) and divisor.value > 0


def _stores(
    stmt: Stmt, buffer: Buffer, loops: tuple[For, ...], guards: tuple[Expr, ...]
) -> Iterator[_GuardedStore]:
    match stmt:
        case For():
            yield from _stores(stmt.body, buffer, (*loops, stmt), guards)
        case If(condition, then, otherwise):
            yield from _stores(then, buffer, loops, (*guards, *conjuncts(condition)))
            if otherwise is not None:
                yield from _stores(otherwise, buffer, loops, guards)
        case Store() if stmt.buffer == buffer:
            tests: dict[Expr, tuple[_Test, _Table]] = {}
            for guard in guards:
                element_test = _of_elements(guard, stmt, loops)
                if element_test is not None:
                    tests[guard] = element_test
            yield _GuardedStore(stmt, loops, tests)
        case _:
            for part in substatements(stmt):
                yield from _stores(part, buffer, loops, guards)


def _of_elements(guard: Expr, store: Store, loops: tuple[For, ...]) -> tuple[_Test, _Table] | None:
    """Return `guard` as a condition on the stored element; None if it is another condition."""
    if not isinstance(guard, Compare):
        return None
    total, start = difference(guard.left, guard.right), flat_offset(store.buffer, store.indices)
    extents = {loop.var.name: loop.extent for loop in loops}
    if total is None or start is None:
        return None
    moving: list[tuple[Expr, int]] = []
    besides: set[tuple[Atom, int]] = set()
    for atom, factor in total.terms.items():
        names = {atom} if isinstance(atom, str) else free_vars(atom)
        if names.isdisjoint(extents):
            if not isinstance(atom, str) and any(isinstance(x, Load) for x in walk(atom)):
                return None
            besides.add((atom, factor))
        else:
            moving.append((atom_expr(atom), factor))
    at = [(atom_expr(atom), factor) for atom, factor in start.terms.items()]
    used = {n for expr, _ in (*moving, *at) for n in free_vars(expr)} & extents.keys()
    count = int(np.prod([float(extents[name]) for name in used], initial=1.0))
    if count > _MOST or any(not free_vars(expr) <= extents.keys() for expr, _ in (*moving, *at)):
        return None
    names = sorted(used)
    grid = np.meshgrid(*(np.arange(extents[n]) for n in names), indexing="ij")
    values = {name: axis.ravel() for name, axis in zip(names, grid, strict=True)}
    places, offsets = np.full(count, start.constant), np.full(count, total.constant)
    for expr, factor in at:
        value = evaluate(expr, values)
        if value is None:
            return None
        places = places + factor * value
    for expr, factor in moving:
        value = evaluate(expr, values)
        if value is None:
            return None
        offsets = offsets + factor * value
    table: _Table = {}
    for element, offset in zip(places.tolist(), offsets.tolist(), strict=True):
        if table.setdefault(element, offset) != offset:
            return None
    return (guard.op.value, frozenset(besides)), table
