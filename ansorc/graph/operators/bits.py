"""Bits of integers by arithmetic: the IR has no operators on bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansorc.ir.dtype import DType, Kind
from ansorc.lang.scalar import all_of, any_of, const, equal, if_then_else, not_equal
from ansorc.lang.scalar_type import Scalar, ScalarLike


def bitwise_not(x: Scalar) -> Scalar:
    """Return `x` with each bit inverted."""
    kind = x.dtype
    ones = 2**kind.bits - 1 if kind.kind is Kind.UINT else -1
    return const(ones, kind) - x


def bitwise_and(a: Scalar, b: Scalar) -> Scalar:
    """Return the bits that both integers have."""
    return _bit_by_bit(a, b, all_of)


def bitwise_or(a: Scalar, b: Scalar) -> Scalar:
    """Return the bits that one of two integers has, or both."""
    return _bit_by_bit(a, b, any_of)


def bitwise_xor(a: Scalar, b: Scalar) -> Scalar:
    """Return the bits that one of two integers has, not both."""
    return _bit_by_bit(a, b, not_equal)


def shift_left(x: Scalar, by: Scalar) -> Scalar:
    """Return x * 2^by of unsigned integers, modulo 2^bits."""
    return _shift(x, by, lambda a, factor: a * factor)


def shift_right(x: Scalar, by: Scalar) -> Scalar:
    """Return x // 2^by of unsigned integers."""
    return _shift(x, by, lambda a, factor: a // factor)


def _shift(x: Scalar, by: Scalar, step: Callable[[Scalar, Scalar], Scalar]) -> Scalar:
    kind, result = x.dtype, x
    one = const(1, kind)
    for bit in range(kind.bits.bit_length() - 1):
        result = step(result, if_then_else(_bit(by, bit), const(2**2**bit, kind), one))
    return if_then_else(by < kind.bits, result, const(0, kind))


def _bit_by_bit(
    a: Scalar, b: Scalar, combine: Callable[[ScalarLike, ScalarLike], Scalar]
) -> Scalar:
    kind = a.dtype
    result: Scalar = const(0, kind)
    for bit in range(kind.bits):
        is_set = combine(_bit(a, bit), _bit(b, bit))
        result = result + if_then_else(is_set, const(_weight(kind, bit), kind), const(0, kind))
    return result


def _bit(x: Scalar, bit: int) -> Scalar:
    kind = x.dtype
    if _weight(kind, bit) < 0:
        return x < 0
    shifted = x // const(2**bit, kind) if bit else x
    return equal(shifted % const(2, kind), const(1, kind))


def _weight(kind: DType, bit: int) -> int:
    is_sign = kind.kind is Kind.INT and bit == kind.bits - 1
    return -(2**bit) if is_sign else 2**bit


BITS_OF_ONE: Mapping[str, Callable[[Scalar], Scalar]] = {"bitwise_not": bitwise_not}
BITS_OF_TWO: Mapping[str, Callable[[Scalar, Scalar], Scalar]] = {
    "bitwise_and": bitwise_and,
    "bitwise_or": bitwise_or,
    "bitwise_xor": bitwise_xor,
    "shift_left": shift_left,
    "shift_right": shift_right,
}
