"""The value that changes nothing when it is combined with another."""

from __future__ import annotations

import math

from ansorc.ir.dtype import DType
from ansorc.ir.expr import BinaryOp, Const, const
from ansorc.ir.interpret_math import integer_range


def identity(op: BinaryOp, dtype: DType) -> Const:
    """Return the identity of `op`, one of REDUCTIONS, on `dtype`: 0 for a sum, -inf for max."""
    if op in (BinaryOp.ADD, BinaryOp.MUL):
        return const(0 if op is BinaryOp.ADD else 1, dtype)
    if dtype.is_float:
        return const(-math.inf if op is BinaryOp.MAX else math.inf, dtype)
    low, high = integer_range(dtype)
    return const(low if op is BinaryOp.MAX else high, dtype)
