"""Integer division that rounds down, with no operand that traps."""

from __future__ import annotations

from ansorc.codegen.llvm.types import Value, literal, register_type
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.dtype import Kind
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
        result = _signed(writer, a, divisor, is_quotient=is_quotient)
    return _select(writer, is_zero, literal(0, a.dtype), Value(result, a.dtype))


def _signed(writer: FunctionWriter, a: Value, b: Value, *, is_quotient: bool) -> str:
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


def _select(writer: FunctionWriter, condition: str, then: Value, otherwise: Value) -> Value:
    boolean = "i1" if then.dtype.lanes == 1 else f"<{then.dtype.lanes} x i1>"
    text = f"select {boolean} {condition}, {then.typed}, {otherwise.typed}"
    return Value(writer.emit(text), then.dtype)
