"""Integer division that rounds down, with no operand that traps, and powers."""

from __future__ import annotations

from ansorc.codegen.llvm.types import Value, literal, register_type, suffix
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.dtype import DType, Kind
from ansorc.ir.expr import BinaryOp


def divide(writer: FunctionWriter, op: BinaryOp, a: Value, b: Value) -> Value:
    """Write `a // b` (FLOORDIV) or `a % b` (MOD), operands of one integer dtype.

    A zero divisor gives 0 and the quotient -2^(n-1) // -1 wraps, as in NumPy.
    """
    kind = register_type(a.dtype)
    is_quotient = op is BinaryOp.FLOORDIV
    zero = literal(0, a.dtype).text
    is_zero = writer.emit(f"icmp eq {kind} {b.text}, {zero}")
    divisor = _select(writer, is_zero, literal(1, a.dtype), b)
    if a.dtype.kind is Kind.UINT:
        instruction = "udiv" if is_quotient else "urem"
        result = writer.emit(f"{instruction} {kind} {a.text}, {divisor.text}")
    else:
        result = _correct_sign(writer, a, divisor, is_quotient=is_quotient)
    return _select(writer, is_zero, literal(0, a.dtype), Value(result, a.dtype))


def shift(writer: FunctionWriter, op: BinaryOp, a: Value, b: Value) -> Value:
    """Write `a << b` or `a >> b`, for any count: beyond the bits, only zeros or the sign are left.

    LLVM leaves such shifts undefined, and removes the tests where it knows the count.
    """
    kind, bits = register_type(a.dtype), a.dtype.bits
    is_signed = op is BinaryOp.SHR and a.dtype.kind is Kind.INT
    inside = writer.emit(f"icmp ult {kind} {b.text}, {literal(bits, a.dtype).text}")
    if is_signed:
        count = _select(writer, inside, b, literal(bits - 1, a.dtype))
        return Value(writer.emit(f"ashr {kind} {a.text}, {count.text}"), a.dtype)
    word = "shl" if op is BinaryOp.SHL else "lshr"
    moved = Value(writer.emit(f"{word} {kind} {a.text}, {b.text}"), a.dtype)
    return _select(writer, inside, moved, literal(0, a.dtype))


def _correct_sign(writer: FunctionWriter, a: Value, b: Value, *, is_quotient: bool) -> str:
    """Correct the quotient that rounds towards zero; divide by 1 where -1 could overflow."""
    kind, zero = register_type(a.dtype), literal(0, a.dtype).text
    is_minus = writer.emit(f"icmp eq {kind} {b.text}, {literal(-1, a.dtype).text}")
    safe = _select(writer, is_minus, literal(1, a.dtype), b)
    rest = writer.emit(f"srem {kind} {a.text}, {safe.text}")
    inexact = writer.emit(f"icmp ne {kind} {rest}, {zero}")
    signs = writer.emit(f"xor {kind} {rest}, {safe.text}")
    differ = writer.emit(f"icmp slt {kind} {signs}, {zero}")
    boolean = register_type(a.dtype).replace(f"i{a.dtype.bits}", "i1")
    fix = writer.emit(f"and {boolean} {inexact}, {differ}")
    if not is_quotient:
        shifted = writer.emit(f"add {kind} {rest}, {safe.text}")
        return _select(writer, fix, Value(shifted, a.dtype), Value(rest, a.dtype)).text
    quotient = writer.emit(f"sdiv {kind} {a.text}, {safe.text}")
    lowered = writer.emit(f"add {kind} {quotient}, {literal(-1, a.dtype).text}")
    floor = _select(writer, fix, Value(lowered, a.dtype), Value(quotient, a.dtype))
    negated = Value(writer.emit(f"sub {kind} {zero}, {a.text}"), a.dtype)
    return _select(writer, is_minus, negated, floor).text


def power(writer: FunctionWriter, base: Value, exponent: Value) -> Value:
    """Write `base` to the power `exponent`, of one integer dtype: see `OF_INTEGERS`.

    It is a call of a function that squares the base once for each bit of the largest exponent.
    """
    dtype = base.dtype
    sign = "u" if dtype.kind is Kind.UINT else "s"
    symbol = f"@ansorc.pow.{suffix(dtype)}.{sign}"
    for_any = f"llvm.vector.reduce.or.v{dtype.lanes}i1"
    if dtype.lanes > 1:
        writer.module.declare(f"declare i1 @{for_any}(<{dtype.lanes} x i1>)")
    writer.module.define(symbol, _power_text(symbol, dtype, for_any))
    text = f"call {register_type(dtype)} {symbol}({base.typed}, {exponent.typed})"
    return Value(writer.emit(text), dtype)


def _power_text(symbol: str, dtype: DType, for_any: str) -> str:
    kind, lanes = register_type(dtype), dtype.lanes
    truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
    zero, one, least = (literal(value, dtype).text for value in (0, 1, -1))
    if dtype.kind is Kind.UINT:
        start = [f"  %rest = add {kind} %y, {zero}", f"  %found = add {kind} {zero}, {one}"]
    else:
        start = [
            f"  %below = icmp slt {kind} %y, {zero}",
            f"  %plus = icmp eq {kind} %x, {one}",
            f"  %minus = icmp eq {kind} %x, {least}",
            f"  %unit = or {truth} %plus, %minus",
            f"  %kept = select {truth} %unit, {kind} {one}, {kind} {zero}",
            f"  %found = select {truth} %below, {kind} %kept, {kind} {one}",
            f"  %parity = and {kind} %y, {one}",
            f"  %left = select {truth} %unit, {kind} %parity, {kind} {zero}",
            f"  %rest = select {truth} %below, {kind} %left, {kind} %y",
        ]
    is_any = [f"  %more = call i1 @{for_any}({truth} %some)"] if lanes > 1 else []
    return "\n".join(
        [
            f"define internal {kind} {symbol}({kind} %x, {kind} %y) #1 {{",
            "entry:",
            *start,
            "  br label %bit",
            "bit:",
            f"  %total = phi {kind} [%found, %entry], [%next, %bit]",
            f"  %square = phi {kind} [%x, %entry], [%larger, %bit]",
            f"  %bits = phi {kind} [%rest, %entry], [%fewer, %bit]",
            f"  %last = and {kind} %bits, {one}",
            f"  %odd = icmp ne {kind} %last, {zero}",
            f"  %product = mul {kind} %total, %square",
            f"  %next = select {truth} %odd, {kind} %product, {kind} %total",
            f"  %larger = mul {kind} %square, %square",
            f"  %fewer = lshr {kind} %bits, {one}",
            f"  %some = icmp ne {kind} %fewer, {zero}",
            *is_any,
            f"  br i1 {'%more' if is_any else '%some'}, label %bit, label %done",
            "done:",
            f"  ret {kind} %next",
            "}",
        ]
    )


def _select(writer: FunctionWriter, condition: str, then: Value, otherwise: Value) -> Value:
    boolean = "i1" if then.dtype.lanes == 1 else f"<{then.dtype.lanes} x i1>"
    text = f"select {boolean} {condition}, {then.typed}, {otherwise.typed}"
    return Value(writer.emit(text), then.dtype)
