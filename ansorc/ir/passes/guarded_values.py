"""Turn the conditions that are left inside a register tile into choices of values.

for rc:                                        for rc:
    unrolled w:                                    unrolled w:
        if w + rw >= 1:                ->              Y[w] = Y[w] + (X[w + rw - 1, rc]
            Y[w] = Y[w] + X[w + rw - 1, rc] * W[rc]        if w + rw >= 1 else 0) * W[rc]

A branch for each element of a tile costs more than to add nothing: it divides the code into pieces
between which LLVM moves the accumulators. It is the way back of `skip_padding`, for what
`partition_loops` did not decide.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from ansorc.ir.arith.interval import Ranges
from ansorc.ir.expr import Binary, BinaryOp, Expr, Load, Select, const, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.passes.accesses import is_inside
from ansorc.ir.passes.places import reads_memory
from ansorc.ir.stmt import For, Function, If, LoopKind, Stmt, Store, map_substatements


def choose_values(function: Function) -> Function:
    """Return `function` without conditions around single terms of sums in unrolled loops."""
    body = _settled(function.body, {}, is_copied=False)
    return function if body is function.body else replace(function, body=body)


def _settled(stmt: Stmt, ranges: Ranges, *, is_copied: bool) -> Stmt:
    match stmt:
        case For(var, extent, kind):
            ranges = {**ranges, var.name: (0, extent - 1)}
            is_copied = kind is LoopKind.UNROLLED or (is_copied and kind is LoopKind.VECTORIZED)
        case If(condition, then, None) if is_copied and dtype_of(condition).lanes == 1:
            valued = _valued(then, condition, ranges)
            if valued is not None:
                return valued
        case _:
            pass
    return map_substatements(stmt, lambda part: _settled(part, ranges, is_copied=is_copied))


def _valued(stmt: Stmt, condition: Expr, ranges: Ranges) -> Stmt | None:
    """Return `stmt` adding nothing where `condition` fails; None if it does more than add."""
    match stmt:
        case Store(buffer, indices, Binary(BinaryOp.ADD, left, right)):
            own = Load(buffer, indices)
            term = right if left == own else left if right == own else None
            if term is None or not is_inside(buffer, indices, ranges):
                return None
            return Store(
                buffer, indices, Binary(BinaryOp.ADD, own, _chosen(term, condition, ranges))
            )
        case For(var, extent, LoopKind.UNROLLED | LoopKind.VECTORIZED, body):
            if reads_memory(condition):  # which one iteration may change for the next
                return None
            new = _valued(body, condition, {**ranges, var.name: (0, extent - 1)})
            return new and replace(stmt, body=new)
        case _:
            return None


def _chosen(term: Expr, condition: Expr, ranges: Ranges) -> Expr:
    """Return `term` where `condition` holds, else zero; what may not exist is then not loaded."""
    factors = _factors(term)
    unsafe = [place for place, factor in enumerate(factors) if not _is_safe(factor, ranges)]
    for place in unsafe or [0]:
        zero = const(0, dtype_of(factors[place]))
        factors[place] = Select(condition, factors[place], zero)
    return reduce(partial(Binary, BinaryOp.MUL), factors)


def _factors(term: Expr) -> list[Expr]:
    if isinstance(term, Binary) and term.op is BinaryOp.MUL:
        return [*_factors(term.left), *_factors(term.right)]
    return [term]


def _is_safe(factor: Expr, ranges: Ranges) -> bool:
    loads = (part for part in walk(factor) if isinstance(part, Load))
    return all(is_inside(load.buffer, load.indices, ranges) for load in loads)
