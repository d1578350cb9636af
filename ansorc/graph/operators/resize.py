"""Resizing along any axes: elements at the nearest places, or weighted sums of neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ansorc.ir.aligned import Array
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import axis_number, require
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import Tensor


def resize_nearest(
    data: Tensor,
    size: Sequence[int],
    factors: Sequence[int],
    offsets: Sequence[int],
    divisors: Sequence[int],
) -> Tensor:
    """Return a tensor of the extents `size` whose element i is that at (i f + o) // d of `data`.

    Places beyond the ends are moved to them. All lists have a number for each dimension. Raise
    LanguageError on others.
    """
    rank = len(data.shape)
    is_each = all(len(given) == rank for given in (size, factors, offsets, divisors))
    require(is_each, "resize_nearest", data, need=f"give {rank} numbers for each dimension")

    def place(d: int, index: Scalar) -> Scalar:
        f, o, n, last = factors[d], offsets[d], divisors[d], data.shape[d] - 1
        source = index if f == 1 else index * f
        source = source + o if o else source
        source = source // n if n > 1 else source
        if o < 0:
            source = scalar.maximum(source, 0)
        return scalar.minimum(source, last) if ((size[d] - 1) * f + o) // n > last else source

    return compute(
        size,
        lambda *i: as_scalar(data[tuple(place(d, index) for d, index in enumerate(i))]),
        AutoName("resize_nearest"),
    )


def resample(data: Tensor, first: Tensor, weights: Tensor, *more: Tensor, axis: int) -> Tensor:
    """Return sums of neighbours of `data` along `axis`, weighted: o has those from first[o] on.

    first [n] (int64), weights [n, taps]; `more` may be what is added, [n]. Places beyond the ends
    are moved to them. Raise LanguageError on other shapes.
    """
    dimension = axis_number("resample", data, axis)
    count = first.shape[0] if first.shape else 0
    fits = len(weights.shape) == 2 and weights.shape[0] == count
    fits = fits and all(each.shape == (count,) for each in more)
    require(fits, "resample", data, first, weights, *more, need="they must be [n], [n, taps], [n]")
    tap, last = reduce_axis(weights.shape[1], "tap"), data.shape[dimension] - 1
    shape = (*data.shape[:dimension], count, *data.shape[dimension + 1 :])

    def body(*i: Scalar) -> Reduction:
        where = scalar.minimum(scalar.maximum(first[i[dimension]] + tap, 0), last)
        element = data[(*i[:dimension], where, *i[dimension + 1 :])]
        return sum(element * weights[i[dimension], tap], axis=tap)

    if not more:
        return compute(shape, body, AutoName("resample"))
    total = compute(shape, body, AutoName("resample.sum"))
    return compute(shape, lambda *i: total[i] + more[0][i[dimension]], AutoName("resample"))


def linear_weight(away: Array) -> Array:
    """Return the weights of elements that are `away` from a place, mixed linearly."""
    return np.maximum(1 - np.abs(away), 0)


def cubic_weight(away: Array, a: float) -> Array:
    """Return those of the cubic convolution with the parameter `a` (Keys, 1981)."""
    x = np.abs(away)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


RESIZE: Mapping[str, Callable[..., Tensor]] = {
    "resample": resample,
    "resize_nearest": resize_nearest,
}
"""Definitions by the name of their operator."""
