"""Where the results of a reduction get their identities: beside the tile that adds to them.

for k.0, i.0:                            not    for i.0, i.1:
    if k.0 == 0:                                    C[…] = 0
        for i.1: C[…] = 0                       for k.0, i.0, k.1, i.1:
    for k.1, i.1: C[…] += …                         C[…] += …

A pass of its own over a large result costs its traffic to memory; beside the tile the identities
go into registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ansorc.ir.expr import Binary, BinaryOp, CompareOp, Expr, Var, compare, const
from ansorc.schedule.stage import Iterator, IteratorKind
from ansorc.schedule.values import known

_TILE_ELEMENTS = 1024
"""No register tile is larger: twice 32 vectors of 16 float32."""


def initial_place(iterators: Sequence[Iterator], reduce: int) -> int:
    """Return before which of `iterators` the identities are stored, at or after the first `reduce`.

    It is the first place, ahead of reductions, inside of which the results make a register tile.
    """
    for place in range(reduce, len(iterators)):
        is_after_space = iterators[place - 1].kind is IteratorKind.SPACE or place == reduce
        if iterators[place].kind is IteratorKind.REDUCE and is_after_space:
            inside = [it for it in iterators[place:] if it.kind is IteratorKind.SPACE]
            if prod(known(iterator.extent) for iterator in inside) <= _TILE_ELEMENTS:
                return place
    return reduce


def first_pass(iterators: Sequence[Iterator], leaves: Mapping[str, Expr]) -> Expr | None:
    """Return the condition that the reductions of `iterators` are at their first values.

    None where nothing but that can be.
    """
    condition: Expr | None = None
    for iterator in iterators:
        value = leaves[iterator.name]
        if iterator.kind is IteratorKind.REDUCE and isinstance(value, Var):
            test = compare(CompareOp.EQ, value, const(0))
            condition = test if condition is None else Binary(BinaryOp.AND, condition, test)
    return condition
