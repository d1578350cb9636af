"""Programs of run-time sizes as programs of known ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansorc.errors import IRError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import Size, SizeLike, most_of
from ansorc.ir.expr import const
from ansorc.ir.size_expr import dim_var
from ansorc.ir.stmt import (
    Allocate,
    For,
    Function,
    LoopKind,
    Seq,
    Stmt,
    statements,
    with_body,
)
from ansorc.ir.substitute import substitute, with_buffers


def specialize(function: Function, sizes: Mapping[str, int]) -> Function:
    """Return `function` for these `sizes` of its dimensions, as a function without any.

    Raise IRError if a dimension has no size, or one that it cannot have.
    """
    body = function.body
    for dim in function.dims:
        size = sizes.get(dim.name)
        if size is None or not dim.includes(size):
            raise IRError(f"kernel '{function.name}' is called for {dim.name} = {size}, not {dim}")
        assert isinstance(body, For)
        body = substitute(body.body, {dim.variable: const(dim.count(size))})
    inside = (part.buffer for part in statements(body) if isinstance(part, Allocate))
    sized = [buffer for buffer in (*function.params, *inside) if buffer.sizes]
    exact = {buffer: resized_buffer(buffer, sizes) for buffer in sized}
    params = tuple(exact.get(buffer, buffer) for buffer in function.params)
    return replace(function, params=params, body=with_buffers(body, exact), dims=())


def resized_buffer(buffer: Buffer, sizes: Mapping[str, SizeLike]) -> Buffer:
    """Return `buffer` with other sizes of its dimensions, known or not."""
    if not buffer.sizes:
        return buffer
    extents = [e if isinstance(e, int) else e.replace(sizes) for e in buffer.extents]
    kept = tuple(e if isinstance(e, Size) else None for e in extents)
    is_known = all(size is None for size in kept)
    return replace(buffer, shape=tuple(map(most_of, extents)), sizes=() if is_known else kept)


def with_dims(function: Function) -> Function:
    """Return `function` with its body inside of a SIZE loop for each of its dimensions."""
    body: Stmt = function.body
    for dim in reversed(function.dims):
        low, high = dim.bounds
        inner = For(dim_var(dim), high + 1, LoopKind.SIZE, body)
        body = replace(inner, begin=const(low), end=const(high + 1))
    return replace(function, body=body)


def inside_dims(function: Function) -> Stmt:
    """Return the body of `function` inside of the loops over its dimensions."""
    stmt = function.body
    for _ in function.dims:
        assert isinstance(stmt, For)
        stmt = stmt.body
    return stmt


def put_first(function: Function, first: Sequence[Stmt]) -> Function:
    """Return `function` with the statements `first` in front of all others."""
    if not first:
        return function
    return _with_inside(function, Seq((*first, inside_dims(function))))


def _with_inside(function: Function, body: Stmt) -> Function:
    """Return `function` with `body` inside of the loops over its dimensions."""
    loops: list[For] = []
    stmt = function.body
    for _ in function.dims:
        assert isinstance(stmt, For)
        loops.append(stmt)
        stmt = stmt.body
    for loop in reversed(loops):
        body = with_body(loop, body)
    return replace(function, body=body)
