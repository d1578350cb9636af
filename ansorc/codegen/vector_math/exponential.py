"""exp, exp2, expm1, sigmoid and tanh.

x = n ln 2 + r with an integer n and |r| <= ln(2) / 2, so that exp(x) = 2**n exp(r). n ln 2 is taken
away in two parts, the first of so few bits that its product is exact (Cody and Waite, "Software
Manual for the Elementary Functions", 1980). exp(r) - 1 = r + r² p(r), p of least relative error.
"""

from __future__ import annotations

from ansorc.codegen.vector_math.constants import LN2, LOG2_E, parts
from ansorc.codegen.vector_math.vector_writer import VectorWriter

EXP_TAIL = {
    32: (
        0.5000000061980256, 0.16666542921416047, 0.04166628170422782, 0.008366593568749274,
        0.00139464756953383,
    ),
    64: (
        0.5000000000000006, 0.16666666666666685, 0.04166666666657351, 0.008333333333314607,
        0.0013888888932418126, 0.0001984126990299489, 2.4801504396160342e-05,
        2.755722798561745e-06, 2.7626347210138445e-07, 2.511446367762303e-08,
    ),
}  # fmt: skip
"""(exp(r) - 1 - r) / r² for |r| <= ln(2) / 2, by the format's bits; from bench/minimax.py."""


def exp(w: VectorWriter, x: str) -> str:
    """Return e**x; it overflows to infinity and underflows gradually."""
    low, high = _range(w)
    x = w.at_least(w.at_most(x, high), low)
    _, number, power = _reduced(w, x, 2 * w.shape.bias)
    return scaled(w, w.add(power, w.number(1.0)), *number)


def exp2(w: VectorWriter, x: str) -> str:
    """Return 2**x, exact where x is an integer."""
    x = w.at_least(w.at_most(x, 1.01 * w.shape.bias), -1.2 * w.shape.bias)
    return exp2_of_sum(w, x, None)


def exp2_of_sum(w: VectorWriter, high: str, low: str | None) -> str:
    """Return 2**(high + low), |low| small; without `low`, 2**high."""
    n, bits = w.whole(high, 2 * w.shape.bias)
    rest = w.sub(high, n)
    rest = rest if low is None else w.add(rest, low)
    power = power_minus_one(w, w.mul(rest, w.number(float(LN2))))
    return scaled(w, w.add(power, w.number(1.0)), n, bits)


def expm1(w: VectorWriter, x: str) -> str:
    """Return e**x - 1 without cancellation.

    It is 2**n (exp(r) - 1) + (2**n - 1), in halves, because 2**n may be too large.
    """
    inside = w.at_least(w.at_most(x, _range(w)[1]), -0.8 * (w.shape.mantissa + 1))
    _, (_, bits), power = _reduced(w, inside, w.shape.bias - 1)
    half = w.power_of_two(bits)
    sum_of_halves = w.fma(half, power, w.sub(half, w.number(0.5)))
    is_tiny = w.compare("olt", w.call("fabs", x), w.number(2.0 ** -(w.shape.mantissa + 2)))
    return w.select(is_tiny, x, w.add(sum_of_halves, sum_of_halves))


def sigmoid(w: VectorWriter, x: str) -> str:
    """Return 1 / (1 + exp(-x)), for negative x as exp(x) / (1 + exp(x)): nothing overflows."""
    low, _ = _range(w)
    size = w.at_least(w.negated(w.call("fabs", x)), low)
    _, number, power = _reduced(w, size, 2 * w.shape.bias)
    one = w.number(1.0)
    raised = scaled(w, w.add(power, one), *number)
    is_negative = w.compare("olt", x, w.number(0.0))
    return w.div(w.select(is_negative, raised, one), w.add(raised, one))


def tanh(w: VectorWriter, x: str) -> str:
    """Return (exp(2 |x|) - 1) / (exp(2 |x|) + 1) with the sign of x."""
    size = w.at_most(w.call("fabs", x), 0.4 * (w.shape.mantissa + 2))
    power = _expm1_of_positive(w, w.add(size, size))
    return w.call("copysign", w.div(power, w.add(power, w.number(2.0))), x)


def exp_of_negative(w: VectorWriter, x: str) -> str:
    """Return e**x where the result is a normal number."""
    _, (_, bits), power = _reduced(w, x, w.shape.bias)
    return w.mul(w.add(power, w.number(1.0)), w.power_of_two(bits))


def power_minus_one(w: VectorWriter, r: str) -> str:
    """Return e**r - 1 for |r| <= ln(2) / 2."""
    tail = w.polynomial(EXP_TAIL[w.shape.bits], r)
    return w.fma(w.mul(r, r), tail, r)


def scaled(w: VectorWriter, value: str, n: str, bits: str) -> str:
    """Return value * 2**n rounded once; the low bits of `bits` are n + twice the format's bias."""
    shape = w.shape
    if shape.has_scale:
        return _vscalef(w, value, n)
    first = w.bitwise("lshr", bits, w.integer(1))
    second = w.bitwise("sub", bits, first)
    # The first product is exact: both factors are of moderate size.
    return w.mul(w.mul(value, w.power_of_two(first)), w.power_of_two(second))


def _expm1_of_positive(w: VectorWriter, x: str) -> str:
    _, (_, bits), power = _reduced(w, x, w.shape.bias)
    factor = w.power_of_two(bits)
    return w.fma(factor, power, w.sub(factor, w.number(1.0)))


def _range(w: VectorWriter) -> tuple[float, float]:
    """Beyond these e**x is zero and infinite."""
    return (-104.5, 89.0) if w.shape.bits == 32 else (-746.0, 710.0)


def _reduced(w: VectorWriter, x: str, bias: int) -> tuple[str, tuple[str, str], str]:
    """Return r, n (and bits that hold n + bias) and exp(r) - 1."""
    n, bits = w.whole_product(x, float(LOG2_E), bias)
    digits = w.shape.mantissa + 1
    high, low = parts(LN2, digits - 11, digits)
    r = w.fma(n, w.number(-high), x)
    r = w.fma(n, w.number(-low), r)
    return r, (n, bits), power_minus_one(w, r)


def _vscalef(w: VectorWriter, value: str, n: str) -> str:
    shape = w.shape
    kind, width = shape.float_type, shape.bits * shape.lanes
    name = f"@llvm.x86.avx512.mask.scalef.{'ps' if shape.bits == 32 else 'pd'}.{width}"
    mask = f"i{max(8, shape.lanes)}"
    rounding = ", i32 4" if width == 512 else ""
    kinds = f"{kind}, {kind}, {kind}, {mask}" + (", i32 immarg" if rounding else "")
    w.code.declarations[f"declare {kind} {name}({kinds})"] = None
    operands = f"{kind} {value}, {kind} {n}, {kind} zeroinitializer, {mask} -1{rounding}"
    return w.code.emit(f"call {kind} {name}({operands})")
