"""Turn loops marked VECTORIZED into statements on vectors of the machine's width.

vectorized j in 0..14:              X[ramp(0, 1, 8)] = broadcast(1, 8)
    X[j] = 1                 ->     X[ramp(8, 1, 4)] = broadcast(1, 4)
                                    X[ramp(12, 1, 2)] = broadcast(1, 2)

                             or     X[ramp(0, 1, 8)] = broadcast(1, 8)
                                    if ramp(0, 1, 8) < broadcast(6, 8):
                                        X[ramp(8, 1, 8)] = broadcast(1, 8)

A loop whose iterations depend on each other, or diverge, runs serially instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.interval import Interval
from ansorc.ir.expr import Var
from ansorc.ir.passes.accesses import Accesses
from ansorc.ir.passes.independence import are_iterations_independent
from ansorc.ir.passes.lane_groups import (
    LaneGroup,
    VectorUnit,
    lane_groups,
    masks_tail,
    may_mask,
    with_padded_tiles,
)
from ansorc.ir.passes.widen import uses_registers, widen
from ansorc.ir.passes.widen_expr import LaneRange, NotWidenableError
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

MAX_UNROLLED_CHUNKS = 16
"""More vectors than this run in a loop, so that the code fits the instruction cache."""


def vectorize_loops(function: Function, vectors: VectorUnit) -> Function:
    """Return `function` without VECTORIZED loops.

    The widest element that a loop accesses determines its lanes (see `lane_groups`).
    """
    accesses = Accesses(function.body)
    groups = lane_groups(accesses, vectors)
    padded = with_padded_tiles(function, accesses, groups)
    if padded is not function:
        accesses = Accesses(padded.body)
        groups = lane_groups(accesses, vectors)
    body = _Vectorizing(accesses, vectors, groups).stmt(padded.body, {})
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True, slots=True)
class _Piece:
    """`chunks` vectors of `lanes` lanes from `start` on."""

    start: int
    chunks: int
    lanes: int
    wanted: int = 0
    """The number of used lanes of the only vector; 0 if all are used."""
    vectors: int = 1
    """The number of processor vectors in all chunks."""


class _Vectorizing:
    def __init__(
        self, accesses: Accesses, vectors: VectorUnit, groups: Mapping[int, LaneGroup]
    ) -> None:
        self._accesses, self._vectors, self._groups = accesses, vectors, groups

    def stmt(self, stmt: Stmt, ranges: dict[str, Interval]) -> Stmt:
        match stmt:
            case Store() | Barrier() | Prefetch() | Await() | Check() | CallC():
                return stmt
            case For(var, extent, kind, body, _):
                if kind is LoopKind.VECTORIZED:
                    return self._vectorize(stmt, ranges)
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

    def _vectorize(self, loop: For, ranges: dict[str, Interval]) -> Stmt:
        span = self._accesses.below(loop)
        if _contains_vectorized(loop.body) or not are_iterations_independent(span):
            return self._sequential(loop, ranges)
        group = self._groups[id(loop)]
        is_masked = masks_tail(span, group, self._vectors)
        pieces = _pieces(loop.extent, group, is_masked=is_masked)
        masks = may_mask(span, self._vectors)
        try:
            parts = [_widen(loop, piece, ranges, may_mask=masks) for piece in pieces]
        except NotWidenableError:
            return self._sequential(loop, ranges)
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def _sequential(self, loop: For, ranges: dict[str, Interval]) -> Stmt:
        kind = LoopKind.UNROLLED if uses_registers(loop.body) else LoopKind.SERIAL
        return self.stmt(replace(loop, kind=kind), ranges)


def _widen(loop: For, piece: _Piece, ranges: dict[str, Interval], *, may_mask: bool) -> Stmt:
    if piece.chunks == 1:
        base = integer(piece.start)
        lanes = LaneRange(loop.var.name, base, piece.lanes, dict(ranges), wanted=piece.wanted)
        return widen(loop.body, lanes, may_mask=may_mask)
    chunk = Var(f"{loop.var.name}.chunk")
    within = {**ranges, chunk.name: (0, piece.chunks - 1)}
    base = chunk * piece.lanes + piece.start if piece.start else chunk * piece.lanes
    lanes = LaneRange(loop.var.name, base, piece.lanes, within)
    body = widen(loop.body, lanes, may_mask=may_mask)
    unrolled = piece.vectors <= MAX_UNROLLED_CHUNKS or uses_registers(loop.body)
    kind = LoopKind.UNROLLED if unrolled else LoopKind.SERIAL
    return For(chunk, piece.chunks, kind, body)


def _pieces(extent: int, group: LaneGroup, *, is_masked: bool) -> list[_Piece]:
    """Return the vectors for 0 … extent - 1: first those that are worked on together, then others.

    The rest takes a masked vector, or vectors of powers of two of lanes.
    """
    native, pieces, start = group.native, list[_Piece](), 0
    together = group.interleaved
    while together:
        lanes = together * native
        chunks = (extent - start) // lanes
        if chunks:
            pieces.append(_Piece(start, chunks, lanes, vectors=chunks * together))
            start += chunks * lanes
        together //= 2
    if is_masked:
        return [*pieces, _Piece(start, 1, native, extent % native)]
    lanes = 1 << max(0, (native - 1).bit_length() - 1)
    while start < extent:
        if start + lanes <= extent:
            pieces.append(_Piece(start, 1, lanes))
            start += lanes
        lanes = max(1, lanes // 2)
    return pieces


def _contains_vectorized(stmt: Stmt) -> bool:
    loops = (part for part in statements(stmt) if isinstance(part, For))
    return any(loop.kind is LoopKind.VECTORIZED for loop in loops)
