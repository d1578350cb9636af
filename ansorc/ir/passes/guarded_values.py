"""Turn the conditions that are left inside a register tile into choices of values.

for rc:                                        for rc:
    unrolled w:                                    unrolled w:
        if w + rw >= 1:                ->              Y[w] = Y[w] + (X[w + rw - 1, rc]
            Y[w] = Y[w] + X[w + rw - 1, rc] * W[rc]        if w + rw >= 1 else 0) * W[rc]

A branch for each element of a tile costs more than to add nothing: it divides the code into pieces
between which LLVM moves the accumulators. It is the way back of `skip_padding`, for what
`partition_loops` did not decide.

A factor keeps its value where the condition fails only if that is there: 0 times an element that
lies outside its buffer, or that nobody wrote, may be anything. What the kernel itself computes was
perhaps left out by the same condition, so only elements of inputs count as written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce

from ansorc.ir.arith.interval import Ranges
from ansorc.ir.expr import Binary, BinaryOp, Expr, Load, Select, const, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import is_inside
from ansorc.ir.passes.places import reads_memory
from ansorc.ir.stmt import (
    For,
    Function,
    If,
    LoopKind,
    Stmt,
    Store,
    map_substatements,
    statements,
)


def choose_values(function: Function) -> Function:
    """Return `function` without conditions around single terms of sums in unrolled loops."""
    stored = {part.buffer.name for part in statements(function.body) if isinstance(part, Store)}
    given = frozenset(buffer.name for buffer in function.params if buffer.name not in stored)
    body = _Choice(given).settled(function.body, {}, is_copied=False)
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True)
class _Choice:
    """Makes choices of the statements of a kernel whose inputs are the buffers `given`."""

    given: frozenset[str]

    def settled(self, stmt: Stmt, ranges: Ranges, *, is_copied: bool) -> Stmt:
        """Return `stmt` without such conditions; `is_copied` where copies of it are next."""
        match stmt:
            case For(var, extent, kind):
                ranges = {**ranges, var.name: (0, extent - 1)}
                is_copied = kind is LoopKind.UNROLLED or (is_copied and kind is LoopKind.VECTORIZED)
            case If(condition, then, None) if is_copied and dtype_of(condition).lanes == 1:
                valued = self.valued(then, condition, ranges)
                if valued is not None:
                    return valued
            case _:
                pass
        return map_substatements(stmt, lambda part: self.settled(part, ranges, is_copied=is_copied))

    def valued(self, stmt: Stmt, condition: Expr, ranges: Ranges) -> Stmt | None:
        """Return `stmt` adding nothing where `condition` fails; None if it does more than add."""
        match stmt:
            case Store(buffer, indices, Binary(BinaryOp.ADD, left, right)):
                own = Load(buffer, indices)
                term = right if left == own else left if right == own else None
                if term is None or not is_inside(buffer, indices, ranges):
                    return None
                chosen = self.chosen(term, condition, ranges)
                return Store(buffer, indices, Binary(BinaryOp.ADD, own, chosen))
            case For(var, extent, LoopKind.UNROLLED | LoopKind.VECTORIZED, body):
                if reads_memory(condition):  # which one iteration may change for the next
                    return None
                new = self.valued(body, condition, {**ranges, var.name: (0, extent - 1)})
                return new and replace(stmt, body=new)
            case _:
                return None

    def chosen(self, term: Expr, condition: Expr, ranges: Ranges) -> Expr:
        """Return `term` where `condition` holds, else zero; what may not exist is not loaded."""
        factors = _factors(term)
        unsafe = [n for n, factor in enumerate(factors) if not self.is_there(factor, ranges)]
        for place in unsafe or [0]:
            zero = const(0, dtype_of(factors[place]))
            factors[place] = Select(condition, factors[place], zero)
        return reduce(partial(Binary, BinaryOp.MUL), factors)

    def is_there(self, factor: Expr, ranges: Ranges) -> bool:
        """Whether all that `factor` loads exists and was written, whatever `condition` says."""
        loads = (part for part in walk(factor) if isinstance(part, Load))
        return all(
            load.buffer.name in self.given and is_inside(load.buffer, load.indices, ranges)
            for load in loads
        )


def _factors(term: Expr) -> list[Expr]:
    if isinstance(term, Binary) and term.op is BinaryOp.MUL:
        return [*_factors(term.left), *_factors(term.right)]
    return [term]
