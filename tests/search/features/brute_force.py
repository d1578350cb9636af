"""Count what a lowered program touches by running all its loops in Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Load, Var
from ansorc.ir.node import children, walk
from ansorc.ir.stmt import For, Function, Store

OPERATORS: dict[BinaryOp, Callable[[int, int], int]] = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.sub,
    BinaryOp.MUL: operator.mul,
    BinaryOp.FLOORDIV: lambda a, b: a // b,
    BinaryOp.MOD: operator.mod,
    BinaryOp.MIN: min,
    BinaryOp.MAX: max,
}


@dataclass(frozen=True)
class Statement:
    loops: tuple[For, ...]
    store: Store


def statements(function: Function) -> dict[str, Statement]:
    """The statement of each tensor; of a reduction the one that adds up."""
    found: dict[str, Statement] = {}

    def visit(node: object, loops: tuple[For, ...]) -> None:
        if isinstance(node, Store):
            found[node.buffer.name] = Statement(loops, node)
        elif isinstance(node, For):
            visit(node.body, (*loops, node))
        else:
            for child in children(node):  # pyright: ignore[reportArgumentType]
                visit(child, loops)

    visit(function.body, ())
    return found


def accesses(statement: Statement) -> dict[str, list[tuple[Expr, ...]]]:
    """The index tuples of each tensor that the statement touches."""
    found = {statement.store.buffer.name: [statement.store.indices]}
    for node in walk(statement.store.value):
        if isinstance(node, Load) and node.buffer.name != statement.store.buffer.name:
            found.setdefault(node.buffer.name, []).append(node.indices)
    return found


def touched(
    statement: Statement, indices: list[tuple[Expr, ...]], place: int
) -> set[tuple[int, ...]]:
    """The elements touched with the first `place` loops at their first iteration."""
    return {
        tuple(value(index, at) for index in each)
        for at in iterations(statement.loops, place)
        for each in indices
    }


def iterations(loops: tuple[For, ...], place: int) -> Iterator[dict[str, int]]:
    ranges = [range(loop.extent if n >= place else 1) for n, loop in enumerate(loops)]
    for point in product(*ranges):
        yield {loop.var.name: at for loop, at in zip(loops, point, strict=True)}


def value(expr: Expr, at: dict[str, int]) -> int:
    match expr:
        case Const(number, _):
            return int(number)
        case Var(name, _):
            return at[name]
        case Binary(op, left, right):
            return OPERATORS[op](value(left, at), value(right, at))
        case _:
            raise NotImplementedError(expr)
