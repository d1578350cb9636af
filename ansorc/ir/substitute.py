"""Replace variables by expressions and buffers by others; list the free variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar, cast

from ansorc.errors import IRError
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Load, Operand, Var
from ansorc.ir.node import Node, children, map_children, rewrite, walk
from ansorc.ir.stmt import Allocate, For, Prefetch, Store

N = TypeVar("N", bound=Node)


def substitute(root: N, values: Mapping[str, Expr]) -> N:
    """Return `root` with each variable named in `values` replaced by its value, all at once.

    A loop over such a name hides it. Raise IRError if a loop would capture a variable of a value.
    """
    if not values:
        return root
    done: dict[int, Node] = {}

    def visit(old: Node) -> Node:
        if (new := done.get(id(old))) is None:
            new = done[id(old)] = rebuilt(old)
        return new

    def rebuilt(old: Node) -> Node:
        match old:
            case Var(name):
                return values.get(name, old)
            case For(_, _, _, body):
                inner = _inside(old, values)
                new = visit(body) if inner is values else substitute(body, inner)
                ends = tuple(map(visit, old.bounds))
                if new is body and ends == old.bounds:
                    return old
                begin, end = ends or (None, None)
                return replace(old, body=cast(For, new), begin=begin, end=end)
            case _:
                return map_children(old, visit)

    return cast(N, visit(root))


def with_buffers(root: N, others: Mapping[Buffer, Buffer]) -> N:
    """Return `root` with each of the buffers replaced; other buffers of the same name stay."""

    def rule(old: Node) -> Node | None:
        match old:
            case Load(buffer) | Store(buffer) | Allocate(buffer) | Prefetch(buffer):
                new = others.get(buffer)
                return None if new is None else replace(old, buffer=new)
            case _:
                return None

    return rewrite(root, rule) if others else root


def free_vars(root: Node) -> set[str]:
    """Return the names of the variables that `root` reads but does not bind by a loop."""
    match root:
        case Operand():
            return {part.name for part in walk(root) if isinstance(part, Var)}
        case For(var, _, _, body):
            outside = {name for end in root.bounds for name in free_vars(end)}
            return (free_vars(body) - {var.name}) | outside
        case _:
            return {name for child in children(root) for name in free_vars(child)}


def _inside(loop: For, values: Mapping[str, Expr]) -> Mapping[str, Expr]:
    name = loop.var.name
    inner = values
    if name in values:
        inner = {key: value for key, value in values.items() if key != name}
    at_risk = {key for key, value in inner.items() if name in free_vars(value)}
    if at_risk and (captured := at_risk & free_vars(loop.body)):
        raise IRError(
            f"replacing '{min(captured)}' inside the loop over '{name}' would capture the '{name}' "
            "of its value; rename the variable of that loop first"
        )
    return inner
