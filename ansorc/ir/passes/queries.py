"""Queries about expressions and memory offsets that several passes use."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.ir.arith.affine import Atom, Linear, linear
from ansorc.ir.arith.integer import rejoin
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Load, Ramp, Var
from ansorc.ir.node import walk
from ansorc.ir.stmt import For, LoopKind, Stmt, statements

LINE_BYTES = 64
"""The bytes of a cache line of x86 and most ARM processors."""
UNROLLED = (LoopKind.UNROLLED, LoopKind.VECTORIZED)
"""Loop kinds that vanish in generated code."""


def loops_of(stmt: Stmt) -> list[For]:
    """Return the loops of `stmt`, including itself, outer loops first."""
    return [part for part in statements(stmt) if isinstance(part, For)]


def has_loops(stmt: Stmt) -> bool:
    """Return whether `stmt` has loops that are not unrolled."""
    return any(loop.kind not in UNROLLED for loop in loops_of(stmt))


def uses(expr: Expr, name: str) -> bool:
    """Return whether the variable `name` occurs in `expr`."""
    return any(isinstance(part, Var) and part.name == name for part in walk(expr))


def reads_memory(expr: Expr) -> bool:
    """Return whether `expr` loads from a buffer."""
    return any(isinstance(part, Load) for part in walk(expr))


def first_lane(index: Expr) -> Expr:
    """Return the index of the first lane; a scalar index itself."""
    return index.base if isinstance(index, Ramp) else index


def flat_offset(buffer: Buffer, indices: Sequence[Expr]) -> Linear[Atom] | None:
    """Return the offset in elements from the start of `buffer` to the first lane of `indices`."""
    total: Linear[Atom] = Linear()
    for index, stride in zip(indices, buffer.strides, strict=True):
        part = linear(first_lane(index))
        if part is None:
            return None
        total.add_scaled(part, stride)
    return total


def are_distinct(offset: Linear[Atom], loops: Sequence[For], reach: int = 0) -> bool:
    """Return whether different values of the loops' variables give different elements.

    Each access also covers the `reach` elements after `offset`. It is True for a mixed-radix sum,
    in which every step is longer than the sum of the shorter steps. The quotient and the remainder
    of a fused loop are joined.
    """
    offset = offset.offset_by(0)
    rejoin(offset, {})
    atoms = [atom for atom in offset.terms if not isinstance(atom, str)]
    if any(uses(atom, loop.var.name) for atom in atoms for loop in loops):
        return False
    for step, extent in sorted((abs(offset.terms.get(x.var.name, 0)), x.extent) for x in loops):
        if step <= reach:
            return False
        reach += step * (extent - 1)
    return True
