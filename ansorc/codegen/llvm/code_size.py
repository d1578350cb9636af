"""Refuse programs whose unrolled loops make more code than LLVM compiles in a few seconds."""

from __future__ import annotations

from ansorc.errors import BuildError
from ansorc.ir.stmt import For, Function, LoopKind, Stmt, Store, substatements

MAX_STATEMENTS = 8192
"""The most stores, of a scalar or a vector, that are written out for the body of one loop."""


def require_bounded_code(function: Function) -> None:
    """Raise BuildError if an unrolled loop of `function` makes too many copies, naming the loop."""
    _statements(function.body)


def _statements(stmt: Stmt) -> int:
    if isinstance(stmt, Store):
        return 1
    inside = sum(_statements(part) for part in substatements(stmt))
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.UNROLLED:
        return inside
    if inside * stmt.extent > MAX_STATEMENTS:
        raise BuildError(
            f"unrolling the loop '{stmt.var.name}' of {stmt.extent} iterations would write out "
            f"{inside * stmt.extent} statements, which would compile for long; the most is "
            f"{MAX_STATEMENTS}: unroll a shorter loop"
        )
    return inside * stmt.extent
