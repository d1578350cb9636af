"""Divide vectorised loops whose extent the caller gives into blocks of known extents.

vectorized k in 0 .. n:         alloc P[32]: vectorized l in 0..32: P[l] = 0
    S[i] = S[i] + A[i, k]       ragged b in 0 .. n // 32:
                         ->         vectorized l in 0..32: P[l] = P[l] + A[i, b * 32 + l]
                                vectorized l in 0..32: if n // 32 * 32 + l < n: …
                                vectorized l in 0..32: S[i] = S[i] + P[l]

A loop that is no reduction becomes whole blocks, and masked vectors for the rest.
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.identity import identity
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    CompareOp,
    Expr,
    Load,
    Var,
    compare,
    const,
)
from ansorc.ir.node import Node, rewrite
from ansorc.ir.passes.reduction_loops import Known, ReductionLoop, find_reduction
from ansorc.ir.stmt import Allocate, For, Function, If, LoopKind, Seq, Stmt, Store, statements
from ansorc.ir.substitute import substitute

_VECTORS = 4
"""The vectors of a block: so many sums are independent of each other."""


def block_vectors(function: Function, vector_bytes: int) -> Function:
    """Return `function` without vectorised loops of an extent that the caller gives."""
    if not function.dims:
        return function
    uses: dict[str, int] = {}

    def rule(old: Node) -> Node | None:
        if not isinstance(old, For) or old.kind is not LoopKind.VECTORIZED or not old.bounds:
            return None
        lanes = vector_bytes // max(map(_element_bytes, statements(old.body)))
        reduction = find_reduction(replace(old, begin=None, end=None), Known())
        if reduction is None:
            return _blocks(old, _VECTORS * lanes, lanes)
        if not isinstance(reduction.loop.body, Store):
            return replace(old, kind=LoopKind.RAGGED)
        name = reduction.store.buffer.name
        uses[name] = uses.get(name, 0) + 1
        part = f"{name}.part" if uses[name] == 1 else f"{name}.part{uses[name]}"
        return _reduced(old, reduction, part, _VECTORS * lanes)

    return replace(function, body=rewrite(function.body, rule))


def _element_bytes(stmt: Stmt) -> int:
    return stmt.buffer.dtype.bytes if isinstance(stmt, Store) else 1


def _reduced(loop: For, reduction: ReductionLoop, name: str, block: int) -> Stmt:
    """Return the reduction by partial results in the lanes of a block."""
    store, op = reduction.store, reduction.op
    dtype, end = store.buffer.dtype, loop.bounds[1]
    part = Buffer(name, (block,), dtype, Scope.LOCAL)
    lane = Var(f"{loop.var.name}.lane")
    place: tuple[Expr, ...] = (lane,)
    held = Load(part, place)

    def lanes(body: Stmt) -> For:
        return For(lane, block, LoopKind.VECTORIZED, body)

    def added(first: Expr) -> Stmt:
        term = substitute(reduction.term, {loop.var.name: first + lane})
        return Store(part, place, Binary(op, held, term))

    number, count = Var(f"{loop.var.name}.block"), _quotient(end, block)
    whole = lanes(added(number * block))
    blocks = For(
        number, -(-loop.extent // block), LoopKind.RAGGED, whole, begin=const(0), end=count
    )
    done = count * block
    rest = lanes(If(compare(CompareOp.LT, done + lane, end), added(done)))
    total = replace(store, value=Binary(op, Load(store.buffer, store.indices), held))
    first = lanes(Store(part, place, identity(op, dtype)))
    return Allocate(part, Seq((first, blocks, rest, lanes(total))))


def _blocks(loop: For, block: int, lanes: int) -> Stmt:
    """Return a loop over whole blocks, and one over vectors that the end cuts off."""
    end, var = loop.bounds[1], loop.var
    lane, number = Var(f"{var.name}.lane"), Var(f"{var.name}.block")
    rest, last = Var(f"{var.name}.rest"), Var(f"{var.name}.last")
    count = _quotient(end, block)
    inner = substitute(loop.body, {var.name: number * block + lane})
    whole = For(
        number, -(-loop.extent // block), LoopKind.RAGGED,
        For(lane, block, LoopKind.VECTORIZED, inner), begin=const(0), end=count,
    )  # fmt: skip
    place: Expr = count * block + rest * lanes + last
    masked = If(compare(CompareOp.LT, place, end), substitute(loop.body, {var.name: place}))
    turns = _quotient(end - count * block + (lanes - 1), lanes)
    tail = For(
        rest, -(-block // lanes), LoopKind.RAGGED,
        For(last, lanes, LoopKind.VECTORIZED, masked), begin=const(0), end=turns,
    )  # fmt: skip
    return Seq((whole, tail))


def _quotient(value: Expr, divisor: int) -> Expr:
    return Binary(BinaryOp.FLOORDIV, value, integer(divisor))
