"""Trigonometric and hyperbolic functions, of those that the IR has; within a few units in the last
place of a float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ansorc.ir.dtype import FLOAT64
from ansorc.lang.scalar import (
    abs,
    all_of,
    any_of,
    const,
    cos,
    equal,
    exp,
    expm1,
    if_then_else,
    log,
    log1p,
    not_equal,
    sin,
    sqrt,
)
from ansorc.lang.scalar_type import Scalar

_LARGE = 1e8
"""From here on x^2 + 1 is x^2."""
_TERMS, _TERMS_OF_FLOAT64 = 10, 20
"""Terms of the series of atan up to tan(pi / 8): the rest is below 1e-10, and below 1e-17."""


def _tan(x: Scalar) -> Scalar:
    return sin(x) / cos(x)


def _atan(x: Scalar) -> Scalar:
    size = abs(x)
    is_large, is_middle = size > math.tan(3 * math.pi / 8), size > math.tan(math.pi / 8)
    inverse = const(-1.0, x.dtype) / size
    part = if_then_else(is_middle, (size - 1.0) / (size + 1.0), size)
    part = if_then_else(is_large, inverse, part)
    begin = if_then_else(is_middle, const(math.pi / 4, x.dtype), const(0.0, x.dtype))
    begin = if_then_else(is_large, const(math.pi / 2, x.dtype), begin)
    return _with_sign(begin + _atan_series(part), x)


def _atan_series(x: Scalar) -> Scalar:
    """x - x^3 / 3 + x^5 / 5 - …, for |x| up to tan(pi / 8)."""
    terms = _TERMS_OF_FLOAT64 if x.dtype == FLOAT64 else _TERMS
    square = x * x
    total: Scalar = const((-1.0) ** terms / (2 * terms + 1), x.dtype)
    for n in reversed(range(1, terms)):
        total = total * square + (-1.0) ** n / (2 * n + 1)
    return x + x * (square * total)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """Return the angle of the point (x, y), from -pi to pi."""
    kind = x.dtype
    pi = const(math.pi, kind)
    is_steep = abs(y) > abs(x)
    lies_on_axis = equal(if_then_else(is_steep, y, x), 0)
    share = if_then_else(is_steep, x, y) / if_then_else(
        lies_on_axis, const(1.0, kind), if_then_else(is_steep, y, x)
    )
    is_diagonal = all_of(equal(abs(x), abs(y)), not_equal(x, 0))  # also of infinities
    diagonal = if_then_else(equal(x, y), const(1.0, kind), const(-1.0, kind))
    angle = _atan(if_then_else(is_diagonal, diagonal, share))
    upright = _with_sign(pi * 0.5, y) - angle
    level = if_then_else(_is_negative(x), angle + copysign(pi, y), copysign(angle, y))
    return if_then_else(is_steep, upright, level)


def copysign(size: Scalar, of: Scalar) -> Scalar:
    """Return |size| with the sign of `of`, also with that of a zero."""
    return if_then_else(_is_negative(of), -abs(size), abs(size))


def _is_negative(x: Scalar) -> Scalar:
    return any_of(x < 0, all_of(equal(x, 0), 1.0 / x < 0))


def _asin(x: Scalar) -> Scalar:
    return _atan(x / sqrt((1.0 - x) * (1.0 + x)))


def _acos(x: Scalar) -> Scalar:
    return _atan(sqrt((1.0 - x) / (1.0 + x))) * 2.0


def _sinh(x: Scalar) -> Scalar:
    size = abs(x)
    power, half = expm1(size), exp(size * 0.5)  # whose square overflows after sinh only
    near = (power + power / (power + 1.0)) * 0.5
    return _with_sign(if_then_else(size > 20.0, half * 0.5 * half, near), x)


def _cosh(x: Scalar) -> Scalar:
    half = exp(abs(x) * 0.5)
    return half * 0.5 * half + 0.5 / half / half


def _asinh(x: Scalar) -> Scalar:
    size = abs(x)
    near = log1p(size + size * size / (sqrt(size * size + 1.0) + 1.0))
    return _with_sign(if_then_else(size > _LARGE, log(size) + math.log(2.0), near), x)


def _acosh(x: Scalar) -> Scalar:
    beyond = x - 1.0  # two roots: a root of the product is a number for x below -1 too
    near = log1p(beyond + sqrt(beyond) * sqrt(beyond + 2.0))
    return if_then_else(x > _LARGE, log(x) + math.log(2.0), near)


def _atanh(x: Scalar) -> Scalar:
    size = abs(x)
    return _with_sign(log1p(size * 2.0 / (1.0 - size)) * 0.5, x)


def _with_sign(size: Scalar, of: Scalar) -> Scalar:
    """Return `size` with the sign of `of`, and `of` itself where it is a zero."""
    return if_then_else(of < 0, 0 - size, if_then_else(equal(of, 0), of, size))


TRIGONOMETRIC: Mapping[str, Callable[[Scalar], Scalar]] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _asin,
    "asinh": _asinh,
    "atan": _atan,
    "atanh": _atanh,
    "cosh": _cosh,
    "sinh": _sinh,
    "tan": _tan,
}
