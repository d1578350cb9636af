"""Bfloat16, kept as an i16: the upper half of a float32, rounded to nearest even.

Integer instructions convert whole vectors on every processor. The conversion instructions of x86
flush subnormal numbers to zero, so they are not used; those of ARM round as these do.
"""

from __future__ import annotations

from ansorc.codegen.llvm.types import Value, literal, register_type, with_lanes
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.dtype import BFLOAT16, FLOAT32, INT32, DType


def widen(writer: FunctionWriter, value: Value) -> Value:
    """Return the bfloat16 `value` as float32, which is exact."""
    bits, single = _types(value.dtype.lanes)
    wide = writer.emit(f"zext {value.typed} to {register_type(bits)}")
    high = writer.emit(f"shl {register_type(bits)} {wide}, {literal(16, bits).text}")
    name = writer.emit(f"bitcast {register_type(bits)} {high} to {register_type(single)}")
    return Value(name, single)


def narrow(writer: FunctionWriter, value: Value) -> Value:
    """Return the float32 `value` as bfloat16; a NaN stays one, and becomes quiet."""
    bits, single = _types(value.dtype.lanes)
    goal = with_lanes(BFLOAT16, value.dtype.lanes)
    kind = register_type(bits)
    if writer.module.rounds_to_bfloat:
        half = register_type(single).replace("float", "bfloat")
        name = writer.emit(f"fptrunc {value.typed} to {half}")
        return Value(writer.emit(f"bitcast {half} {name} to {register_type(goal)}"), goal)
    whole = writer.emit(f"bitcast {value.typed} to {kind}")
    shifted = writer.emit(f"lshr {kind} {whole}, {literal(16, bits).text}")
    odd = writer.emit(f"and {kind} {shifted}, {literal(1, bits).text}")
    half_way = writer.emit(f"add {kind} {odd}, {literal(0x7FFF, bits).text}")
    rounded = writer.emit(f"add {kind} {whole}, {half_way}")
    quiet = writer.emit(f"or {kind} {whole}, {literal(0x400000, bits).text}")
    is_nan = writer.emit(f"fcmp uno {value.typed}, {value.text}")
    lanes = value.dtype.lanes
    boolean = f"<{lanes} x i1>" if lanes > 1 else "i1"
    chosen = writer.emit(f"select {boolean} {is_nan}, {kind} {quiet}, {kind} {rounded}")
    high = writer.emit(f"lshr {kind} {chosen}, {literal(16, bits).text}")
    return Value(writer.emit(f"trunc {kind} {high} to {register_type(goal)}"), goal)


def _types(lanes: int) -> tuple[DType, DType]:
    return with_lanes(INT32, lanes), with_lanes(FLOAT32, lanes)
