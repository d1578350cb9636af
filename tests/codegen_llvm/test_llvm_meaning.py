"""The machine code of random programs computes what the interpreter computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from llvm_harness import buffer, call, loop, random, seq

from ansorc.ir.buffer import Scope
from ansorc.ir.expr import (
    BinaryOp, Expr, Load, Select, Var, as_expr, binary, compare, const,
)  # fmt: skip
from ansorc.ir.expr import CompareOp
from ansorc.ir.interpret import interpret
from ansorc.ir.passes.pipeline import CpuOptions, prepare_for_cpu
from ansorc.ir.stmt import Allocate, For, Function, If, LoopKind, Stmt, Store

KINDS = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.VECTORIZED)


@dataclass(frozen=True)
class Case:
    """A padded, strided sum of products: out[i, j] (+)= sum over k of a[..] * b[..]."""

    rows: int
    columns: int
    depth: int
    pad: int
    stride: int
    kinds: tuple[LoopKind, ...]
    order: tuple[int, ...]
    split: int
    local: bool
    guarded: bool


CASES = st.builds(
    Case,
    rows=st.integers(1, 7),
    columns=st.integers(1, 21),
    depth=st.integers(1, 5),
    pad=st.integers(0, 2),
    stride=st.integers(1, 3),
    kinds=st.tuples(*[st.sampled_from(KINDS)] * 3),
    order=st.permutations((0, 1, 2)).map(tuple),
    split=st.integers(1, 4),
    local=st.booleans(),
    guarded=st.booleans(),
)


def _function(case: Case) -> Function:
    width = case.columns * case.stride + case.depth
    a = buffer("a", case.rows, width)
    b = buffer("b", case.depth, case.columns)
    out = buffer("out", case.rows, case.columns)
    total = buffer("total", case.rows, case.columns, scope=Scope.LOCAL)
    goal = total if case.local else out

    def term(i: Expr, j: Expr, k: Expr) -> Expr:
        place = j * case.stride + k - case.pad
        inside = binary(BinaryOp.AND, place >= 0, place < width - case.pad)
        padded = Select(inside, Load(a, (i, place)), as_expr(0.0))
        return padded * Load(b, (k, j)) + Load(goal, (i, j))

    def innermost(indices: list[Expr]) -> Stmt:
        i, j, k = indices
        store = Store(goal, (i, j), term(i, j, k))
        if not case.guarded:
            return store
        odd = compare(CompareOp.NE, (i + j // case.split) % 3, const(1))
        return If(odd, store)

    def nest(level: int, indices: dict[int, Expr]) -> Stmt:
        if level == 3:
            return innermost([indices[0], indices[1], indices[2]])
        axis = case.order[level]
        extent = (case.rows, case.columns, case.depth)[axis]
        kind = LoopKind.SERIAL if axis == 2 else case.kinds[axis]
        return loop(f"x{axis}", extent, lambda v: nest(level + 1, {**indices, axis: v}), kind)

    body = seq(_fill(case, goal.name, case.kinds[2], local=case.local), nest(0, {}))
    if case.local:
        copy = _rows(case, lambda i, j: Store(out, (i, j), Load(total, (i, j)) * 2.0))
        body = Allocate(total, seq(body, copy))
    return Function("f", (a, b, out), body)
