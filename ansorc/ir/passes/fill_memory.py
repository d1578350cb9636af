"""Fill unwritten memory with conspicuous values: NaN, the largest integer, True.

alloc T[8]                        alloc T[8]
for i in 0..4: T[i] = X[i]   ->   T[ramp(0, 1, 8)] = broadcast(nan, 8)
                                  for i in 0..4: T[i] = X[i]

It is not part of a normal build: tests of compiled kernels enable it by the variable ANSORC_POISON.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import BOOL
from ansorc.ir.expr import Broadcast, Const, Expr, Ramp, Var, const
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.node import Node, rewrite
from ansorc.ir.passes.accesses import is_loaded
from ansorc.ir.size_expr import loop_over
from ansorc.ir.specialize import put_first
from ansorc.ir.stmt import (
    Allocate,
    For,
    Function,
    LoopKind,
    Seq,
    Stmt,
    Store,
    written_buffers,
)

VARIABLE = "ANSORC_POISON"
"""The environment variable: 1 fills memory in every kernel that is compiled."""
_LANES = 64
"""The elements of the widest vector that is stored at once, so that few statements are needed."""
_COPIES = 1024


def fill_memory(function: Function, *, has_threads: bool = False) -> Function:
    """Return `function` with its allocations, and outputs that it does not load, filled first.

    With `has_threads` (a GPU) only private memory of threads is filled; the caller fills the rest.
    """

    def rule(old: Node) -> Node | None:
        if not isinstance(old, Allocate):
            return None
        if has_threads and old.buffer.scope not in (Scope.LOCAL, Scope.REGISTER):
            return None
        return replace(old, body=Seq((_fill(old.buffer, is_vector=not has_threads), old.body)))

    body = rewrite(function.body, rule)
    stored = set(written_buffers(function.body))
    outputs = [] if has_threads else [buffer for buffer in function.params if buffer in stored]
    fills = [
        _fill(buffer, is_vector=True)
        for buffer in outputs
        if not buffer.is_updated and not is_loaded(function.body, buffer.name)
    ]
    return put_first(replace(function, body=body), fills)


def _fill(buffer: Buffer, *, is_vector: bool) -> Stmt:
    """Return statements that store to every element of `buffer`."""
    value: Expr = _signal(buffer)
    *outer, last = buffer.shape or (1,)
    is_vector = is_vector and 1 < last <= _LANES and not buffer.dtype.is_bool
    is_vector = is_vector and (not buffer.sizes or buffer.sizes[-1] is None)
    extents = outer if is_vector else [*outer, last] if buffer.shape else []
    indices: list[Expr] = [Var(f"{buffer.name}.fill{n}") for n in range(len(extents))]
    if is_vector:
        indices.append(Ramp(const(0), const(1), last))
        value = Broadcast(value, last)
    is_small = buffer.scope is Scope.REGISTER or (
        buffer.scope is Scope.LOCAL and buffer.elements <= _COPIES
    )
    stmt: Stmt = Store(buffer, tuple(indices), value)
    for n, extent in reversed(list(enumerate(extents))):
        var = Var(f"{buffer.name}.fill{n}")
        if is_small and not buffer.sizes:
            stmt = For(var, extent, LoopKind.UNROLLED, stmt)
        else:
            stmt = loop_over(var, buffer.extents[n], stmt)
    return stmt


def _signal(buffer: Buffer) -> Const:
    """Return a value that no computation returns, or few do."""
    dtype = buffer.dtype
    if dtype.is_bool:
        return const(True, BOOL)
    return const(math.nan if dtype.is_float else integer_range(dtype)[1], dtype)
