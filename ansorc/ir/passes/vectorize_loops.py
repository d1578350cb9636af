"""Turn loops marked VECTORIZED into statements on vectors of the machine's width.

vectorized j in 0..14:              X[ramp(0, 1, 8)] = broadcast(1, 8)
    X[j] = 1                 ->     X[ramp(8, 1, 4)] = broadcast(1, 4)
                                    X[ramp(12, 1, 2)] = broadcast(1, 2)

A loop whose iterations depend on each other, or go apart, runs serially instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.interval import Interval
from ansorc.ir.buffer import Scope
from ansorc.ir.expr import Expr, Var
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import Accesses
from ansorc.ir.passes.independence import are_iterations_independent
from ansorc.ir.passes.widen import uses_registers, widen
from ansorc.ir.passes.widen_expr import Lanes, NotWidenableError
from ansorc.ir.stmt import Allocate, Barrier, For, Function, If, LoopKind, Seq, Stmt, Store

MAX_UNROLLED_CHUNKS = 16
"""More vectors than this run in a loop, lest the code outgrow the instruction cache."""


def vectorize_loops(function: Function, vector_bytes: int) -> Function:
    """Return `function` without VECTORIZED loops, on vectors of `vector_bytes` bytes.

    The widest element that a loop accesses decides how many lanes it has.
    """
    body = _Vectorizing(function, vector_bytes).stmt(function.body, {})
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True, slots=True)
class _Piece:
    """`chunks` vectors of `lanes` lanes from `start` on."""

    start: int
    chunks: int
    lanes: int


class _Vectorizing:
    def __init__(self, function: Function, vector_bytes: int) -> None:
        self._accesses = Accesses(function.body)
        self._vector_bytes = vector_bytes
        self._widest = _widest_elements(self._accesses)

    def stmt(self, stmt: Stmt, ranges: dict[str, Interval]) -> Stmt:
        match stmt:
            case Store() | Barrier():
                return stmt
            case For(var, extent, kind, body, _):
                if kind is LoopKind.VECTORIZED:
                    return self._vectorized(stmt, ranges)
                new = self.stmt(body, {**ranges, var.name: (0, extent - 1)})
                return stmt if new is body else replace(stmt, body=new)
            case If(condition, then, otherwise):
                new = self.stmt(then, ranges)
                other = None if otherwise is None else self.stmt(otherwise, ranges)
                return stmt if new is then and other is otherwise else If(condition, new, other)
            case Seq(stmts):
                parts = tuple(self.stmt(part, ranges) for part in stmts)
                unchanged = all(new is old for new, old in zip(parts, stmts, strict=True))
                return stmt if unchanged else Seq(parts)
            case Allocate(buffer, body):
                new = self.stmt(body, ranges)
                return stmt if new is body else Allocate(buffer, new)
            case _:
                assert_never(stmt)

    def _vectorized(self, loop: For, ranges: dict[str, Interval]) -> Stmt:
        span = self._accesses.below(loop)
        private = {n for n, depth in self._accesses.allocated.items() if depth > span.depth}
        if _contains_vectorized(loop.body) or not are_iterations_independent(span, private):
            return self._sequential(loop, ranges)
        native = max(1, self._vector_bytes // self._widest[id(loop)])
        try:
            parts = [_widened(loop, piece, ranges) for piece in _pieces(loop.extent, native)]
        except NotWidenableError:
            return self._sequential(loop, ranges)
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def _sequential(self, loop: For, ranges: dict[str, Interval]) -> Stmt:
        kind = LoopKind.UNROLLED if uses_registers(loop.body) else LoopKind.SERIAL
        return self.stmt(replace(loop, kind=kind), ranges)


def _widened(loop: For, piece: _Piece, ranges: dict[str, Interval]) -> Stmt:
    if piece.chunks == 1:
        lanes = Lanes(loop.var.name, integer(piece.start), piece.lanes, dict(ranges))
        return widen(loop.body, lanes)
    chunk = Var(f"{loop.var.name}.chunk")
    within = {**ranges, chunk.name: (0, piece.chunks - 1)}
    base: Expr = chunk * piece.lanes
    body = widen(loop.body, Lanes(loop.var.name, base, piece.lanes, within))
    unrolled = piece.chunks <= MAX_UNROLLED_CHUNKS or uses_registers(loop.body)
    kind = LoopKind.UNROLLED if unrolled else LoopKind.SERIAL
    return For(chunk, piece.chunks, kind, body)


def _pieces(extent: int, native: int) -> list[_Piece]:
    """Return native vectors for 0 … extent - 1, and powers of two of lanes for what is left."""
    whole = extent // native
    pieces = [_Piece(0, whole, native)] if whole else []
    start, lanes = whole * native, 1 << max(0, (native - 1).bit_length() - 1)
    while start < extent:
        if start + lanes <= extent:
            pieces.append(_Piece(start, 1, lanes))
            start += lanes
        lanes = max(1, lanes // 2)
    return pieces


def _contains_vectorized(stmt: Stmt) -> bool:
    return any(isinstance(part, For) and part.kind is LoopKind.VECTORIZED for part in walk(stmt))


def _widest_elements(accesses: Accesses) -> dict[int, int]:
    """Return the bytes of the widest element each VECTORIZED loop accesses, by the loop's id.

    Loops that share a register tile get the widest of them all: a tile is cut into vectors in
    one way only, or it would not stay in registers.
    """
    spans = [span for span in accesses.spans() if span.loop.kind is LoopKind.VECTORIZED]
    widest = {id(span.loop): 1 for span in spans}
    tiles: dict[str, int] = {}
    changed = True
    while changed:
        changed = False
        for span in spans:
            buffers = {access.buffer.name: access.buffer for access in span.accesses}.values()
            sizes = [max(b.dtype.bytes, tiles.get(b.name, 1)) for b in buffers]
            size = max([widest[id(span.loop)], *sizes])
            shared = {b.name: size for b in buffers if b.scope is Scope.REGISTER}
            changed |= size > widest[id(span.loop)] or any(tiles.get(n) != size for n in shared)
            widest[id(span.loop)] = size
            tiles |= shared
    return widest
