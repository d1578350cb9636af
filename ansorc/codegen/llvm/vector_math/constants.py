"""Irrational constants to 60 digits, and their sums of floats of few bits."""

from __future__ import annotations

import math
from fractions import Fraction

LN2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680")
HALF_PI = Fraction("1.57079632679489661923132169163975144209858469968755291048747")
LOG2_E = 1 / LN2


def parts(value: Fraction, *bits: int) -> list[float]:
    """Return floats of so many significant bits, each the part of `value` that is still missing.

    A product of a float of b bits and an integer of i bits is exact in a format of b + i bits.
    """
    floats: list[float] = []
    for count in bits:
        _, exponent = math.frexp(value)
        unit = Fraction(2) ** (exponent - count)
        floats.append(float(round(value / unit) * unit))
        value -= Fraction(floats[-1])
    return floats
