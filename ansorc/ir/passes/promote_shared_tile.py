"""Keep a buffer that several consecutive loops update in registers, as a whole.

Where a border is skipped, the loop around a tile is divided:

alloc C[8]                                     alloc C[8] register
unrolled i in 0..8: C[i] = 0                   unrolled i in 0..8: C[i] = 0
for k in 0..2: unrolled i in 0..7: C[i] += ...   ->   the same
for k in 0..3: unrolled i in 0..8: C[i] += ...
for i in 0..8: D[i] = C[i]                     unrolled i in 0..8: D[i] = C[i]

`ansorc.ir.passes.promote_accumulators` finds tiles that a single loop updates.
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.ir.arith.affine import Linear, affine
from ansorc.ir.buffer import Scope
from ansorc.ir.expr import Load
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.passes.accesses import Accesses, BufferAccess
from ansorc.ir.passes.matrix_nest import holds_nests
from ansorc.ir.passes.queries import uses
from ansorc.ir.passes.register_tile import THREADED_KINDS, perfect_nest
from ansorc.ir.stmt import Allocate, For, Function, If, LoopKind, Seq, Stmt, Store, substatements
from ansorc.ir.substitute import with_buffers


def promote_shared_tile(function: Function, register_bytes: int) -> Function:
    """Return `function` with such buffers of up to `register_bytes` bytes in registers."""

    def rule(old: Node) -> Node | None:
        return _promote(old, register_bytes) if isinstance(old, Allocate) else None

    return replace(function, body=rewrite(function.body, rule))


def _promote(stmt: Allocate, register_bytes: int) -> Allocate | None:
    """Return `stmt` with its buffer in registers, or None if that is not possible."""
    buffer = stmt.buffer
    if buffer.scope is not Scope.LOCAL or buffer.bytes > register_bytes:
        return None
    if not _has_parts(stmt.body, buffer.name) or holds_nests(stmt.body):
        return None  # what matrix units add to is in registers of their own
    unrolled = _unroll(stmt.body, buffer.name)
    accesses = [each for each in Accesses(unrolled).all if each.buffer.name == buffer.name]
    if not all(map(_is_numbered, accesses)):
        return None
    promoted = {buffer: replace(buffer, scope=Scope.REGISTER)}
    return with_buffers(replace(stmt, body=unrolled), promoted)


def _has_parts(stmt: Stmt, name: str) -> bool:
    """Return whether several consecutive statements add to the buffer named `name`.

    Return True also if one does, and others set or read it in more loops than it has dimensions.
    """
    match stmt:
        case Seq(stmts):
            parts = sum(_updates(part, name) for part in stmts)
            others = [part for part in stmts if not _updates(part, name)]
            is_divided = parts == 1 and any(_has_more_loops(part, name) for part in others)
            return parts > 1 or is_divided or any(_has_parts(part, name) for part in stmts)
        case If() | Allocate():
            return any(_has_parts(part, name) for part in substatements(stmt))
        case _:
            return False


def _has_more_loops(stmt: Stmt, name: str) -> bool:
    loops, _, store = perfect_nest(stmt)
    accesses = [p for p in walk(stmt) if isinstance(p, Load | Store) and p.buffer.name == name]
    return store is not None and any(
        len(loops) > sum(length > 1 for length in part.buffer.shape) for part in accesses
    )


def _updates(stmt: Stmt, name: str) -> bool:
    stores = [p for p in walk(stmt) if isinstance(p, Store) and p.buffer.name == name]
    return any(
        isinstance(part, Load) and part.buffer.name == name
        for store in stores
        for part in walk(store.value)
    )


def _is_numbered(access: BufferAccess) -> bool:
    """Return whether only unrolled loops index the registers, and a vector is a whole row."""
    kinds = {loop.var.name: loop.kind for loop in access.loops}
    if not access.indices or not access.loops or set(THREADED_KINDS) & set(kinds.values()):
        return False
    *rows, last = [affine(index) for index in access.indices]
    for form in rows:
        if form is None or any(kinds.get(name) is not LoopKind.UNROLLED for name in form.terms):
            return False
    vector = access.loops[-1]
    is_row = last == Linear({vector.var.name: 1}) and vector.extent == access.buffer.shape[-1]
    return is_row and vector.kind is LoopKind.VECTORIZED


def _unroll(root: Stmt, name: str) -> Stmt:
    """Return `root` with serial loops unrolled that only set or read the buffer."""

    def rule(old: Node) -> Node | None:
        if not isinstance(old, For) or old.kind is not LoopKind.SERIAL or _updates(old, name):
            return None
        _, _, store = perfect_nest(old)
        is_number = store is not None and any(
            part.buffer.name == name and any(uses(index, old.var.name) for index in part.indices)
            for part in walk(store)
            if isinstance(part, Load | Store)
        )
        return replace(old, kind=LoopKind.UNROLLED) if is_number else None

    return rewrite(root, rule)
