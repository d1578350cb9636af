"""Integer arithmetic in C that wraps, rounds down, and stays in 32 bits where that suffices."""

from __future__ import annotations

from ansorc.codegen.cuda.types import ATOM, PRODUCT, SUM, UNARY, CExpr, c_type, fits_int
from ansorc.ir.arith.bits import bit_bounds
from ansorc.ir.dtype import INT64, Kind
from ansorc.ir.expr import BinaryOp
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.operator import SHIFTS

_INT_BITS = 32
_BIT_FUNCTIONS = {"popcount": "count_ones", "clz": "leading_zeros", "ctz": "trailing_zeros"}
_WRAPPING = {BinaryOp.ADD: "wrap_add", BinaryOp.SUB: "wrap_sub", BinaryOp.MUL: "wrap_mul"}


def type_of(value: CExpr) -> str:
    """Return the C type of the text of an integer, once small ones are promoted."""
    return "int" if value.dtype == INT64 and not value.is_wide else c_type(value.dtype)


def widen(value: CExpr) -> CExpr:
    """Return an int64 as a `long long`."""
    if value.is_wide:
        return value
    text = f"(long long){value.at(UNARY)}"
    return CExpr(text, value.dtype, UNARY, value.low, value.high, is_wide=True)


def arithmetic(op: BinaryOp, a: CExpr, b: CExpr, parts: set[str]) -> CExpr:
    """Return `a op b` for +, - and *; note in `parts` what the prelude has to define."""
    low, high = _bounds(op, a, b)
    least, most = integer_range(a.dtype)
    if low < least or high > most:
        if a.dtype.kind is Kind.INT or a.dtype.bits < 32:
            parts.add("wrap")
            kind = c_type(a.dtype)
            text = f"{_WRAPPING[op]}<{kind}>({a.text}, {b.text})"
            return CExpr(text, a.dtype, ATOM, least, most, a.dtype == INT64)
        low, high = least, most
    is_wide = a.is_wide or b.is_wide
    if a.dtype == INT64 and not is_wide and not fits_int(low, high):
        a, is_wide = widen(a), True
    level = PRODUCT if op is BinaryOp.MUL else SUM
    right = b.at(level if op is BinaryOp.ADD else level + 1)
    return CExpr(f"{a.at(level)} {op.value} {right}", a.dtype, level, low, high, is_wide)


def division(op: BinaryOp, a: CExpr, b: CExpr, parts: set[str]) -> CExpr:
    """Return `a // b` or `a % b`, rounded down; 0 for a divisor of 0."""
    low, high = _quotient(a, b) if op is BinaryOp.FLOORDIV else _remainder(a, b)
    is_wide = a.is_wide or b.is_wide
    if b.low > 0 and a.low >= 0:
        symbol = "/" if op is BinaryOp.FLOORDIV else "%"
        text, level = f"{a.at(PRODUCT)} {symbol} {b.at(PRODUCT + 1)}", PRODUCT
    elif b.low == b.high and b.low > 0 and not b.low & (b.low - 1):
        shift = b.low.bit_length() - 1
        symbol = f">> {shift}" if op is BinaryOp.FLOORDIV else f"& {b.low - 1}"
        text, level = f"({a.at(SUM)} {symbol})", ATOM
    else:
        parts.add("floor_div")
        name = "floor_div" if op is BinaryOp.FLOORDIV else "floor_mod"
        kind = "long long" if is_wide else type_of(a)
        text, level = f"{name}<{kind}>({a.text}, {b.text})", ATOM
    return CExpr(text, a.dtype, level, low, high, is_wide)


def bitwise(op: BinaryOp, a: CExpr, b: CExpr, parts: set[str]) -> CExpr:
    """Return `a op b` for `&`, `|`, `^`, `<<` and `>>`; a shift by any count has a value."""
    low, high = bit_bounds(op, (a.low, a.high), (b.low, b.high), a.dtype.bits)
    least, most = integer_range(a.dtype)
    is_wide = a.is_wide or b.is_wide
    if op in SHIFTS:
        parts.add("shifts")
        if low < least or high > most:
            low, high = least, most
        is_wide = a.dtype == INT64 and not (
            not a.is_wide and fits_int(low, high) and 0 <= b.low <= b.high < _INT_BITS
        )
        name = "shift_left" if op is BinaryOp.SHL else "shift_right"
        kind = "int" if a.dtype == INT64 and not is_wide else c_type(a.dtype)
        text = f"{name}<{kind}>({a.text}, {b.text})"
        return CExpr(text, a.dtype, ATOM, low, high, is_wide)
    text = f"({a.at(SUM)} {op.value} {b.at(SUM)})"
    return CExpr(text, a.dtype, ATOM, low, high, is_wide)


def bit_function(name: str, operand: CExpr, parts: set[str]) -> CExpr:
    """Return one of BIT_FUNCTIONS, of all bits of the dtype."""
    parts.add("bits")
    text = f"{_BIT_FUNCTIONS[name]}<{c_type(operand.dtype)}>({operand.text})"
    return CExpr(text, operand.dtype, ATOM, 0, operand.dtype.bits, operand.dtype == INT64)


def extreme(op: BinaryOp, a: CExpr, b: CExpr, parts: set[str]) -> CExpr:
    """Return the smaller or larger of two integers."""
    choose = min if op is BinaryOp.MIN else max
    is_wide = a.is_wide or b.is_wide
    parts.add("extremes")
    kind = "long long" if is_wide else type_of(a)
    text = f"{op.value}_of<{kind}>({a.text}, {b.text})"
    low, high = choose(a.low, b.low), choose(a.high, b.high)
    return CExpr(text, a.dtype, ATOM, low, high, is_wide)


def _bounds(op: BinaryOp, a: CExpr, b: CExpr) -> tuple[int, int]:
    if op is BinaryOp.ADD:
        return a.low + b.low, a.high + b.high
    if op is BinaryOp.SUB:
        return a.low - b.high, a.high - b.low
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def _quotient(a: CExpr, b: CExpr) -> tuple[int, int]:
    if b.low <= 0:
        return integer_range(a.dtype)
    corners = [x // y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def _remainder(a: CExpr, b: CExpr) -> tuple[int, int]:
    if a.low >= 0 and b.low > 0:
        return 0, min(a.high, b.high - 1)
    return min(0, b.low + 1), max(0, b.high - 1)
