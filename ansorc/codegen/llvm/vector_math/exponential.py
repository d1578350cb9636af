"""exp, exp2, expm1, sigmoid and tanh.

x = n ln 2 + r with an integer n and |r| <= ln(2) / 2, so that exp(x) = 2**n exp(r). n ln 2 is taken
away in two parts, the first of so few bits that its product is exact (Cody and Waite, "Software
Manual for the Elementary Functions", 1980). exp(r) - 1 = r + r² p(r), p of least relative error.

Where an instruction looks numbers up in registers, n is a multiple of 1/16 or 1/8, r that much
smaller, and p of lower degree; 2**n is a power of 2 times one of 16 numbers (P. T. P. Tang,
"Table-driven implementation of the exponential function", 1989). Not for exp(x) - 1, which would
lose digits near 0.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache

from ansorc.codegen.llvm.vector_math.constants import LN2, LOG2_E, parts
from ansorc.codegen.llvm.vector_math.vector_writer import VectorWriter
from ansorc.codegen.llvm.vector_math.whole_registers import cut_to_one, look_up, scale_by_whole

EXP_TAIL = {
    (32, 1): (
        0.5000000061980256, 0.16666542921416047, 0.04166628170422782, 0.008366593568749274,
        0.00139464756953383,
    ),
    (64, 1): (
        0.5000000000000006, 0.16666666666666685, 0.04166666666657351, 0.008333333333314607,
        0.0013888888932418126, 0.0001984126990299489, 2.4801504396160342e-05,
        2.755722798561745e-06, 2.7626347210138445e-07, 2.511446367762303e-08,
    ),
    (32, 8): (0.5000647448558404, 0.16668231475030357),
    (32, 16): (0.5000161948100602, 0.166670578556407),
    (64, 16): (
        0.5000000000000006, 0.16666666664415594, 0.04166666665963074, 0.008333471993035454,
        0.00138891292628682,
    ),
}  # fmt: skip
"""(exp(r) - 1 - r) / r² for |r| <= ln(2) / 2, by the format's bits, or that part of it to which a
table of so many entries leads; from bench/minimax.py."""


def exp(w: VectorWriter, x: str) -> str:
    """Return e**x; it overflows to infinity and underflows gradually."""
    x = _clamp(w, x, *_range(w))
    r, n, bits = _reduce(w, x, 2 * w.shape.bias, w.shape.table)
    return scale(w, _power(w, _small(w, r), bits), n, bits)


def exp2(w: VectorWriter, x: str) -> str:
    """Return 2**x, exact where x is an integer."""
    return exp2_of_sum(w, _clamp(w, x, -1.2 * w.shape.bias, 1.01 * w.shape.bias), None)


def exp2_of_sum(w: VectorWriter, high: str, low: str | None) -> str:
    """Return 2**(high + low), |low| small; without `low`, 2**high."""
    n, bits = w.whole(high, 2 * w.shape.bias, w.shape.table)
    rest = w.sub(high, n)
    rest = _small(w, rest) if low is None else w.add(rest, low)
    return scale(w, _power(w, w.mul(rest, w.number(float(LN2))), bits), n, bits)


def expm1(w: VectorWriter, x: str) -> str:
    """Return e**x - 1 without cancellation.

    It is 2**n (exp(r) - 1) + (2**n - 1), in halves, because 2**n may be too large.
    """
    inside = w.at_least(w.at_most(x, _range(w)[1]), -0.8 * (w.shape.mantissa + 1))
    r, _, bits = _reduce(w, inside, w.shape.bias - 1)
    half = w.power_of_two(bits)
    sum_of_halves = w.fma(half, _power_minus_one(w, r), w.sub(half, w.number(0.5)))
    is_tiny = w.compare("olt", w.call("fabs", x), w.number(2.0 ** -(w.shape.mantissa + 2)))
    return w.select(is_tiny, x, w.add(sum_of_halves, sum_of_halves))


def sigmoid(w: VectorWriter, x: str) -> str:
    """Return 1 / (1 + exp(-x)), for negative x as exp(x) / (1 + exp(x)): nothing overflows."""
    low, _ = _range(w)
    size = w.at_least(w.negate(w.call("fabs", x)), low)
    r, n, bits = _reduce(w, size, 2 * w.shape.bias, w.shape.table)
    one = w.number(1.0)
    raised = scale(w, _power(w, r, bits), n, bits)
    is_negative = w.compare("olt", x, w.number(0.0))
    return w.div(w.select(is_negative, raised, one), w.add(raised, one))


def tanh(w: VectorWriter, x: str) -> str:
    """Return (exp(2 |x|) - 1) / (exp(2 |x|) + 1) with the sign of x."""
    size = w.at_most(w.call("fabs", x), 0.4 * (w.shape.mantissa + 2))
    power = _expm1_of_positive(w, w.add(size, size))
    return w.call("copysign", w.div(power, w.add(power, w.number(2.0))), x)


def exp_of_negative(w: VectorWriter, x: str) -> str:
    """Return e**x where the result is a normal number."""
    r, _, bits = _reduce(w, x, w.shape.bias, w.shape.table)
    return w.mul(_power(w, r, bits), w.power_of_two(_without_fraction(w, bits)))


def scale(w: VectorWriter, value: str, n: str, bits: str) -> str:
    """Return value * 2**floor(n), rounded once.

    The low bits of `bits` are n + twice the format's bias, times the entries of the table.
    """
    if w.shape.has_scale:
        return scale_by_whole(w, value, n)
    bits = _without_fraction(w, bits)
    first = w.bitwise("lshr", bits, w.integer(1))
    second = w.bitwise("sub", bits, first)
    # The first product is exact: both factors are of moderate size.
    return w.mul(w.mul(value, w.power_of_two(first)), w.power_of_two(second))


def _clamp(w: VectorWriter, x: str, low: float, high: float) -> str:
    """Return `x`, not beyond these bounds unless `scale` takes an n of any size."""
    return x if w.shape.has_scale else w.at_least(w.at_most(x, high), low)


def _small(w: VectorWriter, r: str) -> str:
    """Return `r`, at most 1 if it is what is left of a number beyond the bounds: n alone counts."""
    return cut_to_one(w, r) if w.shape.has_scale else r


def _power(w: VectorWriter, r: str, bits: str) -> str:
    """Return e**r times 2 to the fraction of n, which the lowest of `bits` number."""
    power = _power_minus_one(w, r, w.shape.table)
    if w.shape.table == 1:
        return w.add(power, w.number(1.0))
    root = look_up(w, _roots_of_two(w.shape.table), bits)
    return w.fma(root, power, root)


def _power_minus_one(w: VectorWriter, r: str, steps: int = 1) -> str:
    """Return e**r - 1 for |r| <= ln(2) / 2 / steps."""
    tail = w.polynomial(EXP_TAIL[w.shape.bits, steps], r)
    return w.fma(w.mul(r, r), tail, r)


def _expm1_of_positive(w: VectorWriter, x: str) -> str:
    r, _, bits = _reduce(w, x, w.shape.bias)
    factor = w.power_of_two(bits)
    return w.fma(factor, _power_minus_one(w, r), w.sub(factor, w.number(1.0)))


def _range(w: VectorWriter) -> tuple[float, float]:
    """Beyond these e**x is zero and infinite."""
    return (-104.5, 89.0) if w.shape.bits == 32 else (-746.0, 710.0)


def _reduce(w: VectorWriter, x: str, bias: int, steps: int = 1) -> tuple[str, str, str]:
    """Return r, n, a multiple of 1 / steps, and bits whose lowest are (n + bias) * steps."""
    n, bits = w.whole_product(x, float(LOG2_E), bias, steps)
    digits = w.shape.mantissa + 1
    high, low = parts(LN2, digits - 11, digits)
    r = w.fma(n, w.number(-high), x)
    return w.fma(n, w.number(-low), r), n, bits


def _without_fraction(w: VectorWriter, bits: str) -> str:
    places = w.shape.table.bit_length() - 1
    return w.bitwise("lshr", bits, w.integer(places)) if places else bits


@cache
def _roots_of_two(count: int) -> tuple[float, ...]:
    """Return 2**(k / count) for k < count, correctly rounded."""
    return tuple(float(Decimal(2) ** (Decimal(k) / count)) for k in range(count))
