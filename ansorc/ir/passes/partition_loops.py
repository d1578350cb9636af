"""Split loops where the tests inside them change: main part and tail, interior and border.

for i.0 in 0..4:                             for i.0 in 0..3:
    for i.1 in 0..6:                             for i.1 in 0..6:
        if i.0 * 6 + i.1 < 20:       ->              X[i.0 * 6 + i.1] = 1
            X[i.0 * 6 + i.1] = 1             for i.1 in 0..2:
                                                 X[18 + i.1] = 1

For a parallel loop, or for a share of a fused one (`i.0@j.0 // 3`), the split is an If around
copies of its body: there is one parallel region, and each copy has tighter bounds of the share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from typing import assert_never

from ansorc.ir.arith.affine import Atom, Linear, difference, integer
from ansorc.ir.arith.interval import Interval, Ranges
from ansorc.ir.arith.simplify import Simplifier
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Exchange, Expr, Select, Var
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.passes.code_size import count_statements
from ansorc.ir.passes.loop_tests import Cuts, LoopTest, TestFinder, find_cuts, is_serial
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    Function,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    statements,
)
from ansorc.ir.substitute import substitute

_WHOLE = (LoopKind.PARALLEL, LoopKind.BOUND, LoopKind.RAGGED, LoopKind.SIZE)
"""Loops that stay one."""
_SMALL = 32
"""The most statements of a body that may be copied for the guards of tiles inside it."""
_LONGEST_CHAIN = 16
"""The most ranges that are tested one after another."""


def partition_loops(function: Function, statements: int, *, by_choice: bool = True) -> Function:
    """Return `function` with loops split so that the tests in them are decided beforehand.

    The copies add at most `statements` statements; those of unrolled loops count once for each
    copy. A loop that would add more keeps its tests. `function` must be simplified. Loops bound to
    GPU threads stay whole. Without `by_choice`, loops are only split for guards of statements, and
    nothing is copied into both arms of an If: on a GPU, tests cost less than code.
    """
    if not _has_tests(function):
        return function
    body = _Partition(statements, by_choice=by_choice).stmt(function.body, {})
    return function if body is function.body else replace(function, body=body)


class _Partition:
    def __init__(self, statements: int, *, by_choice: bool) -> None:
        self._room, self._by_choice = statements, by_choice
        self._names = 0
        self._finder = TestFinder()

    def stmt(self, stmt: Stmt, ranges: Ranges) -> Stmt:
        match stmt:
            case Store() | Barrier() | Prefetch() | Await() | Check() | CallC():
                return stmt
            case For():
                return self._loop(stmt, ranges)
            case If(condition, then, otherwise):
                new = self.stmt(then, ranges)
                other = None if otherwise is None else self.stmt(otherwise, ranges)
                return stmt if new is then and other is otherwise else If(condition, new, other)
            case Seq(stmts):
                minor = [self._finder.is_minor(part, stmt) for part in stmts]
                parts = [
                    self._minor(part, ranges) if is_minor else self.stmt(part, ranges)
                    for part, is_minor in zip(stmts, minor, strict=True)
                ]
                return _sequence(stmt, parts)
            case Allocate(buffer, body):
                new = self.stmt(body, ranges)
                return stmt if new is body else Allocate(buffer, new)
            case _:
                assert_never(stmt)

    def _loop(self, loop: For, ranges: Ranges) -> Stmt:
        name = loop.var.name
        inner = {**ranges, name: loop.span}
        done: list[Expr] = []
        if loop.kind not in _WHOLE:
            for cuts in find_cuts(name, self._tests_of(loop, loop.body), inner):
                parts = self._parts(loop, cuts, ranges) if cuts.expr == loop.var else None
                if parts is not None:
                    return _sequence(None, [self.stmt(part, ranges) for part in parts])
            done.append(loop.var)
        new = self._body(loop, inner, done)
        return loop if new is loop.body else replace(loop, body=new)

    def _parts(self, loop: For, cuts: Cuts, ranges: Ranges) -> list[Stmt] | None:
        """Return one loop for each range, or None if the loop stays whole."""
        parts_ = [_part(loop, span, ranges) for span in cuts.ranges()]
        parts = [part for part in parts_ if not _is_empty(part)]
        is_vector = loop.kind is LoopKind.VECTORIZED
        if is_vector and len(parts) > 1 and not cuts.has_cut_off:
            return None  # Lanes that go apart are masked.
        return parts if self._fits(loop, parts) else None

    def _body(self, loop: For, ranges: Ranges, done: Sequence[Expr]) -> Stmt:
        """Return the body of `loop` with the tests decided first that its variable decides.

        `done` are expressions of the variable that are already decided.
        """
        if self._by_choice and _may_branch(loop):
            refused = list(done)
            for cuts in find_cuts(loop.var.name, self._tests_of(loop, loop.body), ranges):
                new = None if cuts.expr in refused else self._branches(loop, cuts, ranges, refused)
                if new is not None:
                    return new
                refused.append(cuts.expr)
        return self.stmt(loop.body, ranges)

    def _minor(self, stmt: Stmt, ranges: Ranges) -> Stmt:
        """Return a small part of the work with its tests decided around its innermost loops."""
        match stmt:
            case For(var, extent, _, body) if any(map(is_serial, statements(body))):
                new = self._minor(body, {**ranges, var.name: (0, extent - 1)})
                return stmt if new is body else replace(stmt, body=new)
            case Seq(stmts):
                return _sequence(stmt, [self._minor(part, ranges) for part in stmts])
            case Allocate(buffer, body):
                new = self._minor(body, ranges)
                return stmt if new is body else Allocate(buffer, new)
            case _:
                return self._decide(stmt, ranges)

    def _decide(self, stmt: Stmt, ranges: Ranges) -> Stmt:
        """Return `stmt` with the tests decided first that all variables around it decide."""
        tests = list(self._finder.tests(stmt)) if self._by_choice else []
        for cuts in find_cuts(None, tests, ranges):
            copied = self._copies(stmt, cuts, ranges)
            if copied is not None:
                stand_in, copies = copied
                parts = [
                    substitute(
                        self._decide(copy, {**ranges, stand_in.name: span}),
                        {stand_in.name: cuts.expr},
                    )
                    for span, copy in zip(cuts.ranges(), copies, strict=True)
                ]
                return _chain(cuts, parts)
        return self.stmt(stmt, ranges)

    def _copies(self, stmt: Stmt, cuts: Cuts, ranges: Ranges) -> tuple[Var, list[Stmt]] | None:
        """Return copies of `stmt` for each range of a variable that stands for the share.

        Return None if they are too many, or if threads synchronise in `stmt`.
        """
        if _waits(stmt):
            return None
        self._names += 1
        stand_in = Var(f"share{self._names}")
        generic = _on_share(stmt, cuts.share, stand_in)
        if generic is stmt:
            return None  # all copies would be the same
        copies = [_copy(generic, stand_in, span, ranges) for span in cuts.ranges()]
        return (stand_in, copies) if self._fits(stmt, copies) else None

    def _branches(self, loop: For, cuts: Cuts, ranges: Ranges, done: Sequence[Expr]) -> Stmt | None:
        """Return the body in an If for each range but the last; None for too many copies."""
        copied = self._copies(loop.body, cuts, ranges)
        if copied is None:
            return None
        stand_in, copies = copied
        if cuts.expr == loop.var:
            loop, done = replace(loop, var=stand_in), [stand_in]
        parts: list[Stmt] = []
        for span, copy in zip(cuts.ranges(), copies, strict=True):
            new = self._body(replace(loop, body=copy), {**ranges, stand_in.name: span}, done)
            parts.append(substitute(new, {stand_in.name: cuts.expr}))
        return _chain(cuts, parts)

    def _fits(self, old: Stmt, new: Sequence[Stmt]) -> bool:
        extra = sum(map(count_statements, new)) - count_statements(old)
        if extra > self._room:
            return False
        self._room -= max(0, extra)
        return True

    def _tests_of(self, loop: For, part: Stmt) -> list[LoopTest]:
        """Return the tests in `part` of the body that the variable of `loop` should decide.

        Selects in a loop that becomes copies are left to the code generator, and those in lanes are
        masked; indices that are cut off would make lanes gather. If the body is large, guards of
        tiles further inside are decided where the tiles begin, so that only the tiles are copied.
        """
        tests = list(self._finder.tests(part))
        if not self._by_choice:
            return [test for test in tests if test.is_guard]
        if loop.kind in (LoopKind.UNROLLED, LoopKind.VECTORIZED):
            return [test for test in tests if test.is_guard or test.is_cut_off]
        if count_statements(loop.body) <= _SMALL:
            return tests
        return [test for test in tests if not (test.is_guard and test.is_of_a_tile_inside())]


def _chain(cuts: Cuts, parts: Sequence[Stmt]) -> Stmt:
    """Return an If for each range but the last; many ranges are halved instead of nested."""
    spans = cuts.ranges()

    def test(number: int) -> Expr:
        return Compare(CompareOp.LT, cuts.expr, integer(spans[number][1] + 1))

    def between(first: int, last: int) -> Stmt:
        if last - first > _LONGEST_CHAIN:
            middle = (first + last) // 2
            return If(test(middle - 1), between(first, middle), between(middle, last))
        result = parts[last - 1]
        for number in reversed(range(first, last - 1)):
            result = If(test(number), parts[number], result)
        return result

    return between(0, len(parts))


def _on_share(stmt: Stmt, share: Linear[Atom], stand_in: Var) -> Stmt:
    """Return `stmt` with `stand_in` for `share`.

    A sum of several terms is replaced only where it decides: in tests, and where an index is cut
    off.
    """
    wanted = share.to_expr()

    def rule(old: Node) -> Node | None:
        if old == wanted:
            return stand_in
        if len(share.terms) == 1:
            return None
        if isinstance(old, Compare):
            total = _difference_on(old, share, stand_in)
            return total and Compare(old.op, total.to_expr(), integer(0))
        if isinstance(old, Binary) and old.op in (BinaryOp.MIN, BinaryOp.MAX):
            total = _difference_on(old, share, stand_in)
            return total and Binary(old.op, old.right + total.to_expr(), old.right)
        return None

    return rewrite(stmt, rule)


def _difference_on(
    old: Compare | Binary, share: Linear[Atom], stand_in: Var
) -> Linear[Atom] | None:
    """Return left - right of `old` with `stand_in` for `share`; None if that is not possible."""
    total = difference(old.left, old.right)
    first = next(iter(share.terms))
    factor, rest = divmod(total.terms.get(first, 0), share.terms[first]) if total else (0, 0)
    if total is None or factor == 0 or rest:
        return None
    total.add_scaled(share, -factor)
    if not total.terms.keys().isdisjoint(share.terms):
        return None
    total.add(stand_in.name, factor)
    return total


def _part(loop: For, span: Interval, ranges: Ranges) -> Stmt:
    low, high = span
    if low == high:
        return _copy(loop.body, loop.var, span, ranges)
    moved = loop.body if low == 0 else substitute(loop.body, {loop.var.name: loop.var + low})
    part = replace(loop, extent=high - low + 1, body=moved)
    return Simplifier(dict(ranges)).stmt(part)


def _copy(body: Stmt, var: Var, span: Interval, ranges: Ranges) -> Stmt:
    """Return `body` simplified for `var` in `span`, without `var` if that is one value."""
    if span[0] == span[1]:
        body = substitute(body, {var.name: integer(span[0])})
    return Simplifier({**ranges, var.name: span}).stmt(body)


def _sequence(old: Seq | None, parts: list[Stmt]) -> Stmt:
    if old is not None and all(map(is_, parts, old.stmts)):
        return old
    flat: list[Stmt] = []
    for part in parts:
        flat.extend(part.stmts if isinstance(part, Seq) else (part,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def _is_empty(stmt: Stmt) -> bool:
    return isinstance(stmt, Seq) and not stmt.stmts


def _may_branch(loop: For) -> bool:
    """Return whether the body of `loop` may become branches: not that of a range that is data."""
    if loop.kind is LoopKind.RAGGED:
        return not any(map(reads_memory, loop.bounds))
    return loop.kind in (LoopKind.SERIAL, LoopKind.PARALLEL)


def _has_tests(function: Function) -> bool:
    return any(
        isinstance(part, If | Select)
        or (isinstance(part, Binary) and part.op in (BinaryOp.MIN, BinaryOp.MAX))
        for part in walk(function.body)
    )


def _waits(stmt: Stmt) -> bool:
    """Return whether threads synchronise in `stmt`, so that all must run the same copy."""
    return any(isinstance(part, Barrier | Exchange) for part in walk(stmt))
