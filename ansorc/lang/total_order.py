"""The order in which numbers are sorted, ranked and searched, for all of ansorc.

Ascending, NaN comes after all other numbers, as in NumPy and PyTorch; descending, before them.
All NaNs are equal, and so are -0 and +0. An extreme is different: both the largest and the smallest
of numbers with a NaN among them are NaN.
"""

from __future__ import annotations

from ansorc.lang.scalar import all_of, any_of, logical_not, not_equal
from ansorc.lang.scalar_type import Scalar


def is_nan(x: Scalar) -> Scalar:
    """Return whether the float `x` is NaN."""
    return not_equal(x, x)


def comes_before(a: Scalar, b: Scalar, *, descending: bool = False) -> Scalar:
    """Return whether `a` comes before `b` in the sorted order; False if they are equal.

    Both are numbers of one dtype.
    """
    first, second = (b, a) if descending else (a, b)
    if not a.dtype.is_float:
        return first < second
    return all_of(logical_not(is_nan(first)), logical_not(first >= second))


def is_more_extreme(a: Scalar, b: Scalar, *, largest: bool) -> Scalar:
    """Return whether `a` replaces `b` as the largest (smallest) number; NaN replaces any other."""
    is_beyond = a > b if largest else a < b
    if not a.dtype.is_float:
        return is_beyond
    return any_of(is_beyond, all_of(is_nan(a), logical_not(is_nan(b))))


def is_same(a: Scalar, b: Scalar) -> Scalar:
    """Return whether `a` and `b` are equal in the sorted order: equal numbers, or both NaN."""
    equal = a == b
    return any_of(equal, all_of(is_nan(a), is_nan(b))) if a.dtype.is_float else equal
