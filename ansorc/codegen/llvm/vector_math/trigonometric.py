"""sin and cos.

|x| = n pi/2 + r with |r| <= pi/4: n pi/2 is taken away in parts whose products are exact, or whose
rounding is as small as the last digit of r, and n mod 4 says which of sin(r) and cos(r) is meant
and with which sign. Lanes so large that the parts do not reach are computed by the C library.
"""

from __future__ import annotations

from ansorc.codegen.llvm.vector_math.constants import HALF_PI, parts
from ansorc.codegen.llvm.vector_math.vector_writer import VectorWriter

SIN_TAIL = {
    32: (
        -0.16666654926947874, 0.008332177027118137, -0.00019517141535161517,
    ),
    64: (
        -0.16666666666666632, 0.008333333333322398, -0.00019841269829794908,
        2.7557313687228524e-06, -2.505075735025782e-08, 1.5896749650738362e-10,
    ),
}  # fmt: skip
"""(sin(r) - r) / r³ of u = r² for |r| <= pi/4, by the format's bits; from bench/minimax.py."""

COS_TAIL = {
    32: (
        0.04166664683737927, -0.001388736603137491, 2.4438274914666446e-05,
    ),
    64: (
        0.0416666666666666, -0.0013888888888874103, 2.4801587289467876e-05,
        -2.7557314348030097e-07, 2.087572266664916e-09, -1.1359615327921667e-11,
    ),
}  # fmt: skip
"""(cos(r) - 1 + r²/2) / r⁴ of u = r² for |r| <= pi/4, likewise."""


def sin(w: VectorWriter, x: str) -> str:
    """Return the sine of x where |x| <= limit(w)."""
    result, quadrant = _turn(w, w.call("fabs", x), 0)
    sign = w.bitwise("xor", _sign(w, quadrant), w.sign_of(x))
    return w.flip_sign(result, sign)


def cos(w: VectorWriter, x: str) -> str:
    """Return the cosine of x where |x| <= limit(w)."""
    result, quadrant = _turn(w, w.call("fabs", x), 1)
    return w.flip_sign(result, _sign(w, quadrant))


def limit(w: VectorWriter) -> float:
    """The largest |x| that the parts of pi/2 reach."""
    if w.shape.has_fma:
        return 1e5 if w.shape.bits == 32 else 1e9
    return 1e4 if w.shape.bits == 32 else 1e6


def _turn(w: VectorWriter, size: str, quarters: int) -> tuple[str, str]:
    """Return |sin| of (`size` + `quarters` pi/2), and an integer whose bit 1 tells its sign."""
    n, bits = w.whole_product(size, float(1 / HALF_PI), quarters)
    r = size
    for part in _half_pi(w):
        r = w.fma(n, w.number(-part), r)
    u = w.mul(r, r)
    sine = w.fma(w.mul(r, u), w.polynomial(SIN_TAIL[w.shape.bits], u), r)
    tail = w.fma(w.polynomial(COS_TAIL[w.shape.bits], u), u, w.number(-0.5))
    cosine = w.fma(tail, u, w.number(1.0))
    return w.select(w.has_bit(bits, 1), cosine, sine), bits


def _half_pi(w: VectorWriter) -> list[float]:
    """With FMA only a sum rounds; else a product with n must leave room in the format."""
    digits = w.shape.mantissa + 1
    if w.shape.has_fma:
        return parts(HALF_PI, digits, digits, digits)
    short = digits - (13 if w.shape.bits == 32 else 20)
    return parts(HALF_PI, short, short, short, short if w.shape.bits == 32 else digits, digits)


def _sign(w: VectorWriter, quadrant: str) -> str:
    """Move bit 1 to the place of the sign."""
    bit = w.bitwise("and", quadrant, w.integer(2))
    return w.bitwise("shl", bit, w.integer(w.shape.bits - 2))
