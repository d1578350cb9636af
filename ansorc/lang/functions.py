"""Functions of elements that are made of other operations.

They are computed in the dtype of their operands; those of float16 and bfloat16 in float32, rounded
once. Errors are those of docs/vector_math.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ansorc.errors import LanguageError
from ansorc.ir.dtype import FLOAT32, FLOAT64, DType, Kind
from ansorc.ir.math_call import call
from ansorc.lang.complex_type import length_of
from ansorc.lang.let import hold_shared, let
from ansorc.lang.literal import refuse_bool
from ansorc.lang.scalar import all_of, const, exp2, if_then_else, log2, maximum, minimum
from ansorc.lang.scalar_type import Scalar, ScalarLike, absolute, as_scalar, match_dtypes
from ansorc.lang.trigonometry import TRIGONOMETRIC
from ansorc.lang.trigonometry import atan2 as made_atan2

_THIRD = 1.0 / 3.0
_SMALL = {32: (1e-30, 32), 64: (1e-290, 100)}
"""For the bits of a float: below which size its root is scaled, and by which power of 2."""
_LOG10_OF_2 = math.log10(2.0)


def isnan(x: ScalarLike) -> Scalar:
    """Return whether the float `x` is NaN."""
    value = _float("isnan", x)
    return value != value  # noqa: PLR0124, of an element


def isinf(x: ScalarLike) -> Scalar:
    """Return whether the float `x` is an infinity."""
    return absolute(_float("isinf", x)) == math.inf


def isfinite(x: ScalarLike) -> Scalar:
    """Return whether the float `x` is neither an infinity nor NaN."""
    return absolute(_float("isfinite", x)) < math.inf


def sign(x: ScalarLike) -> Scalar:
    """Return 1, 0 or -1 with the sign of the number `x`, in its dtype; NaN of NaN.

    Raise LanguageError for a bool.
    """
    refuse_bool(x)
    value = as_scalar(x)
    if value.dtype.is_bool:
        raise LanguageError("sign needs a number, not a bool")
    one, zero = const(1, value.dtype), const(0, value.dtype)
    if value.dtype.kind is Kind.UINT:
        return if_then_else(value > 0, one, zero)
    rest = if_then_else(value == 0, zero, value) if value.dtype.is_float else zero
    return if_then_else(value > 0, one, if_then_else(value < 0, const(-1, value.dtype), rest))


def copysign(size: ScalarLike, of: ScalarLike) -> Scalar:
    """Return the float `size` with the sign of `of`, also with that of a zero or a NaN."""
    a, b = match_dtypes("copysign", size, of)
    return Scalar(call("copysign", _float("copysign", a).expr, b.expr))


def clip(x: ScalarLike, low: ScalarLike, high: ScalarLike) -> Scalar:
    """Return the number `x`, but at least `low` and at most `high`; NaN if one of them is."""
    return minimum(maximum(x, low), high)


def rint(x: ScalarLike) -> Scalar:
    """Return the float `x` rounded to the nearest integer, halves to the even one; see `round`."""
    return Scalar(call("round", _float("rint", x).expr))


def trunc(x: ScalarLike) -> Scalar:
    """Return the float `x` rounded towards 0."""
    return Scalar(call("trunc", _float("trunc", x).expr))


def log10(x: ScalarLike) -> Scalar:
    """Return the logarithm to base 10 of the float `x`."""
    return _of_one("log10", x, lambda value: log2(value) * const(_LOG10_OF_2, value.dtype))


def cbrt(x: ScalarLike) -> Scalar:
    """Return the cube root of the float `x`, which has its sign."""
    return _of_one("cbrt", x, _cbrt)


def hypot(x: ScalarLike, y: ScalarLike) -> Scalar:
    """Return the root of the sum of the squares of two floats, also where a square overflows.

    It is infinite if one of them is, even if the other is NaN.
    """
    return _of_two("hypot", x, y, length_of)


def atan2(y: ScalarLike, x: ScalarLike) -> Scalar:
    """Return the angle of the point (x, y) of floats, from -pi to pi."""
    return _of_two("atan2", y, x, made_atan2)


def tan(x: ScalarLike) -> Scalar:
    """Return the tangent of the float `x`."""
    return _of_one("tan", x, TRIGONOMETRIC["tan"])


def asin(x: ScalarLike) -> Scalar:
    """Return the angle from -pi/2 to pi/2 whose sine is the float `x`."""
    return _of_one("asin", x, TRIGONOMETRIC["asin"])


def acos(x: ScalarLike) -> Scalar:
    """Return the angle from 0 to pi whose cosine is the float `x`."""
    return _of_one("acos", x, TRIGONOMETRIC["acos"])


def atan(x: ScalarLike) -> Scalar:
    """Return the angle from -pi/2 to pi/2 whose tangent is the float `x`."""
    return _of_one("atan", x, TRIGONOMETRIC["atan"])


def sinh(x: ScalarLike) -> Scalar:
    """Return the hyperbolic sine of the float `x`."""
    return _of_one("sinh", x, TRIGONOMETRIC["sinh"])


def cosh(x: ScalarLike) -> Scalar:
    """Return the hyperbolic cosine of the float `x`."""
    return _of_one("cosh", x, TRIGONOMETRIC["cosh"])


def asinh(x: ScalarLike) -> Scalar:
    """Return the number whose hyperbolic sine is the float `x`."""
    return _of_one("asinh", x, TRIGONOMETRIC["asinh"])


def acosh(x: ScalarLike) -> Scalar:
    """Return the number from 0 on whose hyperbolic cosine is the float `x`."""
    return _of_one("acosh", x, TRIGONOMETRIC["acosh"])


def atanh(x: ScalarLike) -> Scalar:
    """Return the number whose hyperbolic tangent is the float `x`."""
    return _of_one("atanh", x, TRIGONOMETRIC["atanh"])


def _cbrt(x: Scalar) -> Scalar:
    """Take the root by a logarithm, then improve it by a step of Newton's method.

    Small numbers are scaled up before, so that the cube of the root is no subnormal number.
    """
    size, (least, digits) = absolute(x), _SMALL[x.dtype.bits]
    is_small = size < least
    size = if_then_else(is_small, size * 2.0 ** (3 * digits), size)
    is_plain = all_of(size > 0.0, size < math.inf)
    held = if_then_else(is_plain, size, const(1.0, x.dtype))
    root = exp2(log2(held) * const(_THIRD, x.dtype))
    better = root - (root * root * root - held) / (root * root * 3.0)
    better = if_then_else(is_small, better * 2.0**-digits, better)
    return if_then_else(is_plain, Scalar(call("copysign", better.expr, x.expr)), x)


def _float(name: str, x: ScalarLike) -> Scalar:
    """Return the operand of `name`; raise LanguageError unless it is a float."""
    refuse_bool(x)
    value = as_scalar(x, FLOAT32)
    if not value.dtype.is_float:
        raise LanguageError(f"{name} needs floats of one dtype, not {value.dtype}")
    return value


def _of_one(name: str, x: ScalarLike, function: Callable[[Scalar], Scalar]) -> Scalar:
    value = _float(name, x)
    return hold_shared(function(let(value.astype(_wide(value.dtype))))).astype(value.dtype)


def _of_two(
    name: str, x: ScalarLike, y: ScalarLike, function: Callable[[Scalar, Scalar], Scalar]
) -> Scalar:
    a, b = match_dtypes(name, x, y)
    wide = _wide(_float(name, a).dtype)
    return hold_shared(function(let(a.astype(wide)), let(b.astype(wide)))).astype(a.dtype)


def _wide(dtype: DType) -> DType:
    return FLOAT64 if dtype == FLOAT64 else FLOAT32
