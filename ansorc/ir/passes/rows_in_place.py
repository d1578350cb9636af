"""Compute a row where its result belongs, if that follows from it element by element.

alloc E[1, 1000]                           for k in 0..1000: C[i, k] = exp(X[i, k])
for k in 0..1000: E[0, k] = exp(X[i, k])   …
…                                      ->  for k in 0..1000: C[i, k] = C[i, k] * f
for k in 0..1000: C[i, k] = E[0, k] * f

A core reads a line before it writes to it: that is then part of the first pass, which computes
more, and the caches hold one row less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansorc.ir.arith.affine import integer, step_along
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Expr, Indices, Load, Var
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.passes.register_tile import perfect_nest
from ansorc.ir.stmt import Allocate, For, Function, Seq, Stmt, Store
from ansorc.ir.substitute import substitute


def rows_in_place(function: Function, cache_bytes: int, most_bytes: int) -> Function:
    """Return `function` with rows larger than `cache_bytes` in their place.

    Results are not larger than `most_bytes`.
    """
    parts = list(walk(function.body))
    written = [part.buffer for part in parts if isinstance(part, Store)]
    read = {part.buffer for part in parts if isinstance(part, Load)}
    results = {
        buffer
        for buffer in {*function.params} - read
        if written.count(buffer) == 1 and buffer.bytes <= most_bytes
    }

    def rule(old: Node) -> Node | None:
        if not isinstance(old, Allocate) or old.buffer.scope is not Scope.LOCAL:
            return None
        return _in_place(old, results) if old.buffer.bytes > cache_bytes else None

    return replace(function, body=rewrite(function.body, rule)) if results else function


def _in_place(stmt: Allocate, results: set[Buffer]) -> Stmt | None:
    """Return what `stmt` does without its buffer, None where that has to stay.

    The result is taken out of `results`.
    """
    row, (loops, guards, store) = stmt.buffer, perfect_nest(_last(stmt.body))
    if store is None or guards or store.buffer not in results:
        return None
    result = store.buffer
    loads = {part for part in walk(store.value) if isinstance(part, Load) and part.buffer == row}
    if len(loads) != 1 or (row.dtype, len(row.shape)) != (result.dtype, len(result.shape)):
        return None
    starts = _starts(store.indices, loads.pop().indices, row, loops)
    if starts is None:
        return None
    results.remove(result)

    def rule(old: Node) -> Node | None:
        if isinstance(old, Load | Store) and old.buffer == row:
            moved = tuple(simplify(a + b) for a, b in zip(starts, old.indices, strict=True))
            return replace(old, buffer=result, indices=moved)
        return None

    return rewrite(stmt.body, rule)


def _last(stmt: Stmt) -> Stmt:
    while isinstance(stmt, Seq | Allocate):
        stmt = stmt.stmts[-1] if isinstance(stmt, Seq) else stmt.body
    return stmt


def _starts(
    places: Indices, indices: Indices, row: Buffer, loops: Sequence[For]
) -> list[Expr] | None:
    """Return where `row` begins in the result, None unless `loops` go through exactly the row."""
    extents = {loop.var: loop.extent for loop in loops}
    starts: list[Expr] = []
    for place, index, length in zip(places, indices, row.shape, strict=True):
        if isinstance(index, Var) and step_along(place, index.name) == 1:
            if extents.pop(index, 0) != length:
                return None
            starts.append(substitute(place, {index.name: integer(0)}))
        elif length == 1 and index == integer(0):
            starts.append(place)
        else:
            return None
    moving = {loop.var for loop in loops} & {part for start in starts for part in walk(start)}
    return None if moving or any(extent > 1 for extent in extents.values()) else starts
