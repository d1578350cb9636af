"""Conditions: decided now where ranges allow it, else tested with the narrowest instructions."""

from __future__ import annotations

from ansorc.codegen.llvm.index import IndexWriter
from ansorc.codegen.llvm.linear import Linear
from ansorc.codegen.llvm.math import arithmetic, cast, comparison
from ansorc.codegen.llvm.types import Value, literal, register_type, with_lanes
from ansorc.codegen.llvm.vector import splat
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.dtype import BOOL, INT32, INT64
from ansorc.ir.expr import BinaryOp, CompareOp


def known(condition: Value) -> bool | None:
    """Return what `condition` is in every lane, if that is known now."""
    return {"true": True, "splat (i1 true)": True, "false": False, "splat (i1 false)": False}.get(
        condition.text
    )


def connect(writer: FunctionWriter, op: BinaryOp, left: Value, right: Value) -> Value:
    """Write `left and right` or `left or right`."""
    neutral = op is BinaryOp.AND
    lanes = max(left.dtype.lanes, right.dtype.lanes)
    for one, other in ((left, right), (right, left)):
        decided = known(one)
        if decided is not None:
            return splat(writer, other if decided is neutral else one, lanes)
    return arithmetic(writer, op, left, right)


def negate(writer: FunctionWriter, value: Value) -> Value:
    """Write `not value`."""
    decided = known(value)
    if decided is not None:
        return literal(not decided, value.dtype)
    return Value(writer.emit(f"xor {value.typed}, {literal(True, value.dtype).text}"), value.dtype)


def compare_linear(writer: FunctionWriter, index: IndexWriter, op: CompareOp, gap: Linear) -> Value:
    """Write `gap op 0` for an int64 gap, or decide it now."""
    dtype = with_lanes(BOOL, gap.lanes)
    bounds = gap.bounds()
    if bounds is not None:
        decided = _decided(op, *bounds)
        if decided is not None:
            return literal(decided, dtype)
    if gap.lanes == 1:
        left = index.materialize(Linear(gap.terms))
        return comparison(writer, op, left, literal(-gap.constant, INT64))
    narrow = bounds is not None and bounds[0] >= -(2**31) and bounds[1] < 2**31
    if not gap.terms:
        return pattern([_holds(op, gap.constant + gap.step * lane) for lane in range(gap.lanes)])
    base = index.materialize(gap.lane(0))
    if narrow:
        base = cast(writer, base, INT32)
    lanes = spread(writer, base, gap.step, gap.lanes)
    return comparison(writer, op, lanes, literal(0, lanes.dtype))


def pattern(lanes: list[bool]) -> Value:
    """Return a mask as a literal."""
    text = ", ".join(f"i1 {str(lane).lower()}" for lane in lanes)
    return Value(f"<{text}>", with_lanes(BOOL, len(lanes)))


def spread(writer: FunctionWriter, base: Value, step: int, lanes: int) -> Value:
    """Return the vector `base, base + step, …`."""
    dtype = with_lanes(base.dtype, lanes)
    vector = splat(writer, base, lanes)
    if not step:
        return vector
    element = register_type(base.dtype)
    steps = ", ".join(f"{element} {step * lane}" for lane in range(lanes))
    return Value(writer.emit(f"add {vector.typed}, <{steps}>"), dtype)


def _decided(op: CompareOp, low: int, high: int) -> bool | None:
    """Whether x `op` 0 for every x (True) or no x (False) in [low, high]."""
    match op:
        case CompareOp.LT:
            return True if high < 0 else False if low >= 0 else None
        case CompareOp.LE:
            return True if high <= 0 else False if low > 0 else None
        case CompareOp.GT:
            return True if low > 0 else False if high <= 0 else None
        case CompareOp.GE:
            return True if low >= 0 else False if high < 0 else None
        case CompareOp.EQ:
            return True if low == high == 0 else False if low > 0 or high < 0 else None
        case CompareOp.NE:
            return False if low == high == 0 else True if low > 0 or high < 0 else None


def _holds(op: CompareOp, number: int) -> bool:
    return _decided(op, number, number) is True
