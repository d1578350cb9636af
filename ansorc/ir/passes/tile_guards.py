"""Split the conditions around accesses to a register tile: those on its elements, and others.

for k, i:                                       if i < n: C.reg[i] = C[i]
    if i < n and k < m:               ->        for k, i: if i < n and k < m: C.reg[i] += A[i, k]
        C[i] += A[i, k]                         if i < n: C[i] = C.reg[i]

`i < n` is a condition on elements: if it fails, C[i] may not exist. `k < m` is not: if it holds for
some k, C[i] is stored, and so exists.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.interval import prove
from ansorc.ir.arith.scalar import conjunction, conjuncts
from ansorc.ir.expr import Expr, Load, Var
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import BufferAccess, is_inside
from ansorc.ir.stmt import If, Stmt
from ansorc.ir.substitute import substitute


def split_guards(
    access: BufferAccess, depth: int, moving: Set[str]
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Return the conditions on elements around `access`, and the other conditions.

    Only Ifs inside the first `depth` loops count. A condition is on elements if it uses none of the
    variables `moving` and reads no memory.
    """
    inside = [guard.condition for guard in access.place.guards if guard.depth >= depth]
    parts = [part for condition in inside for part in conjuncts(condition)]
    fixed = [part for part in parts if _is_fixed(part, moving)]
    others = [part for part in parts if not _is_fixed(part, moving)]
    return tuple(fixed), tuple(others)


def happens(store: BufferAccess, depth: int, moving: Set[str]) -> bool:
    """Return whether `store` stores each element that its conditions on elements allow.

    Only iterations in which all variables `moving` are first, or all are last, are considered.
    """
    _, others = split_guards(store, depth, moving)
    ranges = {loop.var.name: loop.span for loop in store.loops}
    return any(
        all(
            _holds(
                part, {name: integer(ranges[name][end]) for name in moving & ranges.keys()}, ranges
            )
            for part in others
        )
        for end in (0, 1)
    )


def exists(store: BufferAccess) -> bool:
    """Return whether the element of `store` is inside its buffer, whatever its conditions."""
    ranges = {loop.var.name: loop.span for loop in store.loops}
    return is_inside(store.buffer, store.indices, ranges)


def guard(conditions: Sequence[Expr], stmt: Stmt) -> Stmt:
    """Return `stmt` under all of `conditions`."""
    return If(conjunction(list(conditions)), stmt) if conditions else stmt


def _holds(condition: Expr, values: dict[str, Expr], ranges: dict[str, tuple[int, int]]) -> bool:
    return prove(substitute(condition, values), ranges) is True


def _is_fixed(condition: Expr, moving: Set[str]) -> bool:
    return not any(
        isinstance(part, Load) or (isinstance(part, Var) and part.name in moving)
        for part in walk(condition)
    )
