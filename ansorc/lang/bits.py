"""Operators on the bits of integers, as expressions; of an index of axes they are arithmetic."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64, Kind
from ansorc.ir.expr import BinaryOp, Call, Cast, Const, Expr, Load, binary, dtype_of
from ansorc.ir.node import walk
from ansorc.lang.literal import literal

_OPERATORS = {"&": BinaryOp.BIT_AND, "|": BinaryOp.BIT_OR, "^": BinaryOp.BIT_XOR}
_LARGEST_SHIFT = 62
"""Indices that are shifted by less are products and quotients, whose numbers are int64."""


def combine_bits(symbol: str, left: Expr, right: Expr) -> Expr:
    """Return `left & right`, `left | right` or `left ^ right` of integers of one dtype."""
    if symbol == "&" and isinstance(right, Const) and _is_of_axes(left):
        count = int(right.value) + 1
        if 1 < count < 1 << _LARGEST_SHIFT and not count & (count - 1):
            return binary(BinaryOp.MOD, left, count)
    return binary(_OPERATORS[symbol], left, right)


def invert(value: Expr) -> Expr:
    """Return an integer with all of its bits inverted."""
    dtype = dtype_of(value)
    ones = -1 if dtype.kind is Kind.INT else 2**dtype.bits - 1
    return binary(BinaryOp.BIT_XOR, value, literal(ones, dtype))


def shift(symbol: str, left: Expr, right: Expr) -> Expr:
    """Return `left << right` or `left >> right` of one dtype.

    Of an index of axes it is the product with 2**right, or the quotient. Raise LanguageError unless
    both are integers, and for a count that is a number but not below the bits of the dtype.
    """
    dtype, is_left = dtype_of(left), symbol == "<<"
    if not dtype.is_integer:
        raise LanguageError(f"'{symbol}' shifts the bits of an integer, not of {dtype}; cast first")
    if isinstance(right, Const):
        count = int(right.value)
        if not 0 <= count < dtype.bits:
            raise LanguageError(
                f"'{symbol}' by {count}: {dtype} has {dtype.bits} bits; shift by 0 to "
                f"{dtype.bits - 1}"
            )
        if _is_of_axes(left) and count < _LARGEST_SHIFT:
            return binary(BinaryOp.MUL if is_left else BinaryOp.FLOORDIV, left, 1 << count)
    return binary(BinaryOp.SHL if is_left else BinaryOp.SHR, left, right)


def _is_of_axes(expr: Expr) -> bool:
    """Return whether `expr` is an index that depends on axes only, not on data."""
    if dtype_of(expr) != INT64 or isinstance(expr, Const):
        return False
    return not any(isinstance(part, Load | Cast | Call) for part in walk(expr))
