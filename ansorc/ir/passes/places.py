"""Questions about expressions and places in memory that several passes ask."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.ir.arith.affine import Atom, Linear, linear
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Load, Ramp, Var
from ansorc.ir.node import walk
from ansorc.ir.stmt import For, LoopKind, Stmt, statements

LINE_BYTES = 64
"""A cache line of x86, and of most ARM."""
UNROLLED = (LoopKind.UNROLLED, LoopKind.VECTORIZED)
"""Loops that are none in the code."""


def loops_of(stmt: Stmt) -> list[For]:
    """Return the loops of `stmt`, itself included, outer ones before those inside."""
    return [part for part in statements(stmt) if isinstance(part, For)]


def has_loops(stmt: Stmt) -> bool:
    """Whether loops remain that are not unrolled."""
    return any(loop.kind not in UNROLLED for loop in loops_of(stmt))


def uses(expr: Expr, name: str) -> bool:
    """Whether the variable `name` occurs in `expr`."""
    return any(isinstance(part, Var) and part.name == name for part in walk(expr))


def reads_memory(expr: Expr) -> bool:
    """Whether `expr` loads from a buffer."""
    return any(isinstance(part, Load) for part in walk(expr))


def first_lane(index: Expr) -> Expr:
    """Return the index of the first lane; a scalar is its own."""
    return index.base if isinstance(index, Ramp) else index


def flat_place(buffer: Buffer, indices: Sequence[Expr]) -> Linear[Atom] | None:
    """Return the elements from the start of `buffer` to the first lane of `indices`."""
    total: Linear[Atom] = Linear()
    for index, stride in zip(indices, buffer.strides, strict=True):
        part = linear(first_lane(index))
        if part is None:
            return None
        total.add_scaled(part, stride)
    return total


def are_distinct(place: Linear[Atom], loops: Sequence[For], reach: int = 0) -> bool:
    """Whether different values of the loops' variables give different elements.

    Each access is to the `reach` elements after `place`, too. True for a mixed-radix sum: every
    step is longer than what the shorter steps reach together.
    """
    atoms = [atom for atom in place.terms if not isinstance(atom, str)]
    if any(uses(atom, loop.var.name) for atom in atoms for loop in loops):
        return False
    for step, extent in sorted((abs(place.terms.get(x.var.name, 0)), x.extent) for x in loops):
        if step <= reach:
            return False
        reach += step * (extent - 1)
    return True
