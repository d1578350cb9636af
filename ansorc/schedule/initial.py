"""Choose where a reduction initialises its results: next to the tile that adds to them.

for k.0, i.0:                            not    for i.0, i.1:
    if k.0 == 0:                                    C[…] = 0
        for i.1: C[…] = 0                       for k.0, i.0, k.1, i.1:
    for k.1, i.1: C[…] += …                         C[…] += …

A separate pass over a large result costs memory traffic; next to the tile the identities stay in
registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.expr import CompareOp, Expr, Var, compare, const
from ansorc.schedule.extent import IntArray, as_array, multiply
from ansorc.schedule.stage import AxisKind, Loop

_TILE_ELEMENTS = 1024
"""The largest register tile: twice 32 vectors of 16 float32."""


def initial_position(iterators: Sequence[Loop], reduce: int) -> IntArray:
    """Return the position in `iterators` before which the identities are stored.

    It is not before `reduce`, the position of the first reduction. It is the first reduction
    inside which the results fit a register tile; reductions of one iteration are skipped. Returns
    one number for a program, [rows] for a population.
    """
    chosen, is_passed = np.asarray(-1), np.asarray(False)
    for position in range(reduce, len(iterators)):
        if iterators[position].kind is not AxisKind.REDUCE:
            continue
        fits = (chosen < 0) & (_elements(iterators[position:]) <= _TILE_ELEMENTS)
        moves = (chosen >= 0) & ~is_passed
        chosen = np.where(fits | moves, position, chosen)
        is_passed = (chosen >= 0) & (is_passed | (as_array(iterators[position].extent) > 1))
    return np.where(chosen < 0, reduce, chosen)


def _elements(iterators: Sequence[Loop]) -> IntArray:
    return as_array(multiply(it.extent for it in iterators if it.kind is AxisKind.SPACE))


def first_pass(iterators: Sequence[Loop], leaves: Mapping[str, Expr]) -> Expr | None:
    """Return the condition that the reductions of `iterators` are at their first values.

    Return None if that is always true.
    """
    values = [leaves[it.name] for it in iterators if it.kind is AxisKind.REDUCE]
    tests = [compare(CompareOp.EQ, value, const(0)) for value in values if isinstance(value, Var)]
    return conjunction(tests) if tests else None
