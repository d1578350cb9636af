"""Load neighbouring elements of a shared array as vectors in straight-line code.

                                          unrolled k.vector in 0..2:
                                              alloc S.row: float32[7, 4] local
unrolled k in 0..8:                           unrolled i in 0..7:
    unrolled i in 0..7:             ->            S.row[i, 0..4] = S[i, k.vector * 4 + 0..4]
        C[i] = C[i] + S[i, k] * w             unrolled k in 0..4:
                                                  unrolled i in 0..7:
                                                      C[i] = C[i] + S.row[i, k] * w

NVIDIA's compiler finds them, too, but it compares each load with all others: with 1024 products in
straight-line code this takes half of its time. The machine code is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from ansorc.ir.arith.affine import integer, linear
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Expr, Load, Ramp, Select, Var, dtype_of
from ansorc.ir.node import children, rewrite
from ansorc.ir.passes.gpu.private_arrays import MAX_REGISTERS
from ansorc.ir.passes.queries import flat_offset
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    For,
    Function,
    LoopKind,
    Seq,
    Stmt,
    Store,
    map_substatements,
    statements,
    substatements,
    with_body,
)
from ansorc.ir.substitute import free_vars, substitute
from ansorc.target.gpu import VECTOR_BYTES

_MOST_BYTES = 4 * MAX_REGISTERS
"""The largest array of elements that are loaded before they are needed."""


def join_loads(function: Function) -> Function:
    """Return `function` with vector loads; its shared arrays must have their final shape."""
    body = _JoinedLoads().stmt(function.body)
    return function if body is function.body else replace(function, body=body)


class _JoinedLoads:
    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        """The number of arrays with vectors of each buffer."""

    def stmt(self, stmt: Stmt) -> Stmt:
        """Return `stmt` with vectors loaded ahead of its unrolled loops, the outer ones first."""
        if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED:
            joinable = _joinable(stmt)
            if joinable:
                return self._join(stmt, joinable)
        return map_substatements(stmt, self.stmt)

    def _join(self, loop: For, joinable: Mapping[Load, tuple[int, tuple[For, ...]]]) -> Stmt:
        lanes = max(most for most, _ in joinable.values())
        count, lane, vector = loop.extent // lanes, loop.var, Var(f"{loop.var.name}.vector")
        start: Expr = integer(0)
        if count > 1:
            lane, start = Var(f"{loop.var.name}.lane"), vector * lanes
        values: dict[Load, Load] = {}
        stmts: list[Stmt] = []
        for load, (most, loops) in joinable.items():
            if most == lanes:
                row = self._row(load.buffer, (*(each.extent for each in loops), lanes))
                variables = tuple(each.var for each in loops)
                stmts.append(_fill_row(row, loops, load, {loop.var.name: start}))
                values[load] = Load(row, (*variables, lane))
        body = rewrite(loop.body, lambda old: values.get(old) if isinstance(old, Load) else None)
        body = substitute(body, {loop.var.name: start + lane}) if count > 1 else body
        stmts.append(self.stmt(For(lane, lanes, LoopKind.UNROLLED, body)))
        result: Stmt = Seq(tuple(stmts))
        for value in values.values():
            result = Allocate(value.buffer, result)
        return For(vector, count, LoopKind.UNROLLED, result) if count > 1 else result

    def _row(self, buffer: Buffer, shape: tuple[int, ...]) -> Buffer:
        number = self._rows[buffer.name] = self._rows.get(buffer.name, 0) + 1
        return Buffer(f"{buffer.name}.row{number}", shape, buffer.dtype, Scope.LOCAL)


def _fill_row(row: Buffer, loops: Sequence[For], load: Load, start: Mapping[str, Expr]) -> Stmt:
    """Return the loops that load the vectors of `row`, from the values `start` of variables on."""
    lanes = row.shape[-1]
    *outer, last = (substitute(index, start) for index in load.indices)
    value = Load(load.buffer, (*outer, Ramp(last, integer(1), lanes)))
    variables = (each.var for each in loops)
    stmt: Stmt = Store(row, (*variables, Ramp(integer(0), integer(1), lanes)), value)
    for each in reversed(loops):
        stmt = with_body(each, stmt)
    return stmt


def _joinable(loop: For) -> dict[Load, tuple[int, tuple[For, ...]]]:
    """Return the loads of neighbours in `loop`: their number, and the inner loops of each."""
    parts = list(statements(loop.body))
    if any(isinstance(part, Barrier | Await) for part in parts):
        return {}
    stored = {part.buffer.name for part in parts if isinstance(part, Store)}
    joinable: dict[Load, tuple[int, tuple[For, ...]]] = {}
    for load, loops in _loads(loop.body, ()):
        if load.buffer.scope is not Scope.SHARED or load.buffer.name in stored:
            continue
        names = free_vars(load)
        needed = tuple(each for each in loops if each.var.name in names)
        lanes = _lanes(load, loop) if loop.var.name in names else 1
        size = lanes * prod(each.extent for each in needed) * load.buffer.dtype.bytes
        is_straight = all(each.kind is LoopKind.UNROLLED for each in needed)
        if lanes > 1 and is_straight and size <= _MOST_BYTES:
            joinable[load] = lanes, needed
    return joinable


def _lanes(load: Load, loop: For) -> int:
    """Return the number of iterations of `loop` that load one aligned vector; 1 if none."""
    offset, name = flat_offset(load.buffer, load.indices), loop.var.name
    last = linear(load.indices[-1]) if load.indices else None
    if (
        offset is None
        or last is None
        or last.coefficient(name) != 1
        or offset.coefficient(name) != 1
    ):
        return 1
    others = {atom: factor for atom, factor in offset.terms.items() if atom != name}
    if any(not isinstance(atom, str) and name in free_vars(atom) for atom in others):
        return 1
    lanes = VECTOR_BYTES // load.buffer.dtype.bytes
    while lanes > 1 and (
        loop.extent % lanes or any(x % lanes for x in (offset.constant, *others.values()))
    ):
        lanes //= 2
    return max(lanes, 1)


def _loads(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[Load, tuple[For, ...]]]:
    """Yield the unconditional loads of `stmt`, and the loops of `stmt` around each."""
    match stmt:
        case For(body=body):
            yield from _loads(body, (*loops, stmt))
        case Seq() | Allocate():
            for part in substatements(stmt):
                yield from _loads(part, loops)
        case Store():
            for part in (*stmt.indices, stmt.value):
                yield from ((load, loops) for load in _scalars(part))
        case _:
            return


def _scalars(expr: Expr) -> Iterator[Load]:
    if isinstance(expr, Load) and dtype_of(expr).lanes == 1:
        yield expr
    if not isinstance(expr, Select):
        for part in children(expr):
            yield from _scalars(part)  # pyright: ignore[reportArgumentType]
