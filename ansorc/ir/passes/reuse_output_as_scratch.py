"""Compute a temporary row in the output, if the output is computed from it element by element.

alloc E[1, 1000]                           for k in 0..1000: C[i, k] = exp(X[i, k])
for k in 0..1000: E[0, k] = exp(X[i, k])   …
…                                      ->  for k in 0..1000: C[i, k] = C[i, k] * f
for k in 0..1000: C[i, k] = E[0, k] * f

A core reads a line before it writes to it. This then happens in the first loop, which computes
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
from ansorc.ir.stmt import (
    Allocate,
    CallC,
    For,
    Function,
    Seq,
    Stmt,
    Store,
    written_buffers,
)
from ansorc.ir.substitute import substitute


def reuse_output_as_scratch(function: Function, cache_bytes: int, most_bytes: int) -> Function:
    """Return `function` with rows larger than `cache_bytes` stored in the output.

    Only outputs of at most `most_bytes` are used.
    """
    parts = list(walk(function.body))
    written = written_buffers(function.body)
    read = {part.buffer for part in parts if isinstance(part, Load)}
    for part in parts:
        if isinstance(part, CallC):  # which needs whole arrays of their own
            read |= {*part.inputs, part.output}
    results = {
        buffer
        for buffer in {*function.params} - read
        if written.count(buffer) == 1 and buffer.bytes <= most_bytes and not buffer.sizes
    }

    def rule(old: Node) -> Node | None:
        if not isinstance(old, Allocate) or old.buffer.scope is not Scope.LOCAL:
            return None
        return _in_place(old, results) if old.buffer.bytes > cache_bytes else None

    return replace(function, body=rewrite(function.body, rule)) if results else function


def _in_place(stmt: Allocate, results: set[Buffer]) -> Stmt | None:
    """Return the body of `stmt` without its buffer, or None if the buffer must stay.

    The output that is used is removed from `results`.
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
    positions: Indices, indices: Indices, row: Buffer, loops: Sequence[For]
) -> list[Expr] | None:
    """Return the start of `row` in the output; None unless `loops` run over exactly the row."""
    extents = {loop.var: loop.extent for loop in loops}
    starts: list[Expr] = []
    for position, index, length in zip(positions, indices, row.shape, strict=True):
        if isinstance(index, Var) and step_along(position, index.name) == 1:
            if extents.pop(index, 0) != length:
                return None
            starts.append(substitute(position, {index.name: integer(0)}))
        elif length == 1 and index == integer(0):
            starts.append(position)
        else:
            return None
    moving = {loop.var for loop in loops} & {part for start in starts for part in walk(start)}
    return None if moving or any(extent > 1 for extent in extents.values()) else starts
