"""log, log2 and log1p.

x = 2**e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), so that log(x) = e ln 2 + log(1 + f), where
log(1 + f) = f - f²/2 + f³ p(f), p of least relative error. Near 1, e is 0 and nothing cancels.
"""

from __future__ import annotations

import math
import struct

from ansorc.codegen.vector_math.constants import LN2, LOG2_E, parts
from ansorc.codegen.vector_math.vector_writer import VectorWriter

LOG_TAIL = {
    32: (
        0.3333331672594706, -0.2500081044068473, 0.20002286305206865, -0.1662455316937325,
        0.14181190925600506, -0.13128761249308998, 0.1288165522007691, -0.07859603325259817,
    ),
    64: (
        0.3333333333333325, -0.24999999999987588, 0.2000000000002677, -0.16666666669894445,
        0.1428571428500811, -0.12499999689000381, 0.11111110858965398, -0.10000015086747709,
        0.09090933217382581, -0.08332924307057388, 0.0769135818806497, -0.07149125971376227,
        0.06686360615866195, -0.06201174660529199, 0.056597344783027914, -0.056456201409425186,
        0.06508242708390388, -0.060735007438213265, 0.02691881506569737,
    ),
}  # fmt: skip
"""(log(1 + f) - f + f²/2) / f³ by the format's bits; from bench/minimax.py."""


def log(w: VectorWriter, x: str) -> str:
    """Return the natural logarithm: -inf of 0, NaN of negative numbers."""
    normal, shift = normalized(w, x)
    e, f, _ = split_float(w, normal, shift)
    return _outside(w, x, _sum(w, e, f))


def log2(w: VectorWriter, x: str) -> str:
    """Return the logarithm to base 2, exact for powers of two."""
    normal, shift = normalized(w, x)
    e, f, _ = split_float(w, normal, shift)
    high, low = parts(LOG2_E, w.shape.mantissa + 1, w.shape.mantissa + 1)
    small = w.fma(f, w.number(low), w.mul(_tail(w, f), w.number(high)))
    return _outside(w, x, w.add(w.fma(f, w.number(high), small), e))


def log1p(w: VectorWriter, x: str) -> str:
    """Return log(1 + x) without losing what 1 + x drops: that is added to f."""
    one = w.number(1.0)
    total = w.add(x, one)
    added = w.sub(total, x)
    dropped = w.add(w.sub(x, w.sub(total, added)), w.sub(one, added))
    e, f, exponent = split_float(w, total, None)
    scale = w.power_of_two(w.bitwise("sub", w.integer(2 * w.shape.bias), exponent))
    counts = w.compare("olt", x, w.number(2.0 ** (w.shape.mantissa + 2)))
    f = w.add(f, w.select(counts, w.mul(dropped, scale), w.number(0.0)))
    result = _outside(w, total, _sum(w, e, f))
    is_tiny = w.compare("olt", w.call("fabs", x), w.number(2.0 ** -(w.shape.mantissa + 2)))
    return w.select(is_tiny, x, result)


def normalized(w: VectorWriter, x: str) -> tuple[str, str]:
    """Return a normal number x * 2**s, and s."""
    shift = w.shape.mantissa + 1
    is_small = w.compare("olt", x, w.number(2.0**w.shape.min_exponent))
    larger = w.mul(x, w.number(2.0**shift))
    zero = w.number(0.0)
    return w.select(is_small, larger, x), w.select(is_small, w.number(float(shift)), zero)


def split_float(w: VectorWriter, x: str, shift: str | None) -> tuple[str, str, str]:
    """Return e, less `shift`, and f of the normal positive number x, and the integer e + bias."""
    shape = w.shape
    root = _bits(shape.bits, math.sqrt(0.5))
    one = shape.bias << shape.mantissa
    moved = w.bitwise("add", w.to_bits(x), w.integer(one - root))
    exponent = w.bitwise("lshr", moved, w.integer(shape.mantissa))
    large = 2.0**shape.mantissa
    placed = w.from_bits(w.bitwise("or", exponent, w.integer(_bits(shape.bits, large))))
    e = w.sub(placed, w.number(large + shape.bias))
    e = e if shift is None else w.sub(e, shift)
    digits = w.bitwise("and", moved, w.integer((1 << shape.mantissa) - 1))
    mantissa = w.from_bits(w.bitwise("add", digits, w.integer(root)))
    return e, w.sub(mantissa, w.number(1.0)), exponent


def _sum(w: VectorWriter, e: str, f: str) -> str:
    high, low = parts(LN2, w.shape.mantissa - 10, w.shape.mantissa + 1)
    small = w.fma(e, w.number(low), _tail(w, f))
    return w.fma(e, w.number(high), w.add(f, small))


def _tail(w: VectorWriter, f: str) -> str:
    """Return log(1 + f) - f."""
    tail = w.polynomial(LOG_TAIL[w.shape.bits], f)
    return w.mul(w.mul(f, f), w.fma(f, tail, w.number(-0.5)))


def _outside(w: VectorWriter, x: str, result: str) -> str:
    """Return `result`, or the logarithm of what has none that is finite."""
    zero = w.number(0.0)
    result = w.select(w.compare("olt", x, w.number(math.inf)), result, x)
    result = w.select(w.compare("olt", x, zero), w.number(math.nan), result)
    return w.select(w.compare("oeq", x, zero), w.number(-math.inf), result)


def _bits(bits: int, value: float) -> int:
    return int.from_bytes(struct.pack("<f" if bits == 32 else "<d", value), "little")
