"""Programs of run-time sizes as programs of known ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansorc.errors import IRError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import value_of
from ansorc.ir.expr import Load, const
from ansorc.ir.node import Node, rewrite
from ansorc.ir.size_expr import dim_var
from ansorc.ir.stmt import (
    Allocate,
    For,
    Function,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    with_body,
)
from ansorc.ir.substitute import substitute


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
    known: dict[Buffer, Buffer] = {}

    def exact(buffer: Buffer) -> Buffer:
        if buffer not in known:
            known[buffer] = exact_buffer(buffer, sizes)
        return known[buffer]

    def rule(node: Node) -> Node | None:
        match node:
            case Load(buffer, indices) if buffer.sizes:
                return Load(exact(buffer), indices)
            case Store(buffer) if buffer.sizes:
                return replace(node, buffer=exact(buffer))
            case Prefetch(buffer, indices) if buffer.sizes:
                return Prefetch(exact(buffer), indices)
            case Allocate(buffer, inner) if buffer.sizes:
                return Allocate(exact(buffer), inner)
            case _:
                return None

    params = tuple(map(exact, function.params))
    return replace(function, params=params, body=rewrite(body, rule), dims=())


def exact_buffer(buffer: Buffer, sizes: Mapping[str, int]) -> Buffer:
    """Return `buffer` with the extents that it has for these sizes of dimensions."""
    if not buffer.sizes:
        return buffer
    shape = tuple(value_of(extent, sizes) for extent in buffer.extents)
    return replace(buffer, shape=shape, sizes=())


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
