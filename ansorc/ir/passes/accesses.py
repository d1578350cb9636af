"""List the loads and stores of a program, each with the loops around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from ansorc.ir.arith.interval import Ranges, bounds, prove
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dim import SizeLike, least_of
from ansorc.ir.expr import CompareOp, Expr, Load, Not, compare, const
from ansorc.ir.node import walk
from ansorc.ir.size_expr import size_expr
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    If,
    Leaf,
    Prefetch,
    Seq,
    Stmt,
    Store,
    substatements,
    written_buffer,
    written_buffers,
)


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition under which a statement runs."""

    condition: Expr
    depth: int
    """The number of loops around the If."""


@dataclass(frozen=True, slots=True)
class StmtContext:
    """The loops, conditions and allocations around a statement."""

    loops: tuple[For, ...] = ()
    """The outermost first."""
    guards: tuple[Guard, ...] = ()
    homes: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of loops around the Allocate of each buffer in scope, by name."""

    def inside_if(self, condition: Expr) -> StmtContext:
        """Return the context inside an If."""
        return replace(self, guards=(*self.guards, Guard(condition, len(self.loops))))


@dataclass(frozen=True, slots=True)
class BufferAccess:
    """One load or store in the text of a program."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_store: bool
    place: StmtContext
    is_atomic: bool = False
    """Whether other threads may store to the element next."""

    @property
    def loops(self) -> tuple[For, ...]:
        """The loops around it, the outermost first."""
        return self.place.loops

    def is_private(self, depth: int) -> bool:
        """Return whether its buffer is allocated inside the loop at `depth`."""
        return self.place.homes.get(self.buffer.name, 0) > depth


@dataclass(frozen=True, slots=True)
class Span:
    """The accesses below one loop, and its depth."""

    loop: For
    depth: int
    accesses: tuple[BufferAccess, ...]

    @property
    def private(self) -> set[str]:
        """The buffers that are allocated in each iteration."""
        return {a.buffer.name for a in self.accesses if a.is_private(self.depth)}


class Accesses:
    """All accesses of a program in order, with look-up by loop."""

    def __init__(self, root: Stmt) -> None:
        self.has_barrier = False
        self.all: list[BufferAccess] = []
        self._spans: dict[int, Span] = {}
        self._visit(root, StmtContext())

    def below(self, loop: For) -> Span:
        """Return the accesses below `loop`, one of the program's own nodes."""
        return self._spans[id(loop)]

    def may_move(self, buffer: Buffer, span: Span) -> bool:
        """Return whether `buffer` is memory, outlives the loop, and no barrier orders accesses."""
        return (
            buffer.name not in span.private
            and buffer.scope is not Scope.REGISTER
            and not self.has_barrier
        )

    def spans(self) -> Iterable[Span]:
        """Return the accesses below each loop, for every loop."""
        return self._spans.values()

    def _visit(self, stmt: Stmt, context: StmtContext) -> None:
        match stmt:
            case For():
                for bound in stmt.bounds:
                    self._loads(bound, context)
                start = len(self.all)
                self._visit(stmt.body, replace(context, loops=(*context.loops, stmt)))
                span = Span(stmt, len(context.loops), tuple(self.all[start:]))
                self._spans[id(stmt)] = span
            case If(condition, then, otherwise):
                self._loads(condition, context)
                self._visit(then, context.inside_if(condition))
                if otherwise is not None:
                    self._visit(otherwise, context.inside_if(Not(condition)))
            case Seq(stmts):
                for part in stmts:
                    self._visit(part, context)
            case Allocate(buffer, body):
                homes = {**context.homes, buffer.name: len(context.loops)}
                self._visit(body, replace(context, homes=homes))
            case _:
                self._visit_leaf(stmt, context)

    def _visit_leaf(self, stmt: Leaf, context: StmtContext) -> None:
        match stmt:
            case Store(buffer, indices, value):
                for index in indices:
                    self._loads(index, context)
                self._loads(value, context)
                access = BufferAccess(buffer, indices, True, context, stmt.is_atomic)
                self.all.append(access)
            case Barrier():
                self.has_barrier = True
            case Check(condition, args=args):
                for part in (condition, *args):
                    self._loads(part, context)
            case CallC():
                self.all += _accesses_of_c_call(stmt, context)
            case Prefetch() | Await():
                pass
            case _:
                assert_never(stmt)

    def _loads(self, expr: Expr, context: StmtContext) -> None:
        for part in walk(expr):
            if isinstance(part, Load):
                self.all.append(BufferAccess(part.buffer, part.indices, False, context))


def _accesses_of_c_call(stmt: CallC, context: StmtContext) -> Iterator[BufferAccess]:
    """Yield an access of the first element of each array; the others are accessed, too."""
    for buffer in (*stmt.inputs, stmt.output):
        first = tuple(const(0) for _ in buffer.shape)
        yield BufferAccess(buffer, first, buffer is stmt.output, context)


class Stores:
    """The names of the buffers to which statements store, cached for each statement."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[Stmt, frozenset[str]]] = {}  # kept alive with their ids

    def of(self, stmt: Stmt) -> frozenset[str]:
        """Return the names of the buffers to which `stmt` stores."""
        if (known := self._names.get(id(stmt))) is not None:
            return known[1]
        written = written_buffer(stmt)
        mine = frozenset[str]() if written is None else frozenset((written.name,))
        names = mine.union(*(self.of(part) for part in substatements(stmt)))
        self._names[id(stmt)] = stmt, names
        return names


def is_accessed(root: Stmt, name: str) -> bool:
    """Return whether `root` loads from or stores to the buffer named `name`."""
    return is_loaded(root, name) or any(b.name == name for b in written_buffers(root))


def is_loaded(root: Stmt, name: str) -> bool:
    """Return whether `root` loads from the buffer named `name`."""
    return any(
        (isinstance(part, Load) and part.buffer.name == name)
        or (isinstance(part, CallC) and any(buffer.name == name for buffer in part.inputs))
        for part in walk(root)
    )


def is_inside(buffer: Buffer, indices: tuple[Expr, ...], ranges: Ranges) -> bool:
    """Return whether `indices` are inside `buffer` for all values of variables in `ranges`."""
    return all(
        _is_below(index, length, ranges)
        for index, length in zip(indices, buffer.extents, strict=True)
    )


def _is_below(index: Expr, length: SizeLike, ranges: Ranges) -> bool:
    """Return whether `index` is in 0 … length - 1 for all values of variables in `ranges`."""
    span = bounds(index, ranges)
    if span is None or span[0] < 0:
        return False
    if span[1] < least_of(length) or isinstance(length, int):
        return span[1] < least_of(length)
    behind = compare(CompareOp.LT, index, size_expr(length))
    return prove(behind, ranges) is True
