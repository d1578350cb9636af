"""Fourier transforms of any length, of complex numbers as pairs of tensors.

A length with small prime factors is transformed by one stage for each radix (Stockham's order: each
stage writes its digit of the frequency in front of those before it, so that no bits are reversed).
Other lengths are convolutions of a power of two (Bluestein, 1970).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ansorc.errors import LanguageError
from ansorc.ir.dtype import FLOAT32, FLOAT64, DType
from ansorc.lang.complex_functions import imag as imaginary_part
from ansorc.lang.complex_functions import real as real_part
from ansorc.lang.define import compute, compute_tuple, interleave
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import require
from ansorc.lang.scalar import const, cos, if_then_else, minimum, sin
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import ComplexTensor, Tensor

_FFT, _IFFT, _RFFT = AutoName("fft"), AutoName("ifft"), AutoName("rfft")
_RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
"""The lengths of the transforms in a stage, in the order in which they are taken out."""
_FORWARD, _INVERSE = -1.0, 1.0
"""The sign of the angle."""
Pair = tuple[Tensor, Tensor]
"""The real and the imaginary parts of complex numbers."""


def fft(real: Tensor, imaginary: Tensor | None = None, name: str = _FFT) -> Any:
    """Return the Fourier transform [..., n] of complex numbers [..., n] along the last axis.

    Numbers are a complex tensor, and so is the result; or they are pairs of tensors, float32 or
    float64, and the result is such a pair; without `imaginary` they are real. The result at f is
    the sum over t of x[t] exp(-2 pi i f t / n), as `numpy.fft.fft` has it. Raise LanguageError on
    other dtypes and shapes.
    """
    parts = _check("fft", real, imaginary, name)
    pair = _transform(*parts, _FORWARD, name)
    return interleave(name, pair) if isinstance(real, ComplexTensor) else pair


def ifft(real: Tensor, imaginary: Tensor | None = None, name: str = _IFFT) -> Any:
    """Return the inverse of `fft`, divided by n, along the last axis; see `fft`.

    Raise LanguageError as it does.
    """
    parts = _check("ifft", real, imaginary, name)
    pair = _transform(*parts, _INVERSE, name, scale=1.0 / real.shape[-1])
    return interleave(name, pair) if isinstance(real, ComplexTensor) else pair


def rfft(real: Tensor, name: str = _RFFT) -> Pair:
    """Return the Fourier transform [..., n // 2 + 1] of real numbers [..., n]; see `fft`.

    The frequencies that are left out are the conjugates of those that are there. Raise
    LanguageError as `fft` does.
    """
    require(not isinstance(real, ComplexTensor), "rfft", real, need="it takes real numbers")
    _check("rfft", real, None, name)
    return _transform(real, None, _FORWARD, name, count=real.shape[-1] // 2 + 1)


def _check(
    what: str, real: Tensor, imaginary: Tensor | None, name: str
) -> tuple[Tensor, Tensor | None]:
    """Return the real and the imaginary parts of the operands of `what`.

    Raise LanguageError for dtypes and shapes that it does not take.
    """
    if isinstance(real, ComplexTensor):
        need = "a complex tensor has its imaginary parts; leave out the other"
        require(imaginary is None, what, real, need=need)
        return real.planes or _split(real, name)
    fits = real.dtype in (FLOAT32, FLOAT64) and len(real.shape) > 0
    require(fits, what, real, need="it takes float32 or float64 along the last axis")
    if imaginary is not None and (imaginary.shape, imaginary.dtype) != (real.shape, real.dtype):
        raise LanguageError(
            f"{what} takes real and imaginary parts of one shape and dtype, not {real!r} and "
            f"{imaginary!r}"
        )
    return real, imaginary


def _split(data: ComplexTensor, name: str) -> Pair:
    """Return the real and the imaginary parts of a complex tensor."""
    first, second = (
        compute(data.shape, lambda *i, part=part: part(data[i]), stage_name(name, words))
        for part, words in ((real_part, "real"), (imaginary_part, "imag"))
    )
    return first, second


def _transform(
    real: Tensor, imaginary: Tensor | None, sign: float, name: str, *, scale: float = 1.0,
    count: int | None = None,
) -> Pair:  # fmt: skip
    """Return the first `count` frequencies of a transform, times `scale`."""
    radices = _radices(real.shape[-1])
    if radices is None:
        return _by_convolution(real, imaginary, sign, name, scale, count)
    return _in_order(
        _stages(real, imaginary, radices, sign, name), real.shape, radices, name, scale, count
    )


def _radices(length: int) -> list[int] | None:
    """Return the radices of the stages; None if the length has a large prime factor."""
    found: list[int] = []
    rest = length
    for radix in _RADICES:
        while rest % radix == 0:
            found.append(radix)
            rest //= radix
    return found if rest == 1 else None


def _stages(
    real: Tensor, imaginary: Tensor | None, radices: Sequence[int], sign: float, name: str
) -> Pair:
    """Return the transforms [..., 1, d...] of [..., n], with the digits d of the frequency."""
    *batch, rest = real.shape
    re, im = real, imaginary
    digits: list[int] = []
    for number, radix in enumerate(radices):
        rest //= radix
        table = _roots(
            [radix, radix, *digits], sign, stage_name(name, f"roots{number}"), real.dtype
        )
        digits = [radix, *digits]
        re, im = _stage((re, im), table, (*batch, rest, *digits), len(batch), number, name)
    assert im is not None or not radices
    return re, im if im is not None else _zeros(re, name)


def _zeros(like: Tensor, name: str) -> Tensor:
    zero = const(0.0, like.dtype)
    return compute_tuple(like.shape, lambda *_: (zero,), [stage_name(name, "zeros")])[0]


def _stage(
    data: tuple[Tensor, Tensor | None], table: Pair, shape: tuple[int, ...], batch: int,
    number: int, name: str,
) -> Pair:  # fmt: skip
    """Return the transforms of one radix, whose digit comes in front of the others.

    [..., r * m, d...] -> [..., m, r, d...]
    """
    re, im = data
    rest, radix = shape[batch], shape[batch + 1]

    def body(*index: Scalar) -> tuple[Scalar, Scalar]:
        before, (place, digit, *others) = index[:batch], index[batch:]
        total_re = total_im = const(0.0, re.dtype)
        for term in range(radix):
            at = (*before, place + term * rest, *(others if number else ()))
            x = re[at], None if im is None else im[at]
            w = table[0][(term, digit, *others)], table[1][(term, digit, *others)]
            if term == 0:
                total_re, total_im = x[0], const(0.0, re.dtype) if x[1] is None else x[1]
                continue
            total_re, total_im = total_re + x[0] * w[0], total_im + x[0] * w[1]
            if x[1] is not None:
                total_re, total_im = total_re - x[1] * w[1], total_im + x[1] * w[0]
        return total_re, total_im

    names = [stage_name(name, f"{part}{number}") for part in ("re", "im")]
    first, second = compute_tuple(shape, body, names)
    return first, second


def _roots(shape: Sequence[int], sign: float, name: str, dtype: DType) -> Pair:
    """Return the factors [r, r, d...] of term a and digits k, d..., computed in float64."""
    length = math.prod(shape[1:])

    def body(term: Scalar, *digits: Scalar) -> tuple[Scalar, Scalar]:
        frequency = digits[0]
        for digit, extent in zip(digits[1:], shape[2:], strict=True):
            frequency = frequency * extent + digit
        share = ((term * frequency) % length).astype(FLOAT64)
        angle = share * (2.0 * math.pi / length)
        return cos(angle).astype(dtype), (sin(angle) * sign).astype(dtype)

    first, second = compute_tuple(tuple(shape), body, [f"{name}.cos", f"{name}.sin"])
    return first, second


def _in_order(
    data: Pair, shape: tuple[int, ...], radices: Sequence[int], name: str, scale: float,
    count: int | None,
) -> Pair:  # fmt: skip
    """Return [..., 1, d...] as [..., count], times `scale`."""
    *batch, length = shape

    def body(*index: Scalar) -> tuple[Scalar, ...]:
        *before, frequency = index
        digits: list[Scalar] = []
        left: Scalar = frequency
        for radix in radices[:-1]:
            digits.append(left % radix)
            left = left // radix
        digits.append(left)
        at = (*before, 0, *reversed(digits)) if radices else (*before, frequency)
        parts = data[0][at], data[1][at]
        return parts if scale == 1.0 else tuple(part * scale for part in parts)

    first, second = compute_tuple(
        (*batch, length if count is None else count), body, [f"{name}.re", f"{name}.im"]
    )
    return first, second


def _by_convolution(
    real: Tensor, imaginary: Tensor | None, sign: float, name: str, scale: float,
    count: int | None,
) -> Pair:  # fmt: skip
    """Return a transform of any length n by two of a power of two from 2 n - 1 on.

    f t = (f^2 + t^2 - (f - t)^2) / 2, so the transform is a convolution with exp(i pi t^2 / n),
    between two products with its conjugate.
    """
    *batch, length = real.shape
    size = 1 << (2 * length - 2).bit_length()
    chirp = _chirp(length, sign, stage_name(name, "chirp"), real.dtype)
    weighted = _weighted((real, imaginary), chirp, size, stage_name(name, "weighted"))
    kernel = _kernel(chirp, size, stage_name(name, "kernel"))
    there = _transform(*weighted, _FORWARD, stage_name(name, "there"))
    factors = _transform(*kernel, _FORWARD, stage_name(name, "factors"))
    product = _multiply(there, factors, (*batch, size), stage_name(name, "product"))
    back = _transform(*product, _INVERSE, stage_name(name, "back"), scale=scale / size)
    return _multiply(back, chirp, (*batch, length if count is None else count), name)


def _multiply(left: Pair, right: Pair, shape: tuple[int, ...], name: str) -> Pair:
    """Return the first elements of `left` [..., m] times those of `right` [n], of a shape."""

    def body(*index: Scalar) -> tuple[Scalar, Scalar]:
        x, y = (left[0][index], left[1][index]), (right[0][index[-1]], right[1][index[-1]])
        return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]

    first, second = compute_tuple(shape, body, [f"{name}.re", f"{name}.im"])
    return first, second


def _weighted(data: tuple[Tensor, Tensor | None], chirp: Pair, size: int, name: str) -> Pair:
    """Return the numbers [..., n] times `chirp` [n], and zeros behind them up to `size`."""
    real, imaginary = data
    *batch, length = real.shape
    zero = const(0.0, real.dtype)

    def body(*index: Scalar) -> tuple[Scalar, Scalar]:
        *before, t = index
        at, inside = (*before, minimum(t, length - 1)), t < length
        w = chirp[0][at[-1]], chirp[1][at[-1]]
        re, im = real[at] * w[0], real[at] * w[1]
        if imaginary is not None:
            re, im = re - imaginary[at] * w[1], im + imaginary[at] * w[0]
        return if_then_else(inside, re, zero), if_then_else(inside, im, zero)

    first, second = compute_tuple((*batch, size), body, [f"{name}.re", f"{name}.im"])
    return first, second


def _kernel(chirp: Pair, size: int, name: str) -> Pair:
    """Return the conjugate of `chirp` [n] as a circle of `size`, the same in both directions."""
    length, zero = chirp[0].shape[0], const(0.0, chirp[0].dtype)

    def body(t: Scalar) -> tuple[Scalar, Scalar]:
        distance = minimum(t, size - t)
        inside, place = distance < length, minimum(distance, length - 1)
        re, im = chirp[0][place], -chirp[1][place]
        return if_then_else(inside, re, zero), if_then_else(inside, im, zero)

    first, second = compute_tuple((size,), body, [f"{name}.re", f"{name}.im"])
    return first, second


def _chirp(length: int, sign: float, name: str, dtype: DType) -> Pair:
    """Return exp(sign pi i t^2 / n) for t below n."""

    def body(t: Scalar) -> tuple[Scalar, Scalar]:
        angle = ((t * t) % (2 * length)).astype(FLOAT64) * (math.pi / length)
        return cos(angle).astype(dtype), (sin(angle) * sign).astype(dtype)

    first, second = compute_tuple((length,), body, [f"{name}.cos", f"{name}.sin"])
    return first, second
