"""Norms along any axes, and over neighbouring channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ansorc.graph.operators.pool import power_of_size, root
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import axis_number, axis_numbers, require
from ansorc.lang.reduction import ReduceAxis, Reduction, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor


def standardize(
    data: Tensor,
    axes: Sequence[int],
    epsilon: float = 1e-5,
    *,
    centered: bool = True,
    outside: float = 0.0,
    statistics: bool = False,
) -> Sequence[Tensor]:
    """Return (data - mean) / (sqrt(variance + epsilon) + outside), both taken over `axes`.

    Where it is not `centered` the mean counts as 0. With `statistics` the mean and the factor
    1 / (sqrt(…) + …) are outputs too, of the rank of `data`, with extents of 1 along `axes`. Raise
    LanguageError where there are no such axes.
    """
    places = axis_numbers("standardize", data, axes)
    share = 1.0 / math.prod(data.shape[dimension] for dimension in places)
    kept = [1 if d in places else extent for d, extent in enumerate(data.shape)]
    inner = {d: reduce_axis(data.shape[d], f"k{d}") for d in places}
    outer = _collapse(places)
    mean = _mean(data, kept, inner, share) if centered else None

    def squares(*i: Scalar) -> Reduction:
        element = data[_fill(i, inner)]
        if mean is not None:
            element = element - mean[outer(i)]
        return sum(element * element, axis=list(inner.values()))

    def factor(*i: Scalar) -> Scalar:
        variance = total[i] * share + epsilon
        return 1.0 / (scalar.sqrt(variance) + outside) if outside else scalar.rsqrt(variance)

    def result(*i: Scalar) -> Scalar:
        element = data[i] if mean is None else data[i] - mean[outer(i)]
        return element * spread[outer(i)]

    total = compute(kept, squares, AutoName("standardize.squares"))
    spread = compute(kept, factor, AutoName("standardize.factor"))
    standardized = compute(data.shape, result, AutoName("standardize"))
    return [standardized, mean, spread] if statistics and mean is not None else [standardized]


def lp_normalize(data: Tensor, axis: int = -1, p: int = 2) -> Tensor:
    """Return `data` divided by its p-norm along `axis`, 0 where that is 0."""
    dimension = axis_number("lp_normalize", data, axis)
    inner = {dimension: reduce_axis(data.shape[dimension], "k")}
    outer = _collapse([dimension])
    kept = [1 if d == dimension else extent for d, extent in enumerate(data.shape)]
    total = compute(
        kept,
        lambda *i: sum(power_of_size(data[_fill(i, inner)], p), axis=inner[dimension]),
        AutoName("lp_normalize.sum"),
    )
    norm = compute(kept, lambda *i: root(total[i], p), AutoName("lp_normalize.norm"))

    def body(*i: Scalar) -> Scalar:
        length = norm[outer(i)]
        zero = scalar.const(0, data.dtype)
        return scalar.if_then_else(scalar.equal(length, zero), zero, data[i] / length)

    return compute(data.shape, body, AutoName("lp_normalize"))


def local_response_norm(
    data: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Return data [n, c, …] / (bias + alpha / size * sum of squares)^beta.

    The sum is over `size` neighbouring channels, of an even number one more behind than before.
    """
    require(len(data.shape) >= 2, "local_response_norm", data, need="it must be [n, c, …]")
    require(size >= 1, "local_response_norm", data, need=f"the size is {size}")
    channels, before = data.shape[1], (size - 1) // 2
    r = reduce_axis(size, "r")

    def squares(*i: Scalar) -> Reduction:
        c = i[1] + r - before
        element = data[(i[0], c, *i[2:])]
        is_inside = scalar.all_of(c >= 0, c < channels)
        zero = scalar.const(0, data.dtype)
        return sum(scalar.if_then_else(is_inside, element * element, zero), axis=r)

    total = compute(data.shape, squares, AutoName("local_response_norm.sum"))

    def body(*i: Scalar) -> Scalar:
        return data[i] * scalar.power(total[i] * (alpha / size) + bias, -beta)

    return compute(data.shape, body, AutoName("local_response_norm"))


def _mean(
    data: Tensor, kept: Sequence[int], inner: Mapping[int, ReduceAxis], share: float
) -> Tensor:
    total = compute(
        kept,
        lambda *i: sum(data[_fill(i, inner)], axis=list(inner.values())),
        AutoName("standardize.sum"),
    )
    return compute(kept, lambda *i: total[i] * share, AutoName("standardize.mean"))


def _fill(indices: Sequence[Scalar], inner: Mapping[int, Scalar]) -> tuple[Scalar, ...]:
    """Return the indices, those of the reduced dimensions replaced by their reduce axes."""
    return tuple(inner.get(d, index) for d, index in enumerate(indices))


def _collapse(places: Sequence[int]) -> Callable[[Sequence[Scalar]], tuple[Scalar, ...]]:
    """Return a function from indices of `data` to those with extents of 1 at `places`."""
    zero = scalar.const(0, "int64")
    return lambda indices: tuple(zero if d in places else i for d, i in enumerate(indices))


NORMALIZATION: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    "local_response_norm": local_response_norm,
    "lp_normalize": lp_normalize,
    "standardize": standardize,
}
"""Definitions by the name of their operator."""
