"""Turn VECTORIZED reductions into sums in lanes, which are added up at the end.

for r in 0..9:                         alloc S.lanes: float32[4, 8] register
    vectorized k in 0..70:             unrolled v, vectorized l: S.lanes[v, l] = 0
        S[i] = S[i] + A[r, k]   ->     for r in 0..9:
                                           for k.step in 0..2:
                                               unrolled v, vectorized l:
                                                   S.lanes[v, l] += A[r, k.step*32 + v*8 + l]
                                           vectorized l in 0..8:
                                               S.lanes[0, l] += (A[r, 64 + l] if l < 6 else 0)
                                       S[i] = S[i] + reduce_sum(all of S.lanes)

Several vectors of sums are used in turn, so that no addition waits for the one before it. The terms
are added in another order, as the mark allows (docs/language.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import is_
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.identity import identity
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import (
    Binary,
    Call,
    CompareOp,
    Expr,
    Indices,
    Load,
    Ramp,
    Reduce,
    Select,
    Var,
    compare,
)
from ansorc.ir.node import Node, walk
from ansorc.ir.passes.accesses import Accesses, Span
from ansorc.ir.passes.reduction_loops import Known, ReductionLoop, with_reductions
from ansorc.ir.passes.register_tile import PromotedTile, find_tile, nest, perfect_nest
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
)
from ansorc.ir.substitute import substitute
from ansorc.target.code_facts import INDEPENDENT_SUMS

CALLING_SUMS = 2
"""The vectors of sums if terms call functions: a term takes far longer than its addition."""
CHEAP_CALLS = ("sqrt", "abs", "floor", "ceil", "round", "fma")

_SEQUENTIAL = (LoopKind.SERIAL, LoopKind.UNROLLED)
VectorCount: TypeAlias = int | npt.NDArray[Any]


def vectorize_reductions(
    function: Function,
    vector_bytes: int,
    tile_registers: int,
    last_cache_bytes: int,
    streaming_sums: int,
) -> Function:
    """Return `function` with the reductions of VECTORIZED loops in lanes of REGISTER buffers.

    The sums are kept over all loops around that only add to the same elements. A tile of rows that
    needs more than `tile_registers` vectors is not changed. Tensors larger than `last_cache_bytes`
    are assumed to come from memory; they use at most `streaming_sums` vectors of sums.
    """
    reductions: dict[int, ReductionLoop] = {}
    body = with_reductions(function.body, reductions, Known())
    if not reductions:
        return function
    limits = _Limits(vector_bytes, tile_registers, last_cache_bytes, streaming_sums)
    body = _InLanes(body, reductions, limits).stmt(body)
    return replace(function, body=body)


def count_sums(*, calls: bool, streams: bool, streaming_sums: int) -> int:
    """Return the number of independent vectors of sums for all rows of a tile.

    `calls` and `streams`: whether the terms call functions, and whether they come from memory.
    """
    wanted = CALLING_SUMS if calls else INDEPENDENT_SUMS
    return min(wanted, streaming_sums) if streams else wanted


def calls_function(*terms: Node) -> bool:
    """Return whether one of `terms` calls a function that takes longer than an addition."""
    return any(
        isinstance(part, Call) and part.name not in CHEAP_CALLS
        for term in terms
        for part in walk(term)
    )


@dataclass(frozen=True, slots=True)
class _Limits:
    vector_bytes: int
    most_vectors: int
    last_cache_bytes: int
    streaming_sums: int


@dataclass(frozen=True, slots=True)
class _Sums:
    """`vectors` x `lanes` sums for each element of `tile`, in `buffer`."""

    reduction: ReductionLoop
    tile: PromotedTile
    buffer: Buffer
    around: For | None = None
    """A loop around the reduction loop alone; `turns` of its iterations have separate sums."""
    turns: int = 1

    @property
    def count(self) -> int:
        """The vectors for each element of the tile, in a turn."""
        return self.buffer.shape[-2] // self.turns

    @property
    def lanes(self) -> int:
        """The lanes of a vector."""
        return self.buffer.shape[-1]


class _InLanes:
    def __init__(self, body: Stmt, reductions: dict[int, ReductionLoop], limits: _Limits) -> None:
        self._accesses = Accesses(body)
        self._found = reductions
        self._limits = limits
        self._made: dict[int, Stmt] = {}
        self._uses: dict[str, int] = {}

    def stmt(self, stmt: Stmt) -> Stmt:
        """Return `stmt` with its reductions in lanes, each set up as far out as is legal."""
        match stmt:
            case Store() | Barrier() | Prefetch() | Await() | Check() | CallC():
                return stmt
            case For():
                return self._loop(stmt)
            case Seq(stmts):
                parts = tuple(map(self.stmt, stmts))
                return stmt if all(map(is_, parts, stmts)) else Seq(parts)
            case If(condition, then, otherwise):
                new = self.stmt(then)
                other = None if otherwise is None else self.stmt(otherwise)
                return stmt if new is then and other is otherwise else If(condition, new, other)
            case Allocate(buffer, body):
                new = self.stmt(body)
                return stmt if new is body else Allocate(buffer, new)
            case _:
                assert_never(stmt)

    def _loop(self, loop: For) -> Stmt:
        sums = self._sums(loop)
        for each in sums:
            made = _in_turns(each)
            self._made |= {id(each.reduction.loop): made, id(each.around): made}
        made = self._made.get(id(loop))
        if made is None:
            body = self.stmt(loop.body)
            made = loop if body is loop.body else replace(loop, body=body)
        for each in sums:
            made = Allocate(each.buffer, Seq((_fill(each), made, _read_out(each))))
        return made

    def _sums(self, loop: For) -> list[_Sums]:
        """Return the sums of the reductions in `loop` that can be kept over the whole of it."""
        if loop.kind not in _SEQUENTIAL and id(loop) not in self._found:
            return []
        span = self._accesses.below(loop)
        result: list[_Sums] = []
        for access in span.accesses:
            around = [x for x in access.loops[span.depth :] if x.kind is LoopKind.VECTORIZED]
            if access.is_store and len(around) == 1 and id(around[0]) not in self._made:
                reduction = self._found.get(id(around[0]))
                loops = access.loops[span.depth :]
                near = [x for x in loops if x.body is around[0]]
                sums = None if reduction is None else self._keep(reduction, span, near)
                result += [] if sums is None else [sums]
        return result

    def _keep(self, reduction: ReductionLoop, span: Span, near: list[For]) -> _Sums | None:
        buffer = reduction.store.buffer
        accesses = [access for access in span.accesses if access.buffer.name == buffer.name]
        if len(accesses) != 2 or not self._accesses.may_move(buffer, span):
            return None
        uses = self._uses.get(buffer.name, 0)
        name = f"{buffer.name}.lanes{uses or ''}"
        tile = find_tile(buffer.name, span, name)
        lanes = self._lanes(reduction)
        if tile is None or tile.register.elements > self._limits.most_vectors or lanes < 2:
            return None
        self._uses[buffer.name] = uses + 1
        near = [x for x in near if x.kind in _SEQUENTIAL and x not in tile.loops]
        around = near[0].extent if near else 1
        most, rows = reduction.loop.extent // lanes, tile.register.elements
        counts = vectors_and_turns(self._count_wanted(reduction), rows, most, around)
        vectors, turns = (int(number) for number in counts)
        shape = (*tile.register.shape, turns * vectors, lanes)
        register = Buffer(name, shape, buffer.dtype, Scope.REGISTER)
        return _Sums(reduction, tile, register, near[0] if turns > 1 else None, turns)

    def _lanes(self, reduction: ReductionLoop) -> int:
        """Return the lanes of native vectors, or of the shortest ones that hold all terms."""
        accesses = self._accesses.below(reduction.loop).accesses
        widest = max(access.buffer.dtype.bytes for access in accesses)
        limit = self._limits.vector_bytes // widest
        return min(limit, 1 << (reduction.loop.extent - 1).bit_length())

    def _count_wanted(self, reduction: ReductionLoop) -> int:
        """Return the number of vectors of sums for all elements of a tile."""
        loads = (part.buffer for part in walk(reduction.term) if isinstance(part, Load))
        return count_sums(
            calls=calls_function(reduction.term),
            streams=any(buffer.bytes > self._limits.last_cache_bytes for buffer in loads),
            streaming_sums=self._limits.streaming_sums,
        )


def vectors_and_turns(
    wanted: int, rows: VectorCount, most: VectorCount, around: VectorCount
) -> tuple[VectorCount, VectorCount]:
    """Return the vectors of sums of each row of a tile, and the number of turns with own sums.

    All are integers or arrays of them: `wanted` vectors for all `rows` together, at most `most` for
    a row, and `around` iterations of the loop around, which the turns divide.
    """
    each = np.maximum(wanted // rows, 1)
    vectors = np.clip(most, 1, each)
    turns = np.ones_like(vectors)
    for count in range(2, wanted + 1):
        turns = np.where((around % count == 0) & (count <= each // vectors), count, turns)
    return vectors, turns


def _fill(sums: _Sums) -> Stmt:
    """Return the statements that set all sums to the identity."""
    start = identity(sums.reduction.op, sums.buffer.dtype)
    count = sums.count * sums.turns
    fill = _vectors_of(sums, count, lambda indices, _: Store(sums.buffer, indices, start))
    return nest(sums.tile.loops, fill)


def _in_turns(sums: _Sums) -> Stmt:
    """Return the loop around the reduction; each iteration of a turn has its own sums."""
    loop = sums.around
    if loop is None:
        return _updates(sums)
    turn, rounds = Var(f"{loop.var.name}.turn"), Var(f"{loop.var.name}.round")
    iteration = {loop.var.name: rounds * sums.turns + turn}
    body = substitute(_updates(sums, turn * sums.count), iteration)
    body = For(turn, sums.turns, LoopKind.UNROLLED, body)
    return replace(loop, var=rounds, extent=loop.extent // sums.turns, body=body)


def _updates(sums: _Sums, first: Expr | None = None) -> Stmt:
    """Return the loop of the reduction on vectors: the bulk, whole vectors, and the rest.

    They are added to the sums from number `first` on.
    """
    extent, block = sums.reduction.loop.extent, sums.count * sums.lanes
    step = Var(f"{sums.reduction.loop.var.name}.step")
    vectors, rounds = extent // sums.lanes, extent // block
    parts: list[Stmt] = []
    if rounds > 1:
        bulk = _vectors_of(
            sums, sums.count, lambda at, n: _update(sums, at, step * block + n), first
        )
        parts.append(For(step, rounds, LoopKind.SERIAL, bulk))
    elif rounds:
        parts.append(_vectors_of(sums, sums.count, lambda at, n: _update(sums, at, n), first))
    if rest := vectors - rounds * sums.count:
        done = rounds * block
        parts.append(_vectors_of(sums, rest, lambda at, n: _update(sums, at, n + done), first))
    if extent % sums.lanes:
        done = vectors * sums.lanes
        parts.append(
            _vectors_of(sums, 1, lambda at, n: _update(sums, at, n + done, is_last=True), first)
        )
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


def _update(sums: _Sums, indices: Indices, position: Expr, *, is_last: bool = False) -> Stmt:
    """Return the body of the reduction, adding the term at `position` to the sum at `indices`.

    In the last vector the terms beyond the extent are the identity.
    """
    reduction = sums.reduction
    loop, op, term = reduction.loop, reduction.op, reduction.term
    if is_last:
        nothing = identity(op, sums.buffer.dtype)
        term = Select(compare(CompareOp.LT, loop.var, loop.extent), term, nothing)
    store = Store(sums.buffer, indices, Binary(op, Load(sums.buffer, indices), term))
    return substitute(nest(perfect_nest(loop.body)[0], store), {loop.var.name: position})


def _vectors_of(
    sums: _Sums, count: int, body: Callable[[Indices, Expr], Stmt], first: Expr | None = None
) -> Stmt:
    """Return `body` for `count` vectors of sums in lanes, called with indices and number of a sum.

    Vectors are counted from `first`, by default from 0.
    """
    name, lanes = sums.reduction.loop.var.name, sums.lanes
    lane, vector = Var(f"{name}.lane"), Var(f"{name}.vector")
    which: Expr = vector if count > 1 else integer(0)
    number = vector * lanes + lane if count > 1 else lane
    which = which if first is None else first + which
    stmt: Stmt = body((*sums.tile.element(), which, lane), number)
    stmt = For(lane, lanes, LoopKind.VECTORIZED, stmt)
    return For(vector, count, LoopKind.UNROLLED, stmt) if count > 1 else stmt


def _read_out(sums: _Sums) -> Stmt:
    """Return the statements that add all sums of an element to its value."""
    op, tile = sums.reduction.op, sums.tile
    lanes = Ramp(integer(0), integer(1), sums.lanes)
    vectors: list[Expr] = [
        Load(sums.buffer, (*tile.element(), integer(v), lanes))
        for v in range(sums.buffer.shape[-2])
    ]
    while len(vectors) > 1:
        half = -(-len(vectors) // 2)
        pairs = zip_longest(vectors[:half], vectors[half:])
        vectors = [a if b is None else Binary(op, a, b) for a, b in pairs]
    total = Binary(op, Load(tile.buffer, tile.indices), Reduce(op, vectors[0]))
    return tile.nest(tile.buffer, tile.indices, total)
