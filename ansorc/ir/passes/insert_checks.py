"""Insert checks of data before it is used: indices into tensors, and assertions of a program.

parallel i in 0..8:                            parallel i in 0..8:
    for j in 0..768:                   ->          check cast(uint64, I[i]) < 10, …
        C[i, j] = T[I[i], j]                       for j in 0..768:
                                                       C[i, j] = T[I[i], j]

It is the last pass, so that no other pass has to know checks, and no check is repeated in copies
that passes make. A check goes before the statement that needs it, or, with its own loops, before a
loop around the statement. It goes where it runs the fewest times, and as far inside as possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ansorc.ir.arith.interval import Interval
from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Checked, Expr, Load, Not, dtype_of
from ansorc.ir.fault import FaultKind
from ansorc.ir.node import Node, walk
from ansorc.ir.passes.accesses import Stores
from ansorc.ir.passes.data_checks import (
    CheckRules,
    DataChecks,
    GuardedCheck,
    has_checks,
    may_divide_by_zero,
)
from ansorc.ir.passes.promised_values import promise_checks
from ansorc.ir.specialize import put_first
from ansorc.ir.stmt import (
    Allocate,
    Check,
    For,
    Function,
    If,
    LoopKind,
    Seq,
    Stmt,
    Store,
    map_substatements,
)
from ansorc.ir.substitute import free_vars

_MOST_COPIES = 64
"""The most copies of a check in straight-line code; more are in a loop, if they read no
registers."""
_Step: TypeAlias = tuple[Stmt, "Expr | None"]
"""A statement around another; for an If also the condition under which the other runs."""
_Path: TypeAlias = tuple[_Step, ...]
"""The outermost first."""


def insert_checks(function: Function, *, clamps: bool = False) -> Function:
    """Return `function` with its checks as statements; `checks_indices` decides about indices.

    With `clamps`, indices are clamped to their tensors after the check, since a GPU kernel goes on.
    """
    first = promise_checks(function, has_threads=clamps) if function.checks_indices else []
    if not first and not any(map(_is_of_data, walk(function.body))):
        return function
    rules = CheckRules(function.checks_indices, clamps)
    body = _Placing(rules).stmt(function.body, (), {})
    return put_first(replace(function, body=body), first)


class _Placing:
    def __init__(self, rules: CheckRules) -> None:
        self._rules = rules
        self._stores = Stores()
        self._before: dict[int, list[Stmt]] = {}
        """The statements to insert before a statement, by its id."""

    def stmt(self, stmt: Stmt, path: _Path, ranges: dict[str, Interval]) -> Stmt:
        """Return `stmt`, inside `path`, after its checks and others that were placed here."""
        new = self._check(stmt, path, ranges)
        before = self._before.pop(id(stmt), None)
        if before is None:
            return new
        rest = new.stmts if isinstance(new, Seq) else (new,)
        return Seq((*before, *rest))

    def _check(self, stmt: Stmt, path: _Path, ranges: dict[str, Interval]) -> Stmt:
        match stmt:
            case For(var):
                inner = {**ranges, var.name: stmt.span}
                stmt = self._bounds(stmt, path, ranges)
                return map_substatements(
                    stmt, lambda part: self.stmt(part, (*path, (stmt, None)), inner)
                )
            case If(condition, Store() as store, None) if dtype_of(condition).lanes > 1:
                test = self._exprs(stmt, (condition,), path, ranges)[0]
                return If(test, self._store(stmt, store, (path, (test,)), ranges))
            case If(condition):
                test = self._exprs(stmt, (condition,), path, ranges)[0]
                return self._if(stmt, test, path, ranges)
            case Store():
                return self._store(stmt, stmt, (path, ()), ranges)
            case Check():
                checks = DataChecks(ranges, self._rules)
                checks.check(stmt)
                self._insert(stmt, checks.found, path)
                return Seq(())
            case _:
                return map_substatements(
                    stmt, lambda part: self.stmt(part, (*path, (stmt, None)), ranges)
                )

    def _bounds(self, loop: For, path: _Path, ranges: dict[str, Interval]) -> For:
        """Return `loop` with a range without checks; they are placed before it."""
        if not loop.bounds:
            return loop
        begin, end = self._exprs(loop, loop.bounds, path, ranges)
        return replace(loop, begin=begin, end=end)

    def _if(self, stmt: If, test: Expr, path: _Path, ranges: dict[str, Interval]) -> Stmt:
        then = self.stmt(stmt.then, (*path, (stmt, test)), ranges)
        if stmt.otherwise is None:
            return If(test, then)
        return If(test, then, self.stmt(stmt.otherwise, (*path, (stmt, Not(test))), ranges))

    def _store(
        self,
        whole: Stmt,
        store: Store,
        before: tuple[_Path, tuple[Expr, ...]],
        ranges: dict[str, Interval],
    ) -> Store:
        """Return `store` without checks; they are placed before `whole`."""
        path, masks = before
        exprs = (*store.indices, store.value)
        *indices, value = self._exprs(whole, exprs, path, ranges, masks)
        access = self._exprs(whole, (Load(store.buffer, tuple(indices)),), path, ranges, masks)[0]
        assert isinstance(access, Load)
        if value is store.value and access.indices == store.indices:
            return store
        return replace(store, indices=access.indices, value=value)

    def _exprs(
        self,
        stmt: Stmt,
        exprs: Sequence[Expr],
        path: _Path,
        ranges: dict[str, Interval],
        masks: tuple[Expr, ...] = (),
    ) -> list[Expr]:
        """Return the expressions `exprs` of `stmt` without checks; the checks are placed."""
        if not any(map(has_checks, exprs)):
            return list(exprs)
        checks = DataChecks(ranges, self._rules, masks)
        new = [checks.expr(expr) for expr in exprs]
        self._insert(stmt, checks.found, path)
        return new

    def _insert(self, stmt: Stmt, checks: Sequence[GuardedCheck], path: _Path) -> None:
        """Place the checks that `stmt` needs before it, or before a statement around it.

        Checks keep their order: a check goes no further out than the checks before it.
        """
        for check in checks:
            need = _Need.of(check)
            around, nested = self._best(stmt, need, path)
            before = self._before.setdefault(id(around), [])
            new = need.nest(nested)
            if new not in before:
                before.append(new)

    def _best(self, stmt: Stmt, need: _Need, path: _Path) -> tuple[Stmt, _Path]:
        """Return the statement before which a check goes, and the part of the path to repeat."""
        best, depth = _runs(need, path, ()), len(path)
        for number in range(len(path) - 1, -1, -1):
            around, condition = path[number]
            need = need.under(condition)
            if not self._may_leave(around, need):
                break
            count = _runs(need, path[:number], path[number:])
            if count < best or (count == best and self._is_block(need, path, number)):
                best, depth = count, number
        return (path[depth][0] if depth < len(path) else stmt), path[depth:]

    def _is_block(self, need: _Need, path: _Path, number: int) -> bool:
        """Return whether a check of vectors is done for all copies of the loop around it at once.

        This is one test, and later scalar loads do not have to extract lanes of vectors.
        """
        around = path[number][0]
        if self._rules.clamps or not isinstance(around, For) or need.one.guards:
            return False
        is_alone = all(isinstance(stmt, Seq) for stmt, _ in path[number + 1 :])
        is_vector = dtype_of(need.one.check.condition).lanes > 1
        is_place = need.one.check.kind is FaultKind.INDEX
        return around.kind is LoopKind.UNROLLED and is_alone and is_vector and is_place

    def _may_leave(self, around: Stmt, need: _Need) -> bool:
        """Return whether a check may be done before `around` instead of inside it."""
        if isinstance(around, For) and (around.bounds or around.kind is LoopKind.BOUND):
            return False  # an empty range reads nothing
        if isinstance(around, Allocate) and around.buffer.name in need.reads:
            return False
        return need.reads.isdisjoint(self._stores.of(around))


@dataclass(frozen=True)
class _Need:
    """A check, and the data that it reads."""

    one: GuardedCheck
    variables: frozenset[str]
    reads: frozenset[str]
    has_registers: bool

    @staticmethod
    def of(check: GuardedCheck) -> _Need:
        exprs = (check.check.condition, *check.check.args, *check.guards)
        return _Need(check, frozenset[str](), frozenset[str](), has_registers=False)._with(exprs)

    def under(self, condition: Expr | None) -> _Need:
        """Return the check to do outside of an If with that condition."""
        return self if condition is None else self._with((condition,))

    def nest(self, path: _Path) -> Stmt:
        """Return the check inside the loops and conditions of `path` that it needs."""
        conditions = [condition for _, condition in path if condition is not None]
        guards = [*conditions, *self.one.guards]
        need = self._with(conditions)
        stmt: Stmt = If(conjunction(guards), self.one.check) if guards else self.one.check
        for around, _ in reversed(path):
            if isinstance(around, For) and around.var.name in need.variables:
                is_copied = around.kind is LoopKind.UNROLLED
                is_copied &= need.has_registers or around.extent <= _MOST_COPIES
                kind = LoopKind.UNROLLED if is_copied else LoopKind.SERIAL
                stmt = For(around.var, around.extent, kind, stmt)
        return stmt

    def _with(self, exprs: Sequence[Expr]) -> _Need:
        buffers: set[Buffer] = {
            part.buffer for expr in exprs for part in walk(expr) if isinstance(part, Load)
        }
        return replace(
            self,
            variables=self.variables.union(*map(free_vars, exprs)),
            reads=self.reads.union(buffer.name for buffer in buffers),
            has_registers=self.has_registers or any(b.scope is Scope.REGISTER for b in buffers),
        )


def _runs(need: _Need, outside: _Path, inside: _Path) -> int:
    """Return how often a check runs inside `outside`, repeating the loops of `inside` it needs."""
    loops = [around.extent for around, _ in outside if isinstance(around, For)]
    loops_ = [around for around, _ in inside if isinstance(around, For)]
    return math.prod(loops) * math.prod(
        loop.extent for loop in loops_ if loop.var.name in need.variables
    )


def _is_of_data(part: Node) -> bool:
    """Return whether a node is a check, or may be an index that depends on data."""
    match part:
        case Checked() | Check():
            return True
        case Load(_, indices) | Store(_, indices):
            return any(isinstance(below, Load) for index in indices for below in walk(index))
        case _:
            return may_divide_by_zero(part)
