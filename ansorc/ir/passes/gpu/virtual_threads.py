"""Give each thread the work of its virtual threads; shared work is done once.

bound vthread v in 0..2:                       bound threadIdx.x t in 0..64:
    bound threadIdx.x t in 0..64:                  alloc C.local: float32[2, 4] local
        alloc C.local: float32[4] local            for k in 0..8:
        for k in 0..8:                     ->          S[t] = A[k, t]
            S[t] = A[k, t]                             unrolled v in 0..2:
            C.local[…] += S[v * 64 + …]                    C.local[v, …] += S[v * 64 + …]

Virtual threads are like threads: between two barriers they run in any order. So the loop over them
is moved inwards to the statements that depend on it, and the loops that it passes run once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Load, Var
from ansorc.ir.node import Node, children, rewrite, walk
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
    map_substatements,
    statements,
    substatements,
)
from ansorc.ir.substitute import free_vars

_PRIVATE = (Scope.LOCAL, Scope.REGISTER)
_COPIED = (LoopKind.UNROLLED, LoopKind.VECTORIZED)


def inject_virtual_threads(function: Function) -> Function:
    """Return `function` without loops bound to vthread."""
    body = _without(function.body)
    return function if body is function.body else replace(function, body=body)


def _without(stmt: Stmt) -> Stmt:
    new = map_substatements(stmt, _without)
    if isinstance(new, For) and new.thread == "vthread":
        return _Distribution(new).result()
    return new


class _Distribution:
    """One loop over virtual threads, whose body has no others."""

    def __init__(self, loop: For) -> None:
        self._loop = loop
        self._copies = _varying(loop)
        self._known: dict[int, tuple[Node, bool]] = {}  # kept alive with their ids

    def result(self) -> Stmt:
        return self._stmt(self._loop.body)

    def _stmt(self, stmt: Stmt) -> Stmt:
        if not self._depends(stmt):
            return stmt
        match stmt:
            case Store() | Prefetch() | Check():
                return self._over_threads(stmt)
            case For() if stmt.kind in _COPIED and self._is_tile(stmt):
                return self._over_threads(stmt)
            case For() if any(map(self._depends, stmt.bounds)):  # each has a range of its own
                return self._over_threads(stmt)
            case If(condition) if self._depends(condition):
                return self._over_threads(stmt)
            case Allocate(buffer, body) if buffer in self._copies:
                return Allocate(self._copies[buffer], self._stmt(body))
            case For() | If() | Seq() | Allocate():
                return map_substatements(stmt, self._stmt)
            case Barrier() | Await() | CallC():
                return stmt
            case _:
                assert_never(stmt)

    def _over_threads(self, stmt: Stmt) -> Stmt:
        copied = _with_copies(stmt, self._copies, self._loop.var)
        return For(self._loop.var, self._loop.extent, LoopKind.UNROLLED, copied)

    def _is_tile(self, loop: For) -> bool:
        """Return whether the loop runs over a tile of each virtual thread, all straight-line code.

        Other unrolled loops, over the terms of a reduction, stay outside, so that the loads of one
        iteration are used by all virtual threads.
        """
        if any(
            isinstance(part, Barrier | Allocate)
            or (isinstance(part, For) and part.kind not in _COPIED)
            or (isinstance(part, Store) and not self._depends(part))
            for part in statements(loop)
        ):
            return False
        if loop.kind is LoopKind.VECTORIZED:
            return True
        return any(
            isinstance(part, Load | Store)
            and part.buffer in self._copies
            and any(loop.var.name in free_vars(index) for index in part.indices)
            for part in walk(loop.body)
        )

    def _depends(self, root: Node) -> bool:
        if (known := self._known.get(id(root))) is None:
            depends = self._is_varying(root) or any(map(self._depends, children(root)))
            known = self._known[id(root)] = root, depends
        return known[1]

    def _is_varying(self, part: Node) -> bool:
        match part:
            case Var(name):
                return name == self._loop.var.name
            case Load(buffer) | Store(buffer) | Allocate(buffer) | Prefetch(buffer):
                return buffer in self._copies
            case _:
                return False


def _varying(loop: For) -> dict[Buffer, Buffer]:
    """Return the private buffers that differ between virtual threads, with one more dimension."""
    allocated = (part.buffer for part in statements(loop.body) if isinstance(part, Allocate))
    private = {buffer for buffer in allocated if buffer.scope in _PRIVATE}
    causes: set[Var | Buffer] = {loop.var}
    while new := set(_find_changed(loop.body, causes, is_under=False)) & private - causes:
        causes |= new
    copied = (buffer for buffer in private if buffer in causes)
    return {buffer: replace(buffer, shape=(loop.extent, *buffer.shape)) for buffer in copied}


def _find_changed(stmt: Stmt, causes: set[Var | Buffer], *, is_under: bool) -> Iterator[Buffer]:
    """Yield the buffers whose elements depend on one of `causes`."""
    match stmt:
        case Store(buffer):
            if is_under or _mentions(stmt, causes):
                yield buffer
        case If(condition):
            inner = is_under or _mentions(condition, causes)
            for part in substatements(stmt):
                yield from _find_changed(part, causes, is_under=inner)
        case _:
            for part in substatements(stmt):
                yield from _find_changed(part, causes, is_under=is_under)


def _mentions(root: Node, causes: set[Var | Buffer]) -> bool:
    return any(
        (isinstance(part, Var) and part in causes)
        or (isinstance(part, Load) and part.buffer in causes)
        for part in walk(root)
    )


def _with_copies(stmt: Stmt, copies: Mapping[Buffer, Buffer], thread: Var) -> Stmt:
    """Return `stmt`, what one virtual thread does, with that thread's part of the `copies`.

    Buffers that `stmt` itself allocates, as under a guard, are its own already.
    """
    allocated = {part.buffer for part in statements(stmt) if isinstance(part, Allocate)}

    def rule(old: Node) -> Node | None:
        match old:
            case Load(buffer, indices) | Store(buffer, indices) if (
                buffer in copies and buffer not in allocated
            ):
                return replace(old, buffer=copies[buffer], indices=(thread, *indices))
            case _:
                return None

    return rewrite(stmt, rule)
