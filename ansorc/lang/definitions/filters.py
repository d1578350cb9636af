"""The matrices of minimal filtering for windows of 3 taps.

With m + 2 points a, the last at infinity, a row of A has the powers of the points, and a window
times the rows of G is a polynomial's value at them, divided; B interpolates. Rows of G and B may be
scaled against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from ansorc.ir.transform import Matrix

TAPS = 3


@dataclass(frozen=True)
class Filter:
    """`result ((weight w) * (data d))`: the results of a window w that slides over d."""

    data: Matrix
    """[points, points]: transforms the data."""
    weight: Matrix
    """[points, TAPS]: transforms the window."""
    result: Matrix
    """[results, points]."""

    @property
    def results(self) -> int:
        """The number of results that are computed together."""
        return len(self.result)

    @property
    def points(self) -> int:
        """The number of multiplications for them."""
        return len(self.data)


F2 = Filter(
    ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0)),
    ((1, 1, 1, 0), (0, 1, -1, -1)),
)
"""Points 0, 1, -1 and infinity: B has the elements 0, 1 and -1, so little is rounded."""

_P, _Q = sqrt(1 / 2), sqrt(2)
F4 = Filter(
    (
        (1, 0, -2.5, 0, 1, 0),
        (0, -2 * _P, -2, _P, 1, 0),
        (0, 2 * _P, -2, -_P, 1, 0),
        (0, -_Q / 2, -0.5, _Q, 1, 0),
        (0, _Q / 2, -0.5, -_Q, 1, 0),
        (0, 1, 0, -2.5, 0, 1),
    ),
    (
        (1, 0, 0),
        (-2 / 3, -2 / 3 * _P, -1 / 3),
        (-2 / 3, 2 / 3 * _P, -1 / 3),
        (1 / 6, 1 / 6 * _Q, 1 / 3),
        (1 / 6, -1 / 6 * _Q, 1 / 3),
        (0, 0, 1),
    ),
    (
        (1, 1, 1, 1, 1, 0),
        (0, _P, -_P, _Q, -_Q, 0),
        (0, 0.5, 0.5, 2, 2, 0),
        (0, _P / 2, -_P / 2, 2 * _Q, -2 * _Q, 1),
    ),
)
"""Points 0, ±sqrt(1/2), ±sqrt(2) and infinity. At 0, ±1, ±2 the matrices have whole numbers and
simple fractions, but rounding is worse (docs/decisions/0015)."""
