"""The pointers that an innermost loop advances besides its body, one addition for each."""

from __future__ import annotations

from ansorc.ir.buffer import Scope
from ansorc.ir.expr import Load
from ansorc.ir.node import walk
from ansorc.ir.stmt import For, LoopKind, Stmt, Store, statements


class Counters:
    """The values that an innermost loop advances by the same amount in each iteration."""

    def __init__(self, variable: str, before: str, latch: str) -> None:
        self.variable = variable
        """The name of the number of the iteration, from 0."""
        self._before, self._latch = before, latch
        self.top: list[str] = []
        """Code for the top of the loop."""
        self.end: list[str] = []
        """Code for the end of an iteration."""

    def add(self, names: tuple[str, str], start: str, step: int) -> None:
        """Let the first of `names` be a pointer: `start` at first, then `step` bytes further."""
        here, following = names
        values = f"[{start}, {self._before}], [{following}, {self._latch}]"
        self.top.append(f"  {here} = phi ptr {values}")
        self.end.append(f"  {following} = getelementptr i8, ptr {here}, i64 {step}")


def is_innermost(loop: For) -> bool:
    """Whether no loop inside `loop` is left in the code."""
    inner = (part for part in statements(loop.body) if isinstance(part, For))
    return all(
        part.kind is LoopKind.UNROLLED or (part.extent <= 1 and not part.bounds) for part in inner
    )


def is_tile_step(loop: For) -> bool:
    """Whether each iteration of `loop` adds to the whole of one register tile."""
    stores = [part for part in statements(loop.body) if isinstance(part, Store)]
    return loop.extent > 1 and all(
        store.buffer.scope is Scope.REGISTER
        and not any(part == loop.var for index in store.indices for part in walk(index))
        for store in stores
    )


def adds_to_tile(stmt: Stmt) -> bool:
    """Whether unrolled loops do nothing but add to a register tile."""
    stores = [part for part in statements(stmt) if isinstance(part, Store)]
    return (
        isinstance(stmt, For)
        and is_innermost(stmt)
        and all(
            store.buffer.scope is Scope.REGISTER
            and any(isinstance(p, Load) and p.buffer == store.buffer for p in walk(store.value))
            for store in stores
        )
    )
