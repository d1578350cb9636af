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

import numpy as np

from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.expr import CompareOp, Expr, Var, compare, const
from ansorc.schedule.extent import IntArray, as_array, multiply
from ansorc.schedule.stage import Iterator, IteratorKind

_TILE_ELEMENTS = 1024
"""No register tile is larger: twice 32 vectors of 16 float32."""


def initial_place(iterators: Sequence[Iterator], reduce: int) -> IntArray:
    """Return before which of `iterators` the identities are stored, at or after the first `reduce`.

    It is the first place, ahead of reductions, inside of which the results make a register tile;
    or a later one, up to the first reduction that has more than one iteration. One number for a
    program, [rows] for a population.
    """
    chosen, is_passed = np.asarray(-1), np.asarray(False)
    for place in range(reduce, len(iterators)):
        if iterators[place].kind is not IteratorKind.REDUCE:
            continue
        fits = (chosen < 0) & (_elements(iterators[place:]) <= _TILE_ELEMENTS)
        moves = (chosen >= 0) & ~is_passed
        chosen = np.where(fits | moves, place, chosen)
        is_passed = (chosen >= 0) & (is_passed | (as_array(iterators[place].extent) > 1))
    return np.where(chosen < 0, reduce, chosen)


def _elements(iterators: Sequence[Iterator]) -> IntArray:
    return as_array(multiply(it.extent for it in iterators if it.kind is IteratorKind.SPACE))


def first_pass(iterators: Sequence[Iterator], leaves: Mapping[str, Expr]) -> Expr | None:
    """Return the condition that the reductions of `iterators` are at their first values.

    None where nothing but that can be.
    """
    values = [leaves[it.name] for it in iterators if it.kind is IteratorKind.REDUCE]
    tests = [compare(CompareOp.EQ, value, const(0)) for value in values if isinstance(value, Var)]
    return conjunction(tests) if tests else None
