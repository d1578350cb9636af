"""Give each kernel one loop for each block and thread index, around its whole body.

bound blockIdx.x b in 0..8:                    bound blockIdx.x b in 0..8:
    alloc S: float32[64] shared                    bound threadIdx.x t in 0..64:
    bound threadIdx.x t in 0..64:                      alloc S: float32[64] shared
        S[t] = A[b, t]                     ->          S[t] = A[b, t]
    bound threadIdx.x u in 0..32:                      if t < 32:
        S[u] = S[u] + S[u + 32]                            S[t] = S[t] + S[t + 32]
    B[b] = S[0]                                        if t == 0:
                                                           B[b] = S[0]

Statements outside the loops of an index are run by the first thread, or block, of that index. The
barriers that this needs are inserted later, by `insert_barriers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ansorc.errors import BuildError
from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.buffer import Scope
from ansorc.ir.expr import BinaryOp, CompareOp, Expr, Var, binary, compare
from ansorc.ir.stmt import (
    THREADS,
    Allocate,
    Barrier,
    For,
    Function,
    If,
    LoopKind,
    Seq,
    Stmt,
    map_substatements,
    statements,
)
from ansorc.ir.substitute import substitute

_MOST_BLOCKS = 65535
"""The most blocks along y and z; see `LaunchLimits`."""
INDICES = tuple(thread for thread in THREADS if thread != "vthread")


def normalize_thread_nest(function: Function) -> Function:
    """Return `function`, which has no virtual threads, with kernels in normal form.

    Raise BuildError if blocks would be started inside a loop.
    """
    body = map_kernels(function.body, _gather)
    return function if body is function.body else replace(function, body=body)


def map_kernels(body: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Return `body` with `change` applied to each kernel, its outermost nests."""
    match body:
        case Seq() | Allocate():
            if isinstance(body, Allocate) and body.buffer.scope is not Scope.GLOBAL:
                return change(body)
            return map_substatements(body, lambda part: map_kernels(part, change))
        case _:
            return change(body)


def _gather(nest: Stmt) -> Stmt:
    loops: dict[str, For] = {}
    for part in statements(nest):
        if isinstance(part, For) and part.kind is LoopKind.BOUND:
            known = loops.get(part.thread)
            extent = part.extent if known is None else max(known.extent, part.extent)
            loops[part.thread] = replace(known or part, extent=extent)
    if not loops:
        return nest
    _require_blocks_outside(nest)
    body = _Gathering(loops).stmt(nest, frozenset())
    wide = {t: x for t, x in loops.items() if t in INDICES[1:3] and x.extent > _MOST_BLOCKS}
    for thread, loop in wide.items():
        body, loops["blockIdx.x"] = _along_x(body, loop, loops.get("blockIdx.x"))
        del loops[thread]
    for thread in reversed(INDICES):
        if thread in loops:
            body = replace(loops[thread], body=body)
    return body


def _along_x(body: Stmt, loop: For, first: For | None) -> tuple[Stmt, For]:
    """Return `body` with the blocks of `loop` joined to those of blockIdx.x, and the joint loop."""
    if first is None:
        return body, replace(loop, thread="blockIdx.x")
    both = Var(f"{loop.var.name}@{first.var.name}")
    extent = integer(first.extent)
    values = {
        loop.var.name: binary(BinaryOp.FLOORDIV, both, extent),
        first.var.name: binary(BinaryOp.MOD, both, extent),
    }
    return substitute(body, values), replace(first, var=both, extent=first.extent * loop.extent)


def _require_blocks_outside(stmt: Stmt) -> None:
    match stmt:
        case For(_, _, LoopKind.BOUND, body):
            _require_blocks_outside(body)
        case For(var, _, _, body):
            for part in statements(body):
                if isinstance(part, For) and part.thread.startswith("blockIdx"):
                    raise BuildError(
                        f"the loop over '{var.name}' is around one bound to {part.thread}: a GPU "
                        "would start the blocks again and again; bind it, or move it inside"
                    )
        case _:
            map_substatements(stmt, lambda part: (_require_blocks_outside(part), part)[1])


class _Gathering:
    def __init__(self, loops: dict[str, For]) -> None:
        self._loops = loops

    def stmt(self, stmt: Stmt, inside: frozenset[str]) -> Stmt:
        """Return `stmt` for all threads; it runs inside the loops of the indices `inside`."""
        if isinstance(stmt, For) and stmt.kind is LoopKind.BOUND:
            return self._bind_loop(stmt, inside)
        below = {p.thread for p in statements(stmt) if isinstance(p, For) and p.thread}
        if isinstance(stmt, Barrier):
            return stmt
        if below <= inside and not any(isinstance(part, Barrier) for part in statements(stmt)):
            return self._by_first(stmt, inside)
        return map_substatements(stmt, lambda part: self.stmt(part, inside))

    def _bind_loop(self, loop: For, inside: frozenset[str]) -> Stmt:
        outer = self._loops[loop.thread]
        body = loop.body
        if outer.var != loop.var:
            body = substitute(body, {loop.var.name: outer.var})
        body = self.stmt(body, inside | {loop.thread})
        return body if loop.extent == outer.extent else If(_below(outer.var, loop.extent), body)

    def _by_first(self, stmt: Stmt, inside: frozenset[str]) -> Stmt:
        tests: list[Expr] = [
            compare(CompareOp.EQ, self._loops[thread].var, integer(0))
            for thread in INDICES
            if thread in self._loops and thread not in inside
        ]
        stmt = map_bound(stmt, self._loops)
        return If(conjunction(tests), stmt) if tests else stmt


def map_bound(stmt: Stmt, loops: dict[str, For]) -> Stmt:
    """Return `stmt` without bound loops; their variables become those of `loops`."""
    if isinstance(stmt, For) and stmt.kind is LoopKind.BOUND:
        outer = loops[stmt.thread]
        body = stmt.body
        if outer.var != stmt.var:
            body = substitute(body, {stmt.var.name: outer.var})
        body = map_bound(body, loops)
        return body if stmt.extent == outer.extent else If(_below(outer.var, stmt.extent), body)
    return map_substatements(stmt, lambda part: map_bound(part, loops))


def _below(var: Var, extent: int) -> Expr:
    return compare(CompareOp.LT, var, integer(extent))
