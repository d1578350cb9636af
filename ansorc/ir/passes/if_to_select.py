"""Turn the remaining conditions inside a register tile into selects of values.

for rc:                                        for rc:
    unrolled w:                                    unrolled w:
        if w + rw >= 1:                ->              Y[w] = Y[w] + (X[w + rw - 1, rc]
            Y[w] = Y[w] + X[w + rw - 1, rc] * W[rc]        if w + rw >= 1 else 0) * W[rc]

A branch for each element of a tile costs more than adding 0: it divides the code into pieces, and
LLVM moves the accumulators between them. The pass undoes `skip_padding` for conditions that
`partition_loops` did not decide.

A factor may keep its value if the condition fails only if the value exists: 0 times an element that
is outside its buffer, or was never written, may be anything. The same condition may have skipped
elements that the kernel itself computes, so only elements of inputs count as written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce

from ansorc.ir.arith.interval import Ranges
from ansorc.ir.expr import Binary, BinaryOp, Expr, Load, Select, const, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import is_inside
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.stmt import (
    For,
    Function,
    If,
    LoopKind,
    Stmt,
    Store,
    map_substatements,
    written_buffers,
)


def if_to_select(function: Function) -> Function:
    """Return `function` without conditions around single terms of sums in unrolled loops."""
    stored = {buffer.name for buffer in written_buffers(function.body)}
    given = frozenset(buffer.name for buffer in function.params if buffer.name not in stored)
    body = _Choice(given).convert(function.body, {}, is_copied=False)
    return function if body is function.body else replace(function, body=body)


@dataclass(frozen=True)
class _Choice:
    """Rewrites the statements of a kernel whose inputs are the buffers `given`."""

    given: frozenset[str]

    def convert(self, stmt: Stmt, ranges: Ranges, *, is_copied: bool) -> Stmt:
        """Return `stmt` without such conditions; `is_copied`: inside a loop that is unrolled."""
        match stmt:
            case For(var, extent, kind):
                ranges = {**ranges, var.name: (0, extent - 1)}
                is_copied = kind is LoopKind.UNROLLED or (is_copied and kind is LoopKind.VECTORIZED)
            case If(condition, then, None) if is_copied and dtype_of(condition).lanes == 1:
                select_term = self.select_term(then, condition, ranges)
                if select_term is not None:
                    return select_term
            case _:
                pass
        return map_substatements(stmt, lambda part: self.convert(part, ranges, is_copied=is_copied))

    def select_term(self, stmt: Stmt, condition: Expr, ranges: Ranges) -> Stmt | None:
        """Return `stmt` adding 0 if `condition` fails; None if it is not a single addition."""
        match stmt:
            case Store(buffer, indices, Binary(BinaryOp.ADD, left, right)):
                old = Load(buffer, indices)
                term = right if left == old else left if right == old else None
                if term is None or not is_inside(buffer, indices, ranges):
                    return None
                select_value = self.select_value(term, condition, ranges)
                return Store(buffer, indices, Binary(BinaryOp.ADD, old, select_value))
            case For(var, extent, LoopKind.UNROLLED | LoopKind.VECTORIZED, body):
                if reads_memory(condition):  # which one iteration may change for the next
                    return None
                new = self.select_term(body, condition, {**ranges, var.name: (0, extent - 1)})
                return new and replace(stmt, body=new)
            case _:
                return None

    def select_value(self, term: Expr, condition: Expr, ranges: Ranges) -> Expr:
        """Return `term` if `condition` holds, else 0, without loads that may not exist."""
        factors = _factors(term)
        unsafe = [n for n, factor in enumerate(factors) if not self.is_there(factor, ranges)]
        for number in unsafe or [0]:
            zero = const(0, dtype_of(factors[number]))
            factors[number] = Select(condition, factors[number], zero)
        return reduce(partial(Binary, BinaryOp.MUL), factors)

    def is_there(self, factor: Expr, ranges: Ranges) -> bool:
        """Return whether all loads of `factor` exist and are written, whatever the condition."""
        loads = (part for part in walk(factor) if isinstance(part, Load))
        return all(
            load.buffer.name in self.given and is_inside(load.buffer, load.indices, ranges)
            for load in loads
        )


def _factors(term: Expr) -> list[Expr]:
    if isinstance(term, Binary) and term.op is BinaryOp.MUL:
        return [*_factors(term.left), *_factors(term.right)]
    return [term]
