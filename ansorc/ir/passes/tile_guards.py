"""Conditions around the accesses to a register tile: those on its elements, and the others.

for k, i:                                       if i < n: C.reg[i] = C[i]
    if i < n and k < m:               ->        for k, i: if i < n and k < m: C.reg[i] += A[i, k]
        C[i] += A[i, k]                         if i < n: C[i] = C.reg[i]

`i < n` is on elements: where it fails there may be no C[i]. `k < m` is not: it only has to hold for
some k, for then C[i] is stored to, and exists.
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
    """Return the conditions on elements around `access`, and the other ones.

    Only Ifs inside the first `depth` loops count. Those are on elements that use none of the
    variables `moving`, and read no memory.
    """
    inside = [guard.condition for guard in access.place.guards if guard.depth >= depth]
    parts = [part for condition in inside for part in conjuncts(condition)]
    fixed = [part for part in parts if _is_fixed(part, moving)]
    others = [part for part in parts if not _is_fixed(part, moving)]
    return tuple(fixed), tuple(others)


def happens(store: BufferAccess, depth: int, moving: Set[str]) -> bool:
    """Whether `store` happens to each element that its conditions on elements allow.

    Looked at are the iterations in which the variables `moving` are all first or all last.
    """
    _, others = split_guards(store, depth, moving)
    ranges = {loop.var.name: (0, loop.extent - 1) for loop in store.loops}
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
    """Whether the element of `store` is one of its buffer whatever its conditions are."""
    ranges = {loop.var.name: (0, loop.extent - 1) for loop in store.loops}
    return is_inside(store.buffer, store.indices, ranges)


def guarded(conditions: Sequence[Expr], stmt: Stmt) -> Stmt:
    """Return `stmt` where all the conditions hold."""
    return If(conjunction(list(conditions)), stmt) if conditions else stmt


def _holds(condition: Expr, values: dict[str, Expr], ranges: dict[str, tuple[int, int]]) -> bool:
    return prove(substitute(condition, values), ranges) is True


def _is_fixed(condition: Expr, moving: Set[str]) -> bool:
    return not any(
        isinstance(part, Load) or (isinstance(part, Var) and part.name in moving)
        for part in walk(condition)
    )
