"""Arithmetic, comparisons, casts and math functions on values, as NumPy defines them."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ansorc.codegen.llvm.bfloat import narrow, widen
from ansorc.codegen.llvm.integer import divide, power, shift
from ansorc.codegen.llvm.types import Value, literal, register_type, suffix, with_lanes
from ansorc.codegen.llvm.vector import halves, match_lanes
from ansorc.codegen.llvm.vector_math import VectorShape, math_function, write_in_place
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.dtype import BOOL, FLOAT32, FLOAT64, INT32, DType, Kind
from ansorc.ir.expr import BinaryOp, CompareOp
from ansorc.ir.operator import BIT_FUNCTIONS, SHIFTS

_FLOAT_OPS = {BinaryOp.ADD: "fadd", BinaryOp.SUB: "fsub", BinaryOp.MUL: "fmul",
              BinaryOp.DIV: "fdiv"}  # fmt: skip
_INTEGER_OPS = {BinaryOp.ADD: "add", BinaryOp.SUB: "sub", BinaryOp.MUL: "mul",
                BinaryOp.AND: "and", BinaryOp.OR: "or", BinaryOp.BIT_AND: "and",
                BinaryOp.BIT_OR: "or", BinaryOp.BIT_XOR: "xor"}  # fmt: skip
_FLOAT_COMPARE = {CompareOp.EQ: "oeq", CompareOp.NE: "une", CompareOp.LT: "olt",
                  CompareOp.LE: "ole", CompareOp.GT: "ogt", CompareOp.GE: "oge"}  # fmt: skip
_INTEGER_COMPARE = {CompareOp.EQ: "eq", CompareOp.NE: "ne", CompareOp.LT: "lt",
                    CompareOp.LE: "le", CompareOp.GT: "gt", CompareOp.GE: "ge"}  # fmt: skip
_BIT_INTRINSICS = {"popcount": "ctpop", "clz": "ctlz", "ctz": "cttz"}
_INTRINSICS = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil",
               "round": "roundeven", "trunc": "trunc", "copysign": "copysign",
               "fma": "fma"}  # fmt: skip


def arithmetic(writer: FunctionWriter, op: BinaryOp, left: Value, right: Value) -> Value:
    """Write `left op right`; a product may be fused with the sum that takes it."""
    a, b = match_lanes(writer, left, right)
    dtype = a.dtype
    if op in (BinaryOp.MIN, BinaryOp.MAX):
        return _extreme(writer, op, a, b)
    if op in (BinaryOp.FLOORDIV, BinaryOp.MOD):
        return divide(writer, op, a, b)
    if op in SHIFTS:
        return shift(writer, op, a, b)
    if not dtype.is_float:
        return Value(writer.emit(f"{_INTEGER_OPS[op]} {a.typed}, {b.text}"), dtype)
    if dtype.bits == 16:
        wide = arithmetic(writer, op, _single(writer, a), _single(writer, b))
        return cast(writer, wide, dtype)
    return Value(writer.emit(f"{_FLOAT_OPS[op]} contract {a.typed}, {b.text}"), dtype)


def across_lanes(writer: FunctionWriter, op: BinaryOp, value: Value) -> Value:
    """Write the combination of all lanes of `value`, whose number is a power of 2, as a tree."""
    while value.dtype.lanes > 1:
        value = arithmetic(writer, op, *halves(writer, value))
    return value


def comparison(writer: FunctionWriter, op: CompareOp, left: Value, right: Value) -> Value:
    """Write `left op right`, a bool in each lane; comparing with NaN is true only for NE."""
    a, b = match_lanes(writer, left, right)
    if a.dtype.is_bfloat:
        a, b = _single(writer, a), _single(writer, b)
    dtype = with_lanes(BOOL, a.dtype.lanes)
    if a.dtype.is_float:
        return Value(writer.emit(f"fcmp {_FLOAT_COMPARE[op]} {a.typed}, {b.text}"), dtype)
    sign = "" if op in (CompareOp.EQ, CompareOp.NE) else "s" if a.dtype.kind is Kind.INT else "u"
    return Value(writer.emit(f"icmp {sign}{_INTEGER_COMPARE[op]} {a.typed}, {b.text}"), dtype)


def cast(writer: FunctionWriter, value: Value, dtype: DType) -> Value:
    """Convert to the element type `dtype`; floats outside an integer's range saturate."""
    source, goal = value.dtype, with_lanes(dtype, value.dtype.lanes)
    if source == goal:
        return value
    if source.is_bfloat:
        return cast(writer, widen(writer, value), dtype)
    if goal.is_bfloat:
        return narrow(writer, cast(writer, value, FLOAT32))
    if goal.is_bool:
        zero = literal(0, source).text
        test = "fcmp une" if source.is_float else "icmp ne"
        return Value(writer.emit(f"{test} {value.typed}, {zero}"), goal)
    halves = [kind for kind in (source, goal) if kind.is_float and kind.bits == 16]
    if halves and FLOAT32 not in (source.element, goal.element):
        single = _to_odd(writer, value) if source.bits == 64 and source.is_float else value
        return cast(writer, cast(writer, single, FLOAT32), goal)
    if source.is_float and not goal.is_float:
        if source.lanes > 1 and writer.module.target.is_x86:
            return _saturate(writer, value, goal)
        sign = "s" if goal.kind is Kind.INT else "u"
        name = f"fpto{sign}i.sat.{suffix(goal)}.{suffix(source)}"
        return intrinsic(writer, name, goal, [value])
    if register_type(source) == register_type(goal):
        return Value(value.text, goal)
    text = f"{_conversion(source, goal)} {value.typed} to {register_type(goal)}"
    return Value(writer.emit(text), goal)


def math_call(writer: FunctionWriter, name: str, args: list[Value]) -> Value:
    """Write the math function `name`: an instruction where there is one, else a call of ours."""
    values = match_lanes(writer, *args)
    dtype = values[0].dtype
    if len(values) > 1 and name == "popcount":
        counts = [math_call(writer, name, [value]) for value in values]
        return reduce(lambda a, b: arithmetic(writer, BinaryOp.ADD, a, b), counts)
    if name in BIT_FUNCTIONS:
        more = [] if name == "popcount" else [literal(False, BOOL)]  # clz and ctz of 0 are defined
        text = f"{_BIT_INTRINSICS[name]}.{suffix(dtype)}"
        return intrinsic(writer, text, dtype, [*values, *more])
    if dtype.is_integer:
        return power(writer, *values)
    if dtype.bits == 16:
        wide = math_call(writer, name, [_single(writer, value) for value in values])
        return cast(writer, wide, dtype.element)
    if name in _INTRINSICS:
        return intrinsic(writer, f"{_INTRINSICS[name]}.{suffix(dtype)}", dtype, values)
    if name == "rsqrt":
        root = math_call(writer, "sqrt", values)
        return arithmetic(writer, BinaryOp.DIV, literal(1.0, dtype), root)
    module = writer.module
    shape = VectorShape.on(module.target, dtype.bits, dtype.lanes)
    function = math_function(name, shape)
    for declaration in function.declarations:
        module.declare(declaration)
    if module.has_room(function.instructions):
        texts = [value.text for value in values]
        return Value(write_in_place(name, shape, texts, writer.emit), dtype)
    module.define(function.symbol, function.definition)
    operands = ", ".join(value.typed for value in values)
    return Value(writer.emit(f"call {register_type(dtype)} {function.symbol}({operands})"), dtype)


def power_of(writer: FunctionWriter, base: Value, exponent: float) -> Value | None:
    """Write `base` to a constant power by products and roots; None where it takes a logarithm.

    As `pow` has it, roots of -0.0 are those of 0.0, and -inf counts as inf.
    """
    if (
        base.dtype.bits == 16
        or base.dtype.is_integer
        or exponent not in (1.0, 2.0, 3.0, 4.0, -1.0, 0.5, -0.5)
    ):
        return None
    if exponent >= 1:
        result = base
        for _ in range(int(exponent) - 1 if exponent < 4 else 1):
            result = arithmetic(writer, BinaryOp.MUL, result, base)
        return result if exponent < 4 else arithmetic(writer, BinaryOp.MUL, result, result)
    if exponent != -1:
        base = arithmetic(writer, BinaryOp.ADD, base, literal(0.0, base.dtype))
        root = math_call(writer, "sqrt", [base])
        endless = literal(float("inf"), base.dtype)
        is_lowest = comparison(writer, CompareOp.EQ, base, literal(float("-inf"), base.dtype))
        text = f"select {is_lowest.typed}, {endless.typed}, {root.typed}"
        base = Value(writer.emit(text), base.dtype)
    return (
        base if exponent > 0 else arithmetic(writer, BinaryOp.DIV, literal(1.0, base.dtype), base)
    )


def intrinsic(writer: FunctionWriter, name: str, result: DType, args: list[Value]) -> Value:
    """Call the LLVM intrinsic `name` (without its `llvm.`)."""
    kinds = ", ".join(register_type(arg.dtype) for arg in args)
    kind = register_type(result)
    writer.module.declare(f"declare {kind} @llvm.{name}({kinds})")
    operands = ", ".join(arg.typed for arg in args)
    return Value(writer.emit(f"call {kind} @llvm.{name}({operands})"), result)


def _extreme(writer: FunctionWriter, op: BinaryOp, a: Value, b: Value) -> Value:
    word = "min" if op is BinaryOp.MIN else "max"
    dtype = a.dtype
    if not dtype.is_float:
        sign = "s" if dtype.kind is Kind.INT else "u"
        return intrinsic(writer, f"{sign}{word}.{suffix(dtype)}", dtype, [a, b])
    if dtype.bits == 16:
        wide = _extreme(writer, op, _single(writer, a), _single(writer, b))
        return cast(writer, wide, dtype.element)
    name, kind = f"llvm.{word}imum.{suffix(dtype)}", register_type(dtype)
    writer.module.declare(f"declare {kind} @{name}({kind}, {kind})")
    # nsz: NumPy leaves open which of -0.0 and 0.0 is larger, and the instruction needs no fix-up.
    return Value(writer.emit(f"call nsz {kind} @{name}({a.typed}, {b.typed})"), dtype)


def _saturate(writer: FunctionWriter, value: Value, goal: DType) -> Value:
    """Convert floats to the nearest integers of `goal`, NaN to 0, as LLVM does lane by lane on x86.

    The largest integer may be no float: from there on it is chosen afterwards.
    """
    source, is_signed = value.dtype, goal.kind is Kind.INT
    low = -(1 << (goal.bits - 1)) if is_signed else 0
    high = low + (1 << goal.bits) - 1
    held = _choose(writer, CompareOp.GT, value, literal(float(low), source), value)
    is_exact = int(float(np.float32(high))) == high if source.bits == 32 else goal.bits <= 32
    last = literal(float(high if is_exact else high + 1), source)
    if is_exact:
        held = _choose(writer, CompareOp.LT, held, last, held)
    wide = with_lanes(INT32, goal.lanes) if is_exact and goal.bits < 32 else goal
    sign = "s" if wide.kind is Kind.INT else "u"
    text = f"fpto{sign}i {held.typed} to {register_type(wide)}"
    converted = cast(writer, Value(writer.emit(text), wide), goal)
    if not is_exact:
        converted = _choose(writer, CompareOp.LT, held, last, converted, literal(high, goal))
    return (
        _choose(writer, CompareOp.EQ, value, value, converted, literal(0, goal))
        if low
        else converted
    )


def _choose(
    writer: FunctionWriter, op: CompareOp, left: Value, right: Value, then: Value,
    otherwise: Value | None = None,
) -> Value:  # fmt: skip
    """Return `then` in lanes where `left op right` holds, `otherwise` (None: `right`) elsewhere."""
    test = comparison(writer, op, left, right)
    text = f"select {test.typed}, {then.typed}, {(otherwise or right).typed}"
    return Value(writer.emit(text), then.dtype)


def _to_odd(writer: FunctionWriter, value: Value) -> Value:
    """Round float64 to float32 so that rounding the result to float16 is rounding only once.

    What is not exact is rounded towards zero and gets an odd last bit, which marks it as such.
    """
    near = cast(writer, value, FLOAT32)
    back = cast(writer, near, FLOAT64)
    sizes = [math_call(writer, "abs", [number]) for number in (back, value)]
    bits = with_lanes(INT32, near.dtype.lanes)
    kind = register_type(bits)
    flags = [comparison(writer, CompareOp.GT, *sizes), comparison(writer, CompareOp.LT, *sizes)]
    up, down = (Value(writer.emit(f"zext {flag.typed} to {kind}"), bits) for flag in flags)
    whole = Value(writer.emit(f"bitcast {near.typed} to {kind}"), bits)
    cut = arithmetic(writer, BinaryOp.SUB, whole, up)
    odd = arithmetic(writer, BinaryOp.OR, cut, arithmetic(writer, BinaryOp.OR, up, down))
    return Value(writer.emit(f"bitcast {odd.typed} to {register_type(near.dtype)}"), near.dtype)


def _single(writer: FunctionWriter, value: Value) -> Value:
    return cast(writer, value, FLOAT32)


def _conversion(source: DType, goal: DType) -> str:
    if source.is_float:
        return "fpext" if goal.bits > source.bits else "fptrunc"
    if goal.is_float:
        return "sitofp" if source.kind is Kind.INT else "uitofp"
    if goal.bits <= source.bits:
        return "trunc"
    return "sext" if source.kind is Kind.INT else "zext"
