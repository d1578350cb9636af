"""Unroll the loops that index private arrays of a thread, so that these become registers.

A register has no address: an array that is indexed by a loop is in memory, off the chip. Arrays
that are too long for registers stay there.
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.ir.buffer import Scope
from ansorc.ir.expr import Load
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.passes.code_size import count_statements
from ansorc.ir.stmt import Allocate, For, Function, LoopKind, Store, statements
from ansorc.ir.substitute import free_vars

MAX_REGISTERS = 255
"""The registers of 4 bytes of a thread."""
_STATEMENTS = 4096
"""The most copies of statements that unrolling may make from one loop."""


def unroll_private(function: Function) -> Function:
    """Return `function` with loops unrolled whose variables index small private arrays."""
    small = {
        part.buffer.name
        for part in statements(function.body)
        if isinstance(part, Allocate)
        and part.buffer.scope in (Scope.LOCAL, Scope.REGISTER)
        and part.buffer.bytes <= 4 * MAX_REGISTERS
    }
    if not small:
        return function
    names = {
        name
        for part in walk(function.body)
        if isinstance(part, Load | Store) and part.buffer.name in small
        for index in part.indices
        for name in free_vars(index)
    }

    def rule(old: Node) -> Node | None:
        if not isinstance(old, For) or old.kind is not LoopKind.SERIAL:
            return None
        if old.var.name not in names or old.extent * count_statements(old.body) > _STATEMENTS:
            return None
        return replace(old, kind=LoopKind.UNROLLED)

    body = rewrite(function.body, rule)
    return function if body is function.body else replace(function, body=body)
