"""Bound integers that come from data: loads, conversions and vectors, by their dtypes."""

from __future__ import annotations

from ansorc.ir.arith.bits import bit_bounds
from ansorc.ir.arith.interval import Interval, Ranges
from ansorc.ir.arith.interval import bounds as index_bounds
from ansorc.ir.dtype import DType
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Checked,
    Const,
    Expr,
    Load,
    Ramp,
    Reduce,
    Select,
    Var,
    dtype_of,
)
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.operator import BIT_FUNCTIONS, BITWISE


def data_bounds(expr: Expr, ranges: Ranges) -> Interval | None:
    """Return the least and the largest value that any lane of an integer `expr` may have.

    Data may have any value of its dtype, or of the promised range of its buffer. Return None for
    floats and bools, and for variables without a range.
    """
    dtype = dtype_of(expr).element
    if not dtype.is_integer:
        return None
    interval = _bounds(expr, ranges)
    if interval is None:
        return None
    return interval if _fits(interval, dtype) else integer_range(dtype)


def _bounds(expr: Expr, ranges: Ranges) -> Interval | None:
    match expr:
        case Const(value):
            return int(value), int(value)
        case Var(name):
            return ranges.get(name)
        case Load(buffer):
            return _of_buffer(buffer.promised, buffer.dtype)
        case Cast(dtype, operand):
            return _of_cast(dtype.element, operand, ranges)
        case Select(_, then, otherwise):
            return _join(data_bounds(then, ranges), data_bounds(otherwise, ranges))
        case Checked(value) | Broadcast(value):
            return data_bounds(value, ranges)
        case Ramp(base, stride, lanes):
            first, step = data_bounds(base, ranges), data_bounds(stride, ranges)
            if first is None or step is None:
                return None
            ends = (0, step[0] * (lanes - 1), step[1] * (lanes - 1))
            return first[0] + min(ends), first[1] + max(ends)
        case Reduce(BinaryOp.MIN | BinaryOp.MAX, operand):
            return data_bounds(operand, ranges)
        case Binary(op, left, right):
            exact = index_bounds(expr, ranges)  # where a variable occurs twice
            if exact is None and op in BITWISE:
                return _of_bits(op, left, right, ranges)
            interval = _of_binary(op, data_bounds(left, ranges), data_bounds(right, ranges))
            return interval if exact is None else exact
        case Call(name, args) if name in BIT_FUNCTIONS:
            return 0, dtype_of(expr).bits * len(args)
        case _:
            return integer_range(dtype_of(expr).element)


def _of_bits(op: BinaryOp, left: Expr, right: Expr, ranges: Ranges) -> Interval:
    whole = integer_range(dtype_of(left).element)
    a, b = (data_bounds(side, ranges) or whole for side in (left, right))
    return bit_bounds(op, a, b, dtype_of(left).bits)


def _of_buffer(promised: tuple[float, float] | None, dtype: DType) -> Interval:
    low, high = integer_range(dtype)
    if promised is None:
        return low, high
    return max(low, int(promised[0])), min(high, int(promised[1]))


def _of_cast(dtype: DType, operand: Expr, ranges: Ranges) -> Interval:
    source, whole = dtype_of(operand).element, integer_range(dtype)
    if source.is_bool:
        return 0, 1
    interval = data_bounds(operand, ranges)
    return whole if interval is None or not _fits(interval, dtype) else interval


def _of_binary(op: BinaryOp, a: Interval | None, b: Interval | None) -> Interval | None:
    if op is BinaryOp.MOD and b is not None and b[0] > 0:
        return (0, min(a[1], b[1] - 1)) if a is not None and a[0] >= 0 else (0, b[1] - 1)
    if a is None or b is None:
        return None
    match op:
        case BinaryOp.ADD:
            return a[0] + b[0], a[1] + b[1]
        case BinaryOp.SUB:
            return a[0] - b[1], a[1] - b[0]
        case BinaryOp.MIN:
            return min(a[0], b[0]), min(a[1], b[1])
        case BinaryOp.MAX:
            return max(a[0], b[0]), max(a[1], b[1])
        case BinaryOp.MUL:
            corners = [x * y for x in a for y in b]
        case BinaryOp.FLOORDIV if b[0] > 0:
            corners = [x // y for x in a for y in b]
        case _:
            return None
    return min(corners), max(corners)


def _join(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _fits(interval: Interval, dtype: DType) -> bool:
    low, high = integer_range(dtype)
    return low <= interval[0] and interval[1] <= high
