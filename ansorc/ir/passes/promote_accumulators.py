"""Keep the accumulators of a reduction in registers: the explicit register tile.

for i.3, j.3:                                  Allocate C.reg[6, 16]
    C[i.3, j.3] = 0                            for i.3, j.3:
for k:                                             C.reg[i.3, j.3] = 0
    unrolled i.3:                              for k:
        vectorized j.3:                ->          unrolled i.3:
            C[i.3, j.3] += ...                         vectorized j.3:
                                                           C.reg[i.3, j.3] += ...
                                               for i.3, j.3:
                                                   C[i.3, j.3] = C.reg[i.3, j.3]

Compilers do this only for small constant indices (LLVM's scalar replacement of aggregates). A tile
in memory costs a load and a store for each multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from typing import assert_never

from ansorc.ir.expr import Load, MatrixLoad, MatrixMultiply
from ansorc.ir.passes.accesses import Accesses, is_accessed, is_loaded
from ansorc.ir.passes.register_hull import find_hull
from ansorc.ir.passes.register_tile import (
    PromotedTile,
    as_first_value,
    as_initial_value,
    as_read_out,
    find_tile,
    in_registers,
    load_tile,
    perfect_nest,
)
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    Function,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    statements,
)

_SEQUENTIAL = (LoopKind.SERIAL, LoopKind.UNROLLED)


def promote_accumulators(function: Function, register_bytes: int) -> Function:
    """Return `function` with accumulators in REGISTER buffers, as far out as is legal.

    The tiles of one loop take up to `register_bytes` bytes; larger ones stay in memory.
    """
    body = _Promotion(function, register_bytes).stmt(function.body, frozenset())
    return function if body is function.body else replace(function, body=body)


class _Promotion:
    def __init__(self, function: Function, register_bytes: int) -> None:
        self._accesses = Accesses(function.body)
        self._register_bytes = register_bytes
        self._uses: dict[str, int] = {}
        self._has_units = _has_matrices(function.body)

    def stmt(self, stmt: Stmt, done: frozenset[str]) -> Stmt:
        """Return `stmt` with accumulators promoted, except the buffers `done`."""
        match stmt:
            case Store() | Barrier() | Prefetch() | Await() | Check() | CallC():
                return stmt
            case For():
                return self._sequence((stmt,), done) or stmt
            case Seq(stmts):
                return self._sequence(stmts, done) or stmt
            case If(condition, then, otherwise):
                new = self.stmt(then, done)
                other = None if otherwise is None else self.stmt(otherwise, done)
                return stmt if new is then and other is otherwise else If(condition, new, other)
            case Allocate(buffer, body):
                return self._allocate(stmt, buffer.name, self.stmt(body, done))
            case _:
                assert_never(stmt)

    def _allocate(self, stmt: Allocate, name: str, body: Stmt) -> Stmt:
        if body is stmt.body:
            return stmt
        if name in self._uses and not is_loaded(body, name):
            return _without_stores(body, name) or Seq(())
        return Allocate(stmt.buffer, body)

    def _sequence(self, stmts: Sequence[Stmt], done: frozenset[str]) -> Stmt | None:
        """Return `stmts` with accumulators promoted; None if nothing changes."""
        result: list[Stmt] = []
        rest = list(reversed(stmts))
        while rest:
            stmt = rest.pop()
            tiles = self._tiles(stmt, done) if isinstance(stmt, For) else []
            if tiles and isinstance(stmt, For):
                updated = self._body(stmt, done.union(tile.buffer.name for tile in tiles))
                result.append(_scope(in_registers(updated, tiles), tiles, result, rest))
            elif isinstance(stmt, For):
                result.append(self._body(stmt, done))
            else:
                result.append(self.stmt(stmt, done))
        if len(result) == len(stmts) and all(map(is_, result, stmts)):
            return None
        return result[0] if len(result) == 1 else Seq(tuple(result))

    def _body(self, loop: For, done: frozenset[str]) -> For:
        body = self.stmt(loop.body, done)
        return loop if body is loop.body else replace(loop, body=body)

    def _tiles(self, loop: For, done: frozenset[str]) -> list[PromotedTile]:
        """Return the tiles that `loop` updates and that fit into registers."""
        if loop.kind not in (*_SEQUENTIAL, LoopKind.RAGGED) or (
            self._has_units and _has_matrices(loop)
        ):
            return []  # what matrix units add to is in registers already
        span, tiles, free = self._accesses.below(loop), list[PromotedTile](), self._register_bytes
        stored = {a.buffer.name: a.buffer for a in span.accesses if a.is_store}
        for name, buffer in stored.items():
            is_own = not any(a.is_atomic for a in span.accesses if a.buffer.name == name)
            if name in done or not is_own or not self._accesses.may_move(buffer, span):
                continue
            register = self._register_name(name)
            tile = find_tile(name, span, register) or find_hull(name, span, register)
            if tile is not None and tile.register.bytes <= free:
                free -= tile.register.bytes
                self._uses[name] = self._uses.get(name, 0) + 1
                tiles.append(tile)
        return tiles

    def _register_name(self, name: str) -> str:
        uses = self._uses.get(name, 0)
        return f"{name}.reg" if uses == 0 else f"{name}.reg{uses}"


def _has_matrices(root: Stmt) -> bool:
    values = (part.value for part in statements(root) if isinstance(part, Store))
    return any(isinstance(value, MatrixLoad | MatrixMultiply) for value in values)


def _scope(
    updated: Stmt, tiles: Sequence[PromotedTile], before: list[Stmt], after: list[Stmt]
) -> Stmt:
    """Return the loop `updated` between filling the registers and reading them out.

    Statements that can use the registers directly are removed from the end of `before`, and from
    `after`, whose next statement is its last.
    """
    first = [_fill(tile, before) for tile in tiles]
    last = [t.nest(t.buffer, t.indices, Load(t.register, t.element())) for t in tiles]
    while after and (read_out := _read_out(after[-1], tiles)) is not None:
        last.append(read_out)
        after.pop()
    scope: Stmt = Seq((*first, updated, *last))
    for tile in reversed(tiles):
        scope = Allocate(tile.register, scope)
    return scope


def _fill(tile: PromotedTile, before: list[Stmt]) -> Stmt:
    """Return the statement that fills the registers; it is removed from `before` if possible."""
    for position in reversed(range(len(before))):
        if is_accessed(before[position], tile.buffer.name):
            stmt = before[position]
            initial = as_initial_value(stmt, tile) or as_first_value(stmt, tile)
            if initial is None:
                break
            del before[position]
            return initial
    return load_tile(tile)


def _read_out(stmt: Stmt, tiles: Sequence[PromotedTile]) -> Stmt | None:
    _, _, store = perfect_nest(stmt)
    if store is None or any(tile.buffer.name == store.buffer.name for tile in tiles):
        return None
    result = None
    for tile in tiles:
        new = as_read_out(stmt if result is None else result, tile)
        result = result if new is None else new
    return result


def _without_stores(stmt: Stmt, name: str) -> Stmt | None:
    """Return `stmt` without stores and prefetches of a buffer that is never loaded, or None."""
    match stmt:
        case Store(buffer=buffer) | Prefetch(buffer=buffer):
            return None if buffer.name == name else stmt
        case For(body=body) | Allocate(body=body):
            new = _without_stores(body, name)
            return stmt if new is body else None if new is None else replace(stmt, body=new)
        case Seq(stmts):
            kept = [new for part in stmts if (new := _without_stores(part, name)) is not None]
            return Seq(tuple(kept)) if kept else None
        case If(condition, then, otherwise):
            new = _without_stores(then, name)
            other = None if otherwise is None else _without_stores(otherwise, name)
            return None if new is other is None else If(condition, new or Seq(()), other)
        case Barrier() | Await() | Check() | CallC():
            return stmt
        case _:
            assert_never(stmt)
