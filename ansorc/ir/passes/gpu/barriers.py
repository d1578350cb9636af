"""Insert barriers where threads of a block would race.

for k in 0..8:                      for k in 0..8:
    S[t] = A[k, t]                      barrier shared
    C[t] = C[t] + S[63 - t]   ->        S[t] = A[k, t]
                                        barrier shared
                                        C[t] = C[t] + S[63 - t]

The walk goes through the statements in order, and through each loop twice, since an iteration may
race with the next one. It records the elements that were loaded and stored since the last barrier.
It puts a barrier before a statement that may touch an element that another thread has touched. If
several threads store to one element in a single statement, no barrier helps, and the program is
refused.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ansorc.errors import BuildError
from ansorc.ir.arith.scalar import conjuncts
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import BOOL
from ansorc.ir.expr import Exchange, Expr, Load, Not, Var
from ansorc.ir.node import walk
from ansorc.ir.passes.gpu.elements import Meetings, Touch
from ansorc.ir.passes.gpu.thread_nests import map_kernels
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    For,
    Function,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    map_substatements,
    statements,
    substatements,
)

_SEEN = (Scope.SHARED, Scope.GLOBAL)
"""The memory that several threads of a block can access."""
_NOWHERE = Buffer("", (), BOOL)


def insert_barriers(function: Function) -> Function:
    """Return `function`, whose kernels are in normal form, with the barriers that it needs.

    Raise BuildError if a barrier would be under a condition on which threads disagree.
    """
    body = map_kernels(function.body, lambda nest: _in_kernel(function.name, nest))
    return function if body is function.body else replace(function, body=body)


def _in_kernel(name: str, nest: Stmt) -> Stmt:
    threads = {
        part.var.name: part.extent
        for part in statements(nest)
        if isinstance(part, For) and part.thread.startswith("threadIdx")
    }
    if not any(extent > 1 for extent in threads.values()):
        return nest
    return _Waiting(name, threads).stmt(nest)


class _Waiting:
    """Walks through one kernel; `_open` holds the accesses since the last barrier."""

    def __init__(self, name: str, threads: dict[str, int]) -> None:
        self._name, self._threads = name, threads
        self._meetings = Meetings(threads)
        self._open: tuple[Touch, ...] = ()
        self._loops: dict[str, int] = {}
        self._known: dict[Hashable, tuple[Stmt | Expr, tuple[Touch, ...]]] = {}

    def stmt(self, stmt: Stmt) -> Stmt:
        """Return `stmt` with barriers inside it and before its parts."""
        match stmt:
            case Barrier():
                self._open = ()
                return stmt
            case For(var, extent, kind, body):
                if kind is LoopKind.BOUND:
                    if var.name not in self._threads:
                        self._loops[var.name] = extent
                    return map_substatements(stmt, self.stmt)
                return self._loop(stmt, body)
            case Seq() | Allocate():
                return map_substatements(stmt, self.stmt)
            case If(condition, then, otherwise) if not self._divides(condition):
                return self._uniform(stmt, then, otherwise)
            case _:
                return self._leaf(stmt)

    def _loop(self, loop: For, body: Stmt) -> Stmt:
        """Walk through the body twice, so that accesses of one iteration meet those of the next."""
        if not self._needs_waiting(loop) or any(map(self._divides, loop.bounds)):
            return self._leaf(loop)
        name = loop.var.name
        self._loops[name] = loop.extent
        first = self.stmt(body)
        self._open = tuple(touch.leaving(name) for touch in self._open)
        second = self.stmt(first)
        self._open = tuple(touch.leaving(name) for touch in self._open)
        del self._loops[name]
        return loop if second is body else replace(loop, body=second)

    def _uniform(self, stmt: If, then: Stmt, otherwise: Stmt | None) -> Stmt:
        test = self._touches(stmt.condition)
        waits = self._races(test)
        before = test if waits else (*self._open, *test)
        self._open = before
        new = self.stmt(then)
        after, self._open = self._open, before
        other = None if otherwise is None else self.stmt(otherwise)
        self._open = tuple(dict.fromkeys((*after, *self._open)))
        unchanged = new is then and other is otherwise
        result = stmt if unchanged else If(stmt.condition, new, other)
        return Seq((Barrier(Scope.SHARED), result)) if waits else result

    def _leaf(self, stmt: Stmt) -> Stmt:
        """Put a barrier before `stmt`, which has none inside, if it is needed."""
        if self._needs_waiting(stmt):
            raise BuildError(
                f"kernel '{self._name}' needs a barrier under a condition that not all threads of "
                "a block share; move the condition inwards, or share less memory there"
            )
        if not isinstance(stmt, Store) and self._exchanges(stmt):
            raise BuildError(
                f"kernel '{self._name}' lets threads of a warp exchange values under a condition "
                "that not all threads of a block share; move the condition inwards"
            )
        touches = self._touches(stmt)
        self._require_one_each(touches)
        if self._races(touches):
            self._open = touches
            return Seq((Barrier(Scope.SHARED), stmt))
        self._open = (*self._open, *touches)
        return stmt

    def _require_one_each(self, touches: tuple[Touch, ...]) -> None:
        for touch in touches:
            if (
                touch.is_store
                and not touch.is_atomic
                and self._meetings.is_stored_by_several(touch)
            ):
                raise BuildError(
                    f"kernel '{self._name}' lets several threads of a block store the same element "
                    f"of '{touch.buffer.name}'; bind its loops to threadIdx, or compute "
                    "its stage outside of the loops that are bound to it"
                )

    def _exchanges(self, stmt: Stmt) -> bool:
        """Return whether `stmt` has an exchange under a condition on which threads disagree."""
        if isinstance(stmt, If):
            return any(isinstance(node, Exchange) for node in walk(stmt))
        return any(map(self._exchanges, substatements(stmt)))

    def _races(self, touches: tuple[Touch, ...]) -> bool:
        return any(self._is_race(old, new) for old in self._open for new in touches)

    def _is_race(self, old: Touch, new: Touch) -> bool:
        if not (old.is_store or new.is_store) or old.buffer != new.buffer:
            return False
        if old.is_atomic and new.is_atomic:
            return False
        return self._meetings.may_meet(old, new)

    def _needs_waiting(self, stmt: Stmt) -> bool:
        """Return whether threads race between statements or iterations inside `stmt`.

        No barrier can separate the accesses of a single statement.
        """
        if isinstance(stmt, Store):
            return False
        if any(isinstance(part, Barrier) for part in statements(stmt)):
            return True
        touches = self._touches(stmt)
        return any(
            self._is_race(a, b)
            for number, a in enumerate(touches)
            for b in touches[number:]
            if a.statement != b.statement or a.free
        )

    def _touches(self, root: Stmt | Expr) -> tuple[Touch, ...]:
        """Return the accesses inside `root` to memory of several threads."""
        key = id(root), tuple(self._loops.items())
        if key not in self._known:  # the root is kept alive with its id
            touches: list[Touch] = []
            _collect(root, Touch(_NOWHERE, (), False, 0, fixed=dict(self._loops)), touches)
            self._known[key] = root, tuple(touches)
        return self._known[key][1]

    def _divides(self, condition: Expr) -> bool:
        """Return whether the threads of a block may disagree about `condition`."""
        return any(
            isinstance(part, Load) or (isinstance(part, Var) and part.name in self._threads)
            for part in walk(condition)
        )


def _collect(root: Stmt | Expr, like: Touch, touches: list[Touch]) -> None:
    match root:
        case For(var, extent, _, body):
            for bound in root.bounds:
                _collect(bound, like, touches)
            _collect(body, replace(like, free={**like.free, var.name: extent}), touches)
        case If(condition, then, otherwise):
            _collect(condition, like, touches)
            _collect(then, replace(like, guards=(*like.guards, *conjuncts(condition))), touches)
            if otherwise is not None:
                no = replace(like, guards=(*like.guards, Not(condition)))
                _collect(otherwise, no, touches)
        case Seq() | Allocate():
            for part in substatements(root):
                _collect(part, like, touches)
        case Barrier() | Prefetch() | Await():
            pass
        case _:
            atomic = root.buffer if isinstance(root, Store) and root.is_atomic else _NOWHERE
            for part in walk(root):
                if isinstance(part, Load | Store) and part.buffer.scope in _SEEN:
                    touches.append(
                        replace(
                            like, buffer=part.buffer, indices=part.indices,
                            is_store=isinstance(part, Store), statement=id(root),
                            is_atomic=part.buffer == atomic,
                        )
                    )  # fmt: skip
