"""log, log2 and log1p.

x = 2**e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), so that log(x) = e ln 2 + log(1 + f), where
log(1 + f) = f - f²/2 + f³ p(f), p of least relative error. Near 1, e is 0 and nothing cancels.

Where an instruction finds one of 16 numbers for each lane, c near 1 / (1 + f) and -log(c) are
looked up, and log(1 + f) = -log(c) + log(1 + r) with r = c (1 + f) - 1, at most 1/32. c is such
that -log(c) is nearly a number of the format (S. Gal, "Computing elementary functions", 1986); near
1 it is 1.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from ansorc.codegen.llvm.vector_math.constants import LN2, LOG2_E, parts
from ansorc.codegen.llvm.vector_math.double_length import fast_sum
from ansorc.codegen.llvm.vector_math.vector_writer import VectorWriter
from ansorc.codegen.llvm.vector_math.whole_registers import look_up

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

LOG_PART = {
    32: (-0.4999999506717351, 0.3333332442373912, -0.2502031724857317, 0.20023087292174305),
    64: (
        -0.49999999999999684, 0.33333333333332266, -0.25000000004355455, 0.20000000008595403,
        -0.1666665057335556, 0.14285691677175202, -0.12521988560922373, 0.11135282980416647,
    ),
}  # fmt: skip
"""(log(1 + r) - r) / r² for |r| <= 1/32 by the format's bits; from bench/minimax.py."""

INVERSES = {
    32: (
        (
            1.3914119, 1.33309472, 1.27991521, 1.23063624, 1.18511927, 1.14290822, 1.10336125,
            1.06655967, 1.03230762, 1.0, 0.941035807, 0.888807893, 0.842035592, 0.799879432,
            0.761923254, 0.727196634,
        ),
        (
            -0.330318987, -0.287503093, -0.246793836, -0.207531303, -0.16984342, -0.13357608,
            -0.0983612016, -0.0644382089, -0.0317967087, 0.0, 0.0607740879, 0.11787416,
            0.171932995, 0.223294273, 0.271909446, 0.318558365,
        ),
    ),
    64: (
        (
            1.391304219769233, 1.333333025065561, 1.2800004363246262, 1.2307689034093459,
            1.1851851097480566, 1.142856969631144, 1.103448919405968, 1.0666671579393248,
            1.0322578875648398, 1.0, 0.9411763187826556, 0.8888887240447931, 0.8421052098396773,
            0.799999794876203, 0.7619050077739216, 0.7272725277368657,
        ),
        (
            -0.3302415948297088, -0.287681841250925, -0.24686041881008194, -0.20763909879830264,
            -0.16989897314531818, -0.13353124105176206, -0.09844065602474096, -0.06453898170558207,
            -0.03174852689300419, 0.0, 0.060624783109876255, 0.11778322110600838,
            0.17185032024204444, 0.2231438077189889, 0.2719333927804218, 0.31845400548038194,
        ),
    ),
}  # fmt: skip
"""c and -log(c) for 16 parts of 45/64 to 45/32, by the format's bits; from bench/minimax.py."""


ROOT_HALF = math.sqrt(0.5)


class FloatParts(NamedTuple):
    """The parts of a number."""

    e: str
    mantissa: str
    exponent: str
    """The integer e + bias."""
    digits: str
    """Integers whose lowest bits, as many as the mantissa has, count from the least mantissa."""


class Mantissa(NamedTuple):
    """The parts of the logarithm of a mantissa: base + log(1 + rest)."""

    base: str | None
    rest: str


def log(w: VectorWriter, x: str) -> str:
    """Return the natural logarithm: -inf of 0, NaN of negative numbers."""
    normal, shift = normalize(w, x)
    split = split_float(w, normal, shift, least_mantissa(w))
    return _outside(w, x, _sum(w, split.e, _mantissa(w, split, None)))


def log2(w: VectorWriter, x: str) -> str:
    """Return the logarithm to base 2, exact for powers of two."""
    normal, shift = normalize(w, x)
    split = split_float(w, normal, shift, least_mantissa(w))
    base, large = _mantissa(w, split, None)
    tail = _tail(w, large)
    if base is not None:
        large, error = fast_sum(w, base, large)
        tail = w.add(tail, error)
    high, low = parts(LOG2_E, w.shape.mantissa + 1, w.shape.mantissa + 1)
    small = w.fma(large, w.number(low), w.mul(tail, w.number(high)))
    return _outside(w, x, w.add(w.fma(large, w.number(high), small), split.e))


def log1p(w: VectorWriter, x: str) -> str:
    """Return log(1 + x) without losing what 1 + x drops: that is added to the mantissa."""
    one = w.number(1.0)
    total = w.add(x, one)
    added = w.sub(total, x)
    dropped = w.add(w.sub(x, w.sub(total, added)), w.sub(one, added))
    split = split_float(w, total, None, least_mantissa(w))
    scale = w.power_of_two(w.bitwise("sub", w.integer(2 * w.shape.bias), split.exponent))
    counts = w.compare("olt", x, w.number(2.0 ** (w.shape.mantissa + 2)))
    mantissa = _mantissa(w, split, w.select(counts, w.mul(dropped, scale), w.number(0.0)))
    result = _outside(w, total, _sum(w, split.e, mantissa))
    is_tiny = w.compare("olt", w.call("fabs", x), w.number(2.0 ** -(w.shape.mantissa + 2)))
    return w.select(is_tiny, x, result)


def normalize(w: VectorWriter, x: str) -> tuple[str, str]:
    """Return a normal number x * 2**s, and s."""
    shift = w.shape.mantissa + 1
    is_small = w.compare("olt", x, w.number(2.0**w.shape.min_exponent))
    larger = w.mul(x, w.number(2.0**shift))
    zero = w.number(0.0)
    return w.select(is_small, larger, x), w.select(is_small, w.number(float(shift)), zero)


def split_float(w: VectorWriter, x: str, shift: str | None, least: float) -> FloatParts:
    """Return the parts of the normal positive number x, e less `shift`, the mantissa >= `least`."""
    shape = w.shape
    first, one = _bits(shape.bits, least), shape.bias << shape.mantissa
    moved = w.bitwise("add", w.to_bits(x), w.integer(one - first))
    exponent = w.bitwise("lshr", moved, w.integer(shape.mantissa))
    large = 2.0**shape.mantissa
    placed = w.from_bits(w.bitwise("or", exponent, w.integer(_bits(shape.bits, large))))
    e = w.sub(placed, w.number(large + shape.bias))
    e = e if shift is None else w.sub(e, shift)
    digits = w.bitwise("and", moved, w.integer((1 << shape.mantissa) - 1))
    mantissa = w.from_bits(w.bitwise("add", digits, w.integer(first)))
    return FloatParts(e, mantissa, exponent, moved)


def least_mantissa(w: VectorWriter) -> float:
    """Return the mantissa with which the table of inverses begins, or one to balance logarithms."""
    return 45 / 64 if has_inverses(w) else ROOT_HALF


def has_inverses(w: VectorWriter) -> bool:
    """Whether `inverse` can look up what is near 1 / mantissa."""
    return len(INVERSES[w.shape.bits][0]) == w.shape.table


def inverse(w: VectorWriter, split: FloatParts) -> tuple[str, str]:
    """Return c near 1 / mantissa, and -log(c)."""
    part = w.bitwise("lshr", split.digits, w.integer(w.shape.mantissa - 4))
    factors, logarithms = INVERSES[w.shape.bits]
    return look_up(w, factors, part), look_up(w, logarithms, part)


def _mantissa(w: VectorWriter, split: FloatParts, added: str | None) -> Mantissa:
    """Return the parts of the logarithm of the mantissa, to which `added` is added."""
    if not has_inverses(w):
        rest = w.sub(split.mantissa, w.number(1.0))
        return Mantissa(None, rest if added is None else w.add(rest, added))
    factor, base = inverse(w, split)
    rest = w.fma(split.mantissa, factor, w.number(-1.0))
    return Mantissa(base, rest if added is None else w.fma(added, factor, rest))


def _sum(w: VectorWriter, e: str, mantissa: Mantissa) -> str:
    high, low = parts(LN2, w.shape.mantissa - 10, w.shape.mantissa + 1)
    base, rest = mantissa
    small = w.add(rest, w.fma(e, w.number(low), _tail(w, rest)))
    if base is None:
        return w.fma(e, w.number(high), small)
    return w.add(w.fma(e, w.number(high), base), small)


def _tail(w: VectorWriter, f: str) -> str:
    """Return log(1 + f) - f."""
    square = w.mul(f, f)
    if has_inverses(w):
        return w.mul(square, w.polynomial(LOG_PART[w.shape.bits], f))
    tail = w.polynomial(LOG_TAIL[w.shape.bits], f)
    return w.mul(square, w.fma(f, tail, w.number(-0.5)))


def _outside(w: VectorWriter, x: str, result: str) -> str:
    """Return `result`, or the logarithm of what has none that is finite."""
    zero = w.number(0.0)
    result = w.select(w.compare("olt", x, w.number(math.inf)), result, x)
    result = w.select(w.compare("olt", x, zero), w.number(math.nan), result)
    return w.select(w.compare("oeq", x, zero), w.number(-math.inf), result)


def _bits(bits: int, value: float) -> int:
    return int.from_bytes(struct.pack("<f" if bits == 32 else "<d", value), "little")
