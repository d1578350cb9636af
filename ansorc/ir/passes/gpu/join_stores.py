"""Let neighbouring threads exchange results, so that each stores a longer vector.

                                       unrolled u in 0..2:
                                           unrolled p in 0..4:
unrolled v in 0..8:                            vectorized j in 0..2:
    vectorized j in 0..2:         ->               D.own[p * 2 + j] = f(v = u * 4 + p, …)
        D[v * 8 + t % 4 * 2 + j] = f       D.joined[ramp(0, 1, 8)] = transpose(D.own[…], 4)
                                           vectorized j in 0..8:
                                               D[(u * 4 + t % 4) * 8 + j] = D.joined[j]

Matrix units leave 2 neighbours in a thread, and 8 in a row of a tile. In 16 bits these are half of
a sector of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.interval import Interval
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Expr, Load, Ramp, Transpose, Var, const
from ansorc.ir.matrix_units import REGISTER_BYTES
from ansorc.ir.node import Node, walk
from ansorc.ir.passes.gpu.thread_nests import map_kernels
from ansorc.ir.passes.queries import flat_offset
from ansorc.ir.stmt import (
    Allocate,
    For,
    Function,
    If,
    LoopKind,
    Seq,
    Stmt,
    Store,
    map_substatements,
)
from ansorc.ir.substitute import free_vars, substitute
from ansorc.target.code_facts import JOINED_RESULTS
from ansorc.target.gpu import WARP_THREADS
from ansorc.target.gpu_requests import SECTOR_BYTES


def join_stores(function: Function) -> Function:
    """Return `function`, with kernels in normal form, with longer vector stores where that pays."""
    body = map_kernels(function.body, _in_kernel)
    return function if body is function.body else replace(function, body=body)


def _in_kernel(nest: Stmt) -> Stmt:
    threads: list[For] = []
    ranges: dict[str, Interval] = {}

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, If) and any(t.var.name in free_vars(stmt.condition) for t in threads):
            return stmt  # threads of a warp that part exchange nothing
        if not isinstance(stmt, For):
            return map_substatements(stmt, visit)
        if (
            stmt.kind is LoopKind.UNROLLED
            and len(threads) == 1
            and not threads[0].extent % WARP_THREADS
        ):
            results = _Results.of(stmt)
            join = results and results.join(threads[0], ranges)
            if join:
                return join
        if stmt.thread.startswith("threadIdx"):
            threads.append(stmt)
        ranges[stmt.var.name] = (0, stmt.extent - 1)
        return map_substatements(stmt, visit)

    return visit(nest)


@dataclass(frozen=True)
class _Results:
    """Vectors that a thread stores one after the other, under the same conditions."""

    loop: For
    lanes: For
    conditions: tuple[Expr, ...]
    store: Store

    @staticmethod
    def of(loop: For) -> _Results | None:
        """Return the vectors that `loop` stores; None if it is another kind of loop."""
        conditions: list[Expr] = []
        lanes: For | None = None
        stmt = loop.body
        while isinstance(stmt, If | For):
            if isinstance(stmt, For):
                if lanes is not None or stmt.kind is not LoopKind.VECTORIZED:
                    return None
                lanes, stmt = stmt, stmt.body
            elif stmt.otherwise is None:
                conditions.append(stmt.condition)
                stmt = stmt.then
            else:
                return None
        is_result = isinstance(stmt, Store) and stmt.buffer.scope is Scope.GLOBAL
        is_result &= isinstance(stmt, Store) and not stmt.is_atomic
        if lanes is None or not is_result or not isinstance(stmt, Store):
            return None
        if any(lanes.var.name in free_vars(each) for each in conditions):
            return None
        return _Results(loop, lanes, tuple(conditions), stmt)

    def join(self, thread: For, ranges: dict[str, Interval]) -> Stmt | None:
        """Return the loop in which 4 or 2 threads exchange results; None if that is no gain."""
        size = self.lanes.extent * self.store.buffer.dtype.bytes
        if size > REGISTER_BYTES or self._first(thread, ranges, SECTOR_BYTES // size) is not None:
            return None
        for count in JOINED_RESULTS:
            first = self._first(thread, ranges, count)
            if self.loop.extent % count == 0 and first is not None:
                stmt = self._exchange(thread, count, first)
                if stmt is not None:
                    return stmt
        return None

    def _first(
        self, thread: For, ranges: dict[str, Interval], count: int
    ) -> tuple[Expr, ...] | None:
        """Return the indices and conditions of the first of `count` neighbours, by their `group`.

        Return None if the stores of the others do not continue its vector.
        """
        group = Var("group")
        known = {
            **ranges, group.name: (0, thread.extent // count - 1),
            self.loop.var.name: (0, self.loop.extent - 1),
            self.lanes.var.name: (0, self.lanes.extent - 1),
        }  # fmt: skip
        parts = (*self.store.indices, *self.conditions)
        each = [
            [simplify(substitute(x, {thread.var.name: group * count + i}), known) for x in parts]
            for i in range(count)
        ]
        last = len(self.store.indices) - 1
        for number, others in enumerate(each):
            for position, (mine, first) in enumerate(zip(others, each[0], strict=True)):
                step = number * self.lanes.extent if position == last else 0
                if position > last and mine != first:
                    return None
                if position <= last and simplify(mine - first, known) != const(step):
                    return None
        return tuple(each[0])

    def _exchange(self, thread: For, count: int, first: tuple[Expr, ...]) -> Stmt | None:
        buffer, lanes = self.store.buffer, self.lanes.extent
        total = count * lanes
        number, turn = thread.var % count, Var(f"{self.loop.var.name}.turn")
        piece = Var(f"{self.loop.var.name}.piece")
        every = Ramp(integer(0), integer(1), total)
        values = {"group": thread.var // count, self.loop.var.name: turn * count + number}
        values[self.lanes.var.name] = integer(0)
        *outer, last = (substitute(each, values) for each in first[: len(buffer.shape)])
        offset = flat_offset(buffer, [*outer, last])
        if offset is None or any(x % total for x in (offset.constant, *offset.terms.values())):
            return None
        kept, exchanged = (
            Buffer(f"{buffer.name}.{name}", (total,), buffer.dtype, Scope.LOCAL)
            for name in ("own", "joined")
        )
        result: Stmt = Store(
            buffer, (*outer, Ramp(last, integer(1), total)), Load(exchanged, (every,))
        )
        result = _under([substitute(x, values) for x in first[len(buffer.shape) :]], result)
        now = {self.loop.var.name: turn * count + piece}
        value = substitute(self.store.value, now)
        mine: Stmt = Store(kept, (piece * lanes + self.lanes.var,), value)
        mine = replace(self.lanes, body=mine)
        is_guarded = bool(self.conditions) and any(map(_is_shared, walk(value)))
        if is_guarded:
            mine = _under([substitute(each, now) for each in self.conditions], mine)
        mine = For(piece, count, LoopKind.UNROLLED, mine)
        start = (Store(kept, (every,), const(0, buffer.dtype)),) if is_guarded else ()
        exchange = Store(exchanged, (every,), Transpose(Load(kept, (every,)), count))
        body = Allocate(kept, Allocate(exchanged, Seq((*start, mine, exchange, result))))
        return For(turn, self.loop.extent // count, LoopKind.UNROLLED, body)


def _is_shared(part: Node) -> bool:
    """Return whether `part` loads memory that may not exist for a result beyond the border."""
    return isinstance(part, Load) and part.buffer.scope not in (Scope.LOCAL, Scope.REGISTER)


def _under(conditions: Sequence[Expr], stmt: Stmt) -> Stmt:
    for condition in reversed(conditions):
        stmt = If(condition, stmt)
    return stmt
