"""The neutral value of a reduction."""

from __future__ import annotations

import math

from ansorc.ir.dtype import DType
from ansorc.ir.expr import BinaryOp, Const, const
from ansorc.ir.interpret_math import integer_range


def identity(op: BinaryOp, dtype: DType) -> Const:
    """Return the identity of `op`: 0 for a sum, -inf for the maximum of floats, True for AND.

    `op` is one of REDUCTIONS, or AND or OR of bools.
    """
    if dtype.is_bool:
        return const(op is BinaryOp.AND, dtype)
    if op in (BinaryOp.ADD, BinaryOp.MUL):
        return const(0 if op is BinaryOp.ADD else 1, dtype)
    if dtype.is_float:
        return const(-math.inf if op is BinaryOp.MAX else math.inf, dtype)
    low, high = integer_range(dtype)
    return const(low if op is BinaryOp.MAX else high, dtype)
