"""Conditions: decided now where ranges allow it, else tested with the narrowest instructions."""

from __future__ import annotations

from ansorc.codegen.llvm.index import IndexWriter
from ansorc.codegen.llvm.lane_index import LaneIndex, Symbol, bounds
from ansorc.codegen.llvm.math import arithmetic, cast, comparison
from ansorc.codegen.llvm.types import Value, literal, register_type, with_lanes
from ansorc.codegen.llvm.vector import splat
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.arith.affine import Linear
from ansorc.ir.arith.interval import decide
from ansorc.ir.dtype import BOOL, INT32, INT64
from ansorc.ir.expr import BinaryOp, CompareOp


def constant_value(condition: Value) -> bool | None:
    """Return what `condition` is in every lane, if that is known now."""
    return {"true": True, "splat (i1 true)": True, "false": False, "splat (i1 false)": False}.get(
        condition.text
    )


def connect(writer: FunctionWriter, op: BinaryOp, left: Value, right: Value) -> Value:
    """Write `left and right` or `left or right`."""
    neutral = op is BinaryOp.AND
    lanes = max(left.dtype.lanes, right.dtype.lanes)
    for operand, other in ((left, right), (right, left)):
        decided = constant_value(operand)
        if decided is not None:
            return splat(writer, other if decided is neutral else operand, lanes)
    return arithmetic(writer, op, left, right)


def negate(writer: FunctionWriter, value: Value) -> Value:
    """Write `not value`."""
    decided = constant_value(value)
    if decided is not None:
        return literal(not decided, value.dtype)
    return Value(writer.emit(f"xor {value.typed}, {literal(True, value.dtype).text}"), value.dtype)


def compare_linear(
    writer: FunctionWriter,
    index: IndexWriter,
    op: CompareOp,
    left: LaneIndex[Symbol],
    right: LaneIndex[Symbol],
) -> Value | None:
    """Write `left op right`, or decide it now; None where one of them may overflow."""
    first, step = left.first.plus(right.first, -1), left.step - right.step
    lanes = max(left.lanes, right.lanes)
    ends = bounds(first, step * (lanes - 1))
    if ends is None or None in (bounds(left.first, left.reach), bounds(right.first, right.reach)):
        return None
    decided = decide(op, ends)
    if decided is not None:
        return literal(decided, with_lanes(BOOL, lanes))
    if lanes == 1:
        base = index.materialize(Linear(first.terms))
        return comparison(writer, op, base, literal(-first.constant, INT64))
    if not first.terms:
        numbers = (first.constant + step * lane for lane in range(lanes))
        return pattern([decide(op, (number, number)) is True for number in numbers])
    base = index.materialize(first)
    if ends[0] >= -(2**31) and ends[1] < 2**31:
        base = cast(writer, base, INT32)
    vector = make_ramp(writer, base, step, lanes)
    return comparison(writer, op, vector, literal(0, vector.dtype))


def pattern(lanes: list[bool]) -> Value:
    """Return a mask as a literal."""
    text = ", ".join(f"i1 {str(lane).lower()}" for lane in lanes)
    return Value(f"<{text}>", with_lanes(BOOL, len(lanes)))


def make_ramp(writer: FunctionWriter, base: Value, step: int, lanes: int) -> Value:
    """Return the vector `base, base + step, …`."""
    dtype = with_lanes(base.dtype, lanes)
    vector = splat(writer, base, lanes)
    if not step:
        return vector
    element = register_type(base.dtype)
    steps = ", ".join(f"{element} {step * lane}" for lane in range(lanes))
    return Value(writer.emit(f"add {vector.typed}, <{steps}>"), dtype)
