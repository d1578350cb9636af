"""Where a program loads and stores: every access with the loops around it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Load
from ansorc.ir.node import walk
from ansorc.ir.stmt import Allocate, Barrier, For, If, Seq, Stmt, Store


@dataclass(frozen=True, slots=True)
class Access:
    """One load or store in the text of a program."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_store: bool
    loops: tuple[For, ...]
    """The loops around it, the outermost first."""
    guard: int
    """How many of `loops` are outside the innermost If around it; -1 without an If."""


@dataclass(frozen=True, slots=True)
class Span:
    """The accesses below one loop, and its depth."""

    loop: For
    depth: int
    accesses: tuple[Access, ...]


class Accesses:
    """All accesses of a program in order, found by the loop that they are in."""

    def __init__(self, root: Stmt) -> None:
        self.has_barrier = False
        self.allocated: dict[str, int] = {}
        """The number of loops around each Allocate, by buffer name."""
        self._found: list[Access] = []
        self._spans: dict[int, Span] = {}
        self._visit(root, (), -1)

    def below(self, loop: For) -> Span:
        """Return the accesses below `loop`, one of the program's own nodes."""
        return self._spans[id(loop)]

    def spans(self) -> Iterable[Span]:
        """Return the accesses below each loop, for every loop."""
        return self._spans.values()

    def _visit(self, stmt: Stmt, loops: tuple[For, ...], guard: int) -> None:
        match stmt:
            case For():
                start = len(self._found)
                self._visit(stmt.body, (*loops, stmt), guard)
                span = Span(stmt, len(loops), tuple(self._found[start:]))
                self._spans[id(stmt)] = span
            case Store(buffer, indices, value):
                for index in indices:
                    self._loads(index, loops, guard)
                self._loads(value, loops, guard)
                self._found.append(Access(buffer, indices, True, loops, guard))
            case If(condition, then, otherwise):
                self._loads(condition, loops, guard)
                self._visit(then, loops, len(loops))
                if otherwise is not None:
                    self._visit(otherwise, loops, len(loops))
            case Seq(stmts):
                for part in stmts:
                    self._visit(part, loops, guard)
            case Allocate(buffer, body):
                self.allocated[buffer.name] = len(loops)
                self._visit(body, loops, guard)
            case Barrier():
                self.has_barrier = True
            case _:
                assert_never(stmt)

    def _loads(self, expr: Expr, loops: tuple[For, ...], guard: int) -> None:
        for part in walk(expr):
            if isinstance(part, Load):
                self._found.append(Access(part.buffer, part.indices, False, loops, guard))


def is_loaded(root: Stmt, name: str) -> bool:
    """Whether `root` loads from the buffer called `name`."""
    return any(isinstance(part, Load) and part.buffer.name == name for part in walk(root))


def is_accessed(root: Stmt, name: str) -> bool:
    """Whether `root` loads from or stores to the buffer called `name`."""
    return any(isinstance(part, Load | Store) and part.buffer.name == name for part in walk(root))
