"""Keep sums of bfloat16 in float32 until they are read: matrix units have no bfloat16 sums.

matrix k in 0..16:            matrix k in 0..16:
    C[i] = C[i] + A * B   ->      W[i] = W[i] + cast(float32, A) * cast(float32, B)
D[i] = C[i]                   D[i] = cast(bfloat16, W[i])
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.ir.dtype import BFLOAT16, FLOAT32
from ansorc.ir.expr import Binary, BinaryOp, Cast, Expr, Load
from ansorc.ir.node import Node, rewrite
from ansorc.ir.stmt import Allocate, For, Function, LoopKind, Store, statements


def widen_sums(function: Function) -> Function:
    """Return `function` with sums of matrix units in float32, if no unit has sums of their dtype.

    Each sum is rounded where it is read.
    """
    sums = {
        store.buffer: replace(store.buffer, dtype=FLOAT32)
        for loop in statements(function.body)
        if isinstance(loop, For) and loop.kind is LoopKind.MATRIX
        for store in statements(loop)
        if isinstance(store, Store) and store.buffer.dtype == BFLOAT16
    }

    def rule(old: Node) -> Node | None:
        match old:
            case Allocate(buffer, body) if buffer in sums:
                return Allocate(sums[buffer], body)
            case Load(buffer) if buffer in sums:
                return Cast(BFLOAT16, replace(old, buffer=sums[buffer]))
            case Store(buffer, _, value) if buffer in sums:
                return replace(old, buffer=sums[buffer], value=_widen(value))
            case _:
                return None

    return rewrite(function, rule) if sums else function


def _widen(value: Expr) -> Expr:
    """Return `value`, a bfloat16, in float32; for a sum of products, widen its parts."""
    match value:
        case Cast(_, Load(buffer) as load) if buffer.dtype == FLOAT32:
            return load
        case Binary(BinaryOp.ADD, total, Binary(BinaryOp.MUL, left, right)):
            product = Cast(FLOAT32, left) * Cast(FLOAT32, right)
            return Binary(BinaryOp.ADD, _widen(total), product)
        case _:
            return Cast(FLOAT32, value)
