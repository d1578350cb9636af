"""Sums of two floats that hold twice the digits, from operations that round.

T. J. Dekker, "A floating-point technique for extending the available precision", 1971.
"""

from __future__ import annotations

from ansorc.codegen.llvm.vector_math.vector_writer import VectorWriter

Pair = tuple[str, str]
"""A value and what it lacks."""


def fast_sum(w: VectorWriter, large: str, small: str) -> Pair:
    """Return large + small exactly, where |large| >= |small| or large is 0."""
    total = w.add(large, small)
    return total, w.sub(small, w.sub(total, large))


def product(w: VectorWriter, a: str, b: str) -> Pair:
    """Return a * b exactly; without FMA the factors are cut into halves first."""
    rounded = w.mul(a, b)
    if w.shape.has_fma:
        return rounded, w.fma(a, b, w.negate(rounded))
    a_high, a_low = _halves(w, a)
    b_high, b_low = _halves(w, b)
    error = w.sub(w.mul(a_high, b_high), rounded)
    error = w.add(w.add(error, w.mul(a_high, b_low)), w.mul(a_low, b_high))
    return rounded, w.add(error, w.mul(a_low, b_low))


def pair_product(w: VectorWriter, a: Pair, b: Pair) -> Pair:
    """Return a * b, up to the product of what they lack."""
    high, error = product(w, a[0], b[0])
    return high, w.fma(a[0], b[1], w.fma(a[1], b[0], error))


def _halves(w: VectorWriter, a: str) -> Pair:
    factor = w.number(2.0 ** ((w.shape.mantissa + 2) // 2) + 1)
    large = w.mul(a, factor)
    high = w.sub(large, w.sub(large, a))
    return high, w.sub(a, high)
