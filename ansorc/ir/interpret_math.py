"""The meaning of conversions, minima and math functions on single values.

A float value is a NumPy scalar of its dtype; integers and bools are Python's. Math functions are
computed in double precision, or exactly, and rounded once to the dtype of their operands; but
`mod` and `floor_divide` as their code does it, bit for bit. What is computed from an undefined
value (`ansorc.ir.undefined`) is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from ansorc.ir.aligned import Array
from ansorc.ir.dtype import DType, Kind
from ansorc.ir.operator import BIT_FUNCTIONS, BinaryOp
from ansorc.ir.undefined import Undefined, first_undefined

REMAINDERS = ("fmod", "mod", "floor_divide")
"""The math functions that divide."""

Float: TypeAlias = "np.floating[Any]"
"""A NumPy scalar of float16, bfloat16, float32 or float64."""


def converter(source: DType, target: DType) -> Callable[[Any], Any]:
    """Return the conversion of one value (see `Cast`), if source or target are floats."""
    from_type, to_type = source.numpy.type, target.numpy

    def to_float(value: Any) -> Any:
        return from_type(value).astype(to_type)

    def to_integer(value: Any) -> int:
        return 0 if math.isnan(value) else int(max(low, min(high, float(value))))

    if target.is_float:
        return of_defined(to_float)
    low, high = integer_range(target)
    return of_defined(to_integer)


def of_defined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` extended to undefined arguments: its result is then undefined."""

    def result(*args: Any) -> Any:
        for arg in args:
            if arg.__class__ is Undefined:
                return arg
        return function(*args)

    return result


def _smaller(left: Float, right: Float) -> Float:
    return left if left < right or math.isnan(left) else right


def _larger(left: Float, right: Float) -> Float:
    return left if left > right or math.isnan(left) else right


minimum: Callable[..., Any] = of_defined(_smaller)
"""The smaller of two floats, NaN if one is NaN."""
maximum: Callable[..., Any] = of_defined(_larger)
"""The larger of two floats, NaN if one is NaN."""


@cache
def integer_range(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer dtype."""
    if dtype.kind is Kind.UINT:
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def math_function(name: str, dtype: DType) -> Callable[..., Float]:
    """Return the function `name` of MATH_FUNCTIONS or BIT_FUNCTIONS on scalars of `dtype`."""
    if name in BIT_FUNCTIONS:
        return of_defined(partial(_BIT_FUNCTIONS[name], dtype.bits))
    if dtype.is_integer:
        return partial(_power_of_integers, dtype)  # pyright: ignore[reportReturnType]
    function, round_to = _FUNCTIONS[name], dtype.numpy.type
    # each step of a remainder rounds
    narrow = np.float32 if dtype.bits == 16 else round_to
    wide: Any = narrow if name in REMAINDERS else np.float64
    return of_defined(lambda *args: round_to(function(*map(wide, args))))


def shift_function(op: BinaryOp, dtype: DType) -> Callable[[int, int], int]:
    """Return a shift of integers of `dtype` by any count, before its result is wrapped."""

    def shift(value: int, count: int) -> int:
        beyond = not 0 <= count < dtype.bits
        if op is BinaryOp.SHL:
            return 0 if beyond else value << count
        return value >> (dtype.bits if beyond else count)

    return of_defined(shift)


def lane_reducer(op: BinaryOp, dtype: DType) -> Callable[[Sequence[Any]], Any]:
    """Return the function of `Reduce` with `op` on the lanes of a vector of `dtype`."""
    combine, kind = _COMBINERS[op], dtype.numpy.type

    def reduce_lanes(lanes: Sequence[Any]) -> Any:
        if (missing := first_undefined(*lanes)) is not None:
            return missing
        values: list[Any] = [kind(lane) for lane in lanes]
        while len(values) > 1:
            half = len(values) // 2
            values = list(map(combine, values[:half], values[half:]))
        return values[0] if dtype.is_float else values[0].item()

    return reduce_lanes


def _power_of_integers(dtype: DType, base: int, exponent: int) -> int:
    """Return the power of integers as defined for `OF_INTEGERS`."""
    if exponent < 0 and base in (1, -1):
        return base if exponent % 2 else 1
    if exponent < 0:
        return 0
    low, _ = integer_range(dtype)
    count = 1 << dtype.bits
    return (pow(base, exponent, count) - low) % count + low


def _popcount(bits: int, *values: int) -> int:
    return sum((int(value) % (1 << bits)).bit_count() for value in values)


def _clz(bits: int, value: int) -> int:
    return bits - (int(value) % (1 << bits)).bit_length()


def _ctz(bits: int, value: int) -> int:
    plain = int(value)
    return (plain & -plain).bit_length() - 1 if plain else bits


_BIT_FUNCTIONS = {"popcount": _popcount, "clz": _clz, "ctz": _ctz}


def _count_ones(*operands: Any) -> Any:
    """Return how many bits are 1, on arrays and scalars of integers, in their dtype."""
    total = sum(_count(_unsigned(values)) for values in operands)
    return np.asarray(total).astype(np.result_type(*operands))


def _count_leading_zeros(values: Any) -> Any:
    smeared = _unsigned(values)
    bits = smeared.dtype.itemsize * 8
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            smeared = smeared | smeared >> smeared.dtype.type(step)
    return (np.uint64(bits) - _count(smeared)).astype(np.result_type(values))


def _count_trailing_zeros(values: Any) -> Any:
    plain = _unsigned(values)
    behind = ~plain & plain - plain.dtype.type(1)  # the zeros behind the last 1 as ones
    return _count(behind).astype(np.result_type(values))


def _count(values: Array) -> Array:
    """Return how many bits of unsigned integers are 1, as uint64.

    Neighbours are added up in parts of 2, 4 and 8 bits; a product adds up the bytes (Warren,
    Hacker's Delight, section 5-1).
    """
    wide = values.astype(np.uint64)
    pairs, fours, bytes_, ones = (
        np.uint64(mask * ((1 << 64) - 1) // 255) for mask in (0x55, 0x33, 0x0F, 0x01)
    )
    wide = wide - (wide >> np.uint64(1) & pairs)
    wide = (wide & fours) + (wide >> np.uint64(2) & fours)
    return ((wide + (wide >> np.uint64(4)) & bytes_) * ones) >> np.uint64(56)


def _unsigned(values: Any) -> Array:
    array: Array = np.asarray(values)
    return array.view(f"u{array.dtype.itemsize}")


def _power(base: Any, exponent: Any) -> Any:
    """Return the powers of floats or integers, on arrays and on scalars."""
    if np.result_type(base).kind not in "iu":
        return np.power(base, exponent)
    kind = np.result_type(base)
    square, rest = (np.array(part, kind) for part in np.broadcast_arrays(base, exponent))
    is_unit = (square == 1) | ((square == -1) if kind.kind == "i" else False)
    unit, zero = np.ones((), kind), np.zeros((), kind)
    result: Array = np.where((rest >= 0) | is_unit, unit, zero)
    rest = np.where((rest < 0) & is_unit, rest & 1, np.maximum(rest, 0))
    while rest.any():
        result = np.where(rest & 1 != 0, result * square, result)
        square, rest = square * square, rest >> 1
    return result


def _fma(left: Float, right: Float, addend: Float) -> Float:
    """Return left * right + addend, rounded to odd, so that a second rounding is harmless.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
    """
    rounded = left * right + addend
    if not all(map(math.isfinite, (left, right, addend))):
        return rounded
    exact = Fraction(float(left)) * Fraction(float(right)) + Fraction(float(addend))
    if exact == 0 or not math.isfinite(rounded):
        return rounded
    nearest = float(exact)
    error = exact - Fraction(nearest)
    if error and math.frexp(nearest)[0] * 2**53 % 2 == 0:
        return np.nextafter(np.float64(nearest), math.copysign(math.inf, error))
    return np.float64(nearest)


def _sigmoid(operand: Any) -> Any:
    power = np.exp(-np.abs(operand))  # the other sign could overflow
    return np.where(operand < 0, power, 1.0) / (1.0 + power)


def _rsqrt(operand: Any) -> Any:
    return 1.0 / np.sqrt(operand)


_COMBINERS: dict[BinaryOp, Callable[..., Any]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.MUL: np.multiply,
    BinaryOp.MIN: minimum,
    BinaryOp.MAX: maximum,
}

NUMPY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "copysign": np.copysign,
    "pow": _power,
    "fmod": np.fmod,
    "mod": np.mod,
    "floor_divide": np.floor_divide,
    "popcount": _count_ones,
    "clz": _count_leading_zeros,
    "ctz": _count_trailing_zeros,
}
"""The math functions and those of bits on arrays and on scalars, without `erf` and `fma`."""
_FUNCTIONS = {**NUMPY_FUNCTIONS, "erf": math.erf, "fma": _fma}
