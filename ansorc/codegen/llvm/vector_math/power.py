"""pow(x, y) = 2**(y log2(x)), the logarithm with so many digits that its error does not grow.

Of float32 it is computed in float64. Of float64 the logarithm is a sum of two floats: with
s = f / (2 + f) it is (2 / ln 2) (s + s³/3 + s⁵ p(s²)) + e, the first two terms in double length.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ansorc.codegen.llvm.vector_math.constants import LOG2_E, parts
from ansorc.codegen.llvm.vector_math.double_length import Pair, fast_sum, pair_product, product
from ansorc.codegen.llvm.vector_math.exponential import exp2_of_sum
from ansorc.codegen.llvm.vector_math.logarithm import (
    ROOT_HALF,
    FloatParts,
    has_inverses,
    inverse,
    least_mantissa,
    normalize,
    split_float,
)
from ansorc.codegen.llvm.vector_math.vector_writer import VectorWriter

LOG2_RATIO = (
    1.4426950409393442, -0.7213475252139363, 0.4808983207308942, -0.3606728004717066,
    0.2885406433876394, -0.24050417652481382, 0.20609626351893023, -0.17904692464439517,
    0.15900138261125468, -0.15698231268502486, 0.15485812728015053, -0.08634658991128642,
)  # fmt: skip
"""log2(1 + f) / f for sqrt(1/2) <= 1 + f <= sqrt(2), to 33 bits; from bench/minimax.py."""

LOG_RATIO = (
    1.0000000000041693, -0.5000000000114052, 0.33333325653232077, -0.2499999009708766,
    0.20020955248873545, -0.16687611607407674,
)  # fmt: skip
"""log(1 + r) / r for |r| <= 1/32, to 37 bits; from bench/minimax.py."""

ATANH_TAIL = (
    0.20000000000001128, 0.14285714285050038, 0.11111111259911621, 0.09090892188322654,
    0.07693378429549108, 0.06628414722480766, 0.06598107102548627,
)  # fmt: skip
"""(atanh(s) / s - 1 - s²/3) / s⁴ of s² for s <= 3 - sqrt(8); from bench/minimax.py."""


def pow(w: VectorWriter, x: str, y: str) -> str:
    """Return x**y, with all the special cases of C99 (annex F.9.4.4)."""
    size = w.call("fabs", x)
    result = _power32(w, size, y) if w.shape.bits == 32 else _power64(w, size, y)
    half = w.mul(y, w.number(0.5))
    is_whole = w.compare("oeq", w.call("floor", y), y)
    is_odd = w.both(is_whole, w.compare("une", w.call("floor", half), half))
    result = w.flip_sign(result, w.select_bits(is_odd, w.sign_of(x), w.integer(0)))
    infinity, one = w.number(math.inf), w.number(1.0)
    is_negative = w.both(w.compare("olt", x, w.number(0.0)), w.compare("one", size, infinity))
    has_root = w.compare("une", w.call("floor", y), y)
    result = w.select(w.both(is_negative, has_root), w.number(math.nan), result)
    is_limit = w.both(w.compare("oeq", size, one), w.compare("oeq", w.call("fabs", y), infinity))
    is_one = w.either(w.compare("oeq", x, one), w.compare("oeq", y, w.number(0.0)))
    return w.select(w.either(is_one, is_limit), one, result)


def _power32(w: VectorWriter, size: str, y: str) -> str:
    """Leave float32 for the logarithm and its product with y, whose fraction is exact enough."""
    d = w.double()
    normal, shift = normalize(w, size)
    split = split_float(w, normal, shift, least_mantissa(w))
    e, factor = (w.widen(part) for part in (_at_ends(w, size, split.e), y))
    total = d.mul(factor, _log2_of_mantissa(w, split, e))
    bounded = d.at_least(d.at_most(total, 140.0), -160.0)
    n, _ = d.whole(bounded, 0, w.shape.table)
    return exp2_of_sum(w, w.narrow(n), w.narrow(d.sub(bounded, n)))


def _log2_of_mantissa(w: VectorWriter, split: FloatParts, e: str) -> str:
    """Return e + log2 of the mantissa, in float64, to 33 bits."""
    d = w.double()
    mantissa = w.widen(split.mantissa)
    if not has_inverses(w):
        fraction = d.sub(mantissa, d.number(1.0))
        return d.fma(fraction, d.polynomial(LOG2_RATIO, fraction), e)
    near, base = (w.widen(part) for part in inverse(w, split))
    rest = d.fma(mantissa, near, d.number(-1.0))
    logarithm = d.fma(rest, d.polynomial(LOG_RATIO, rest), base)
    return d.fma(logarithm, d.number(float(LOG2_E)), e)


def _power64(w: VectorWriter, size: str, y: str) -> str:
    high, low = _log2(w, size)
    total, error = product(w, y, _at_ends(w, size, high))
    error = w.fma(y, low, error)
    is_moderate = w.compare("olt", w.call("fabs", total), w.number(2.0**11))
    error = w.select(is_moderate, error, w.number(0.0))
    bounded = w.at_least(w.at_most(total, 1030.0), -1080.0)
    return exp2_of_sum(w, bounded, error)


def _log2(w: VectorWriter, x: str) -> Pair:
    """Return log2(x) of a positive number to about 65 bits."""
    normal, shift = normalize(w, x)
    split = split_float(w, normal, shift, ROOT_HALF)
    s = _quotient(w, w.sub(split.mantissa, w.number(1.0)))
    z, z_error = product(w, s[0], s[0])
    square = (z, w.fma(w.add(s[0], s[0]), s[1], z_error))
    third = parts(Fraction(1, 3), 53, 53)
    linear = pair_product(w, square, (w.number(third[0]), w.number(third[1])))
    tail = w.mul(w.mul(z, z), w.polynomial(ATANH_TAIL, z))
    ratio, ratio_error = fast_sum(w, linear[0], tail)
    cubic = pair_product(w, s, (ratio, w.add(ratio_error, linear[1])))
    root, root_error = fast_sum(w, s[0], cubic[0])
    half_log = (root, w.add(root_error, w.add(s[1], cubic[1])))
    factor = parts(2 * LOG2_E, 53, 53)
    logarithm = pair_product(w, half_log, (w.number(factor[0]), w.number(factor[1])))
    high, error = fast_sum(w, split.e, logarithm[0])
    return high, w.add(error, logarithm[1])


def _quotient(w: VectorWriter, f: str) -> Pair:
    """Return f / (2 + f) in double length, by one division and what it leaves."""
    divisor, divisor_error = fast_sum(w, w.number(2.0), f)
    inverse = w.div(w.number(1.0), divisor)
    high = w.mul(f, inverse)
    taken, taken_error = product(w, high, divisor)
    rest = w.sub(w.sub(f, taken), w.fma(high, divisor_error, taken_error))
    return high, w.mul(rest, inverse)


def _at_ends(w: VectorWriter, size: str, logarithm: str) -> str:
    """Return the logarithm of 0, infinity and NaN, and `logarithm` of other numbers."""
    infinity = w.number(math.inf)
    logarithm = w.select(w.compare("olt", size, infinity), logarithm, size)
    is_zero = w.compare("oeq", size, w.number(0.0))
    return w.select(is_zero, w.number(-math.inf), logarithm)
