"""Simplify scalars of any dtype without changing a bit: literals, neutral operands, conditions.

Floats are never reordered. Each rule also holds for NaN, infinities and signed zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ansorc.ir.dtype import BOOL, DType
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Not,
    const,
    dtype_of,
)
from ansorc.ir.node import walk

NUMPY_BINARY: dict[BinaryOp, Callable[..., Any]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.FLOORDIV: np.floor_divide,
    BinaryOp.MOD: np.mod,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.AND: np.logical_and,
    BinaryOp.OR: np.logical_or,
    BinaryOp.BIT_AND: np.bitwise_and,
    BinaryOp.BIT_OR: np.bitwise_or,
    BinaryOp.BIT_XOR: np.bitwise_xor,
    BinaryOp.SHL: np.left_shift,
    BinaryOp.SHR: np.right_shift,
}
NUMPY_COMPARE: dict[CompareOp, Callable[..., Any]] = {
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.GT: np.greater,
    CompareOp.GE: np.greater_equal,
}
_INVERSE = {
    CompareOp.EQ: CompareOp.NE,
    CompareOp.NE: CompareOp.EQ,
    CompareOp.LT: CompareOp.GE,
    CompareOp.GE: CompareOp.LT,
    CompareOp.GT: CompareOp.LE,
    CompareOp.LE: CompareOp.GT,
}


def as_wide(new: Expr, old: Expr) -> Expr:
    """Return `new`, a simplification of `old`, with the lanes of `old`."""
    lanes = dtype_of(old).lanes
    return new if dtype_of(new).lanes == lanes else Broadcast(new, lanes)


def fold(op: BinaryOp, left: Const, right: Const) -> Const | None:
    """Return the value of `left op right` at run time; None if that is not certain."""
    dtype, zero = left.dtype, right.value == 0
    if op in (BinaryOp.FLOORDIV, BinaryOp.MOD) and zero:
        return None
    if dtype.is_float and op in (BinaryOp.MIN, BinaryOp.MAX) and left.value == right.value:
        return None  # which of -0.0 and 0.0 it is depends on the machine
    with np.errstate(all="ignore"):
        value = NUMPY_BINARY[op](_array(left), _array(right)).item()
    finite = math.isfinite(left.value) and math.isfinite(right.value) and math.isfinite(value)
    return const(value, dtype) if finite else None


def fold_compare(op: CompareOp, left: Const, right: Const) -> Const:
    """Return whether `left op right` holds."""
    return Const(bool(NUMPY_COMPARE[op](_array(left), _array(right))), BOOL)


def fold_cast(dtype: DType, operand: Const) -> Const | None:
    """Return `operand` converted to `dtype`; None for conversions of floats to other types."""
    if operand.dtype.is_float and not dtype.is_float:
        return None
    with np.errstate(all="ignore"):
        return const(_array(operand).astype(dtype.numpy).item(), dtype)


def neutral(op: BinaryOp, left: Expr, right: Expr) -> Expr | None:
    """Return the operand that equals `left op right`, bit for bit; None if neither does."""
    match op, left, right:
        case ((BinaryOp.MUL | BinaryOp.DIV | BinaryOp.FLOORDIV), x, Const(1)):
            return x
        case BinaryOp.MUL, Const(1), x:
            return x
        case BinaryOp.ADD, x, Const(0) if _keeps_zero(right, -1.0):
            return x
        case BinaryOp.ADD, Const(0), x if _keeps_zero(left, -1.0):
            return x
        case ((BinaryOp.BIT_OR | BinaryOp.BIT_XOR | BinaryOp.SHL | BinaryOp.SHR), x, Const(0)):
            return x
        case BinaryOp.SUB, x, Const(0) if _keeps_zero(right, 1.0):
            return x
        case BinaryOp.MUL, _, Const(0, dtype) if dtype.is_integer and _lanes(left) == 1:
            return right
        case BinaryOp.MUL, Const(0, dtype), _ if dtype.is_integer and _lanes(right) == 1:
            return left
        case _:
            return None


def both(left: Expr, right: Expr) -> Expr | None:
    """Return a simpler form of `left and right`: without True, False, or a repeated condition."""
    match left, right:
        case (Const(False), _) if _lanes(right) == 1:
            return left
        case (_, Const(False)) if _lanes(left) == 1:
            return right
        case (Const(True), x) | (x, Const(True)):
            return x
        case _:
            return _distinct(BinaryOp.AND, left, right)


def either(left: Expr, right: Expr) -> Expr | None:
    """Return a simpler form of `left or right`: without True, False, or a repeated condition."""
    match left, right:
        case (Const(True), _) if _lanes(right) == 1:
            return left
        case (_, Const(True)) if _lanes(left) == 1:
            return right
        case (Const(False), x) | (x, Const(False)):
            return x
        case _:
            return _distinct(BinaryOp.OR, left, right)


def negation(operand: Expr) -> Expr | None:
    """Return a simpler form of `not operand`; because of NaN, `<` of floats is not inverted."""
    match operand:
        case Const(value, dtype):
            return Const(not value, dtype)
        case Not(inner):
            return inner
        case Compare(op, left, right):
            total = not dtype_of(left).is_float or op in (CompareOp.EQ, CompareOp.NE)
            return Compare(_INVERSE[op], left, right) if total else None
        case _:
            return None


def conjuncts(condition: Expr) -> list[Expr]:
    """Return the conditions that `condition` joins by `and`, from left to right."""
    return _operands(BinaryOp.AND, condition)


def conjunction(conditions: list[Expr]) -> Expr:
    """Return the conditions joined by `and`; True if there are none."""
    return _join(BinaryOp.AND, conditions) if conditions else Const(True, BOOL)


def same(left: Expr, right: Expr) -> bool:
    """Return whether two expressions are equal, including the signs of float zeros."""
    return left is right or (left == right and not any(map(_is_float_zero, walk(left))))


def _distinct(op: BinaryOp, left: Expr, right: Expr) -> Expr | None:
    parts = _operands(op, left) + _operands(op, right)
    kept: list[Expr] = []
    for part in parts:
        if not any(same(part, other) for other in kept):
            kept.append(part)
    return None if len(kept) == len(parts) else _join(op, kept)


def _operands(op: BinaryOp, expr: Expr) -> list[Expr]:
    if isinstance(expr, Binary) and expr.op is op:
        return _operands(op, expr.left) + _operands(op, expr.right)
    return [expr]


def _join(op: BinaryOp, parts: list[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = Binary(op, result, part)
    return result


def _array(literal: Const) -> np.ndarray:
    return np.asarray(literal.value).astype(literal.dtype.numpy)


def _keeps_zero(literal: Expr, sign: float) -> bool:
    """Return whether the literal is an integer 0, or the float zero of that sign."""
    assert isinstance(literal, Const)
    return literal.dtype.is_integer or math.copysign(1.0, literal.value) == sign


def _lanes(expr: Expr) -> int:
    return dtype_of(expr).lanes


def _is_float_zero(node: object) -> bool:
    return isinstance(node, Const) and node.dtype.is_float and node.value == 0
