"""Where a program loads and stores: every access with the loops around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from ansorc.ir.arith.interval import Ranges, bounds
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Expr, Load, Not
from ansorc.ir.node import walk
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    Check,
    For,
    If,
    Prefetch,
    Seq,
    Stmt,
    Store,
    substatements,
)


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition under which something runs."""

    condition: Expr
    depth: int
    """How many loops are around the If."""


@dataclass(frozen=True, slots=True)
class StmtContext:
    """What is around a statement."""

    loops: tuple[For, ...] = ()
    """The outermost first."""
    guards: tuple[Guard, ...] = ()
    homes: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many loops are around the Allocate of a buffer in scope, by its name."""

    def guarded(self, condition: Expr) -> StmtContext:
        """Return the place inside an If."""
        return replace(self, guards=(*self.guards, Guard(condition, len(self.loops))))


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """One load or store in the text of a program."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_store: bool
    place: StmtContext

    @property
    def loops(self) -> tuple[For, ...]:
        """The loops around it, the outermost first."""
        return self.place.loops

    def is_private(self, depth: int) -> bool:
        """Whether its buffer is allocated inside the innermost of the first `depth` + 1 loops."""
        return self.place.homes.get(self.buffer.name, 0) > depth


@dataclass(frozen=True, slots=True)
class Span:
    """The accesses below one loop, and its depth."""

    loop: For
    depth: int
    accesses: tuple[BufferAccess, ...]

    @property
    def private(self) -> set[str]:
        """The buffers that each iteration has for itself."""
        return {a.buffer.name for a in self.accesses if a.is_private(self.depth)}


class Accesses:
    """All accesses of a program in order, found by the loop that they are in."""

    def __init__(self, root: Stmt) -> None:
        self.has_barrier = False
        self.all: list[BufferAccess] = []
        self._spans: dict[int, Span] = {}
        self._visit(root, StmtContext())

    def below(self, loop: For) -> Span:
        """Return the accesses below `loop`, one of the program's own nodes."""
        return self._spans[id(loop)]

    def may_move(self, buffer: Buffer, span: Span) -> bool:
        """Whether `buffer` is memory, outlives the loop, and no barrier orders its accesses."""
        return (
            buffer.name not in span.private
            and buffer.scope is not Scope.REGISTER
            and not self.has_barrier
        )

    def spans(self) -> Iterable[Span]:
        """Return the accesses below each loop, for every loop."""
        return self._spans.values()

    def _visit(self, stmt: Stmt, place: StmtContext) -> None:
        match stmt:
            case For():
                start = len(self.all)
                self._visit(stmt.body, replace(place, loops=(*place.loops, stmt)))
                span = Span(stmt, len(place.loops), tuple(self.all[start:]))
                self._spans[id(stmt)] = span
            case Store(buffer, indices, value):
                for index in indices:
                    self._loads(index, place)
                self._loads(value, place)
                self.all.append(BufferAccess(buffer, indices, True, place))
            case If(condition, then, otherwise):
                self._loads(condition, place)
                self._visit(then, place.guarded(condition))
                if otherwise is not None:
                    self._visit(otherwise, place.guarded(Not(condition)))
            case Seq(stmts):
                for part in stmts:
                    self._visit(part, place)
            case Allocate(buffer, body):
                homes = {**place.homes, buffer.name: len(place.loops)}
                self._visit(body, replace(place, homes=homes))
            case Barrier():
                self.has_barrier = True
            case Check(condition, args=args):
                for part in (condition, *args):
                    self._loads(part, place)
            case Prefetch() | Await():
                pass
            case _:
                assert_never(stmt)

    def _loads(self, expr: Expr, place: StmtContext) -> None:
        for part in walk(expr):
            if isinstance(part, Load):
                self.all.append(BufferAccess(part.buffer, part.indices, False, place))


class Stores:
    """The names of the buffers that statements store to; each statement is looked at once."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[Stmt, frozenset[str]]] = {}  # kept alive with their ids

    def of(self, stmt: Stmt) -> frozenset[str]:
        """Return the names of the buffers that `stmt` stores to."""
        if (known := self._names.get(id(stmt))) is not None:
            return known[1]
        own = frozenset((stmt.buffer.name,)) if isinstance(stmt, Store) else frozenset[str]()
        found = own.union(*(self.of(part) for part in substatements(stmt)))
        self._names[id(stmt)] = stmt, found
        return found


def is_accessed(root: Stmt, name: str) -> bool:
    """Whether `root` loads from or stores to the buffer called `name`."""
    return any(isinstance(part, Load | Store) and part.buffer.name == name for part in walk(root))


def is_loaded(root: Stmt, name: str) -> bool:
    """Whether `root` loads from the buffer called `name`."""
    return any(isinstance(part, Load) and part.buffer.name == name for part in walk(root))


def is_inside(buffer: Buffer, indices: tuple[Expr, ...], ranges: Ranges) -> bool:
    """Whether `buffer` has the element, whatever values in `ranges` the variables have."""
    found = [bounds(index, ranges) for index in indices]
    return all(
        span is not None and span[0] >= 0 and span[1] < length
        for span, length in zip(found, buffer.shape, strict=True)
    )
