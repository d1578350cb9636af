"""Losses of classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansorc.ir.dtype import INT64
from ansorc.lang.checks import index_in_range
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.reduce import reduce_over
from ansorc.lang.operators.shapes import require
from ansorc.lang.reduction import sum
from ansorc.lang.scalar import cast, const, equal, if_then_else, maximum, minimum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor


def negative_log_likelihood(
    data: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignored: int | None = None,
) -> Tensor:
    """Return -weight[t] * data[n, t, …] for the classes t = target[n, …], log-probabilities data.

    `reduction` is none, sum, or mean (by the weights); the class `ignored` counts as 0. A call
    fails for other classes that there are not. Raise LanguageError on shapes that do not fit.
    """
    name, classes = AutoName("loss"), data.shape[1]
    fits = (data.shape[0], *data.shape[2:]) == target.shape
    require(fits, name, data, target, need="they must be [n, classes, …] and [n, …]")

    def class_at(i: Sequence[Scalar]) -> Scalar:
        given = cast(target[tuple(i)], INT64)
        inside = index_in_range(given, classes, data.name, 1)
        if ignored is not None:
            inside = if_then_else(equal(given, ignored), 0, inside)
        return minimum(maximum(inside, 0), classes - 1)

    def weight_at(*i: Scalar) -> Scalar:
        factor = const(1, data.dtype) if weight is None else weight[class_at(i)]
        if ignored is None:
            return factor
        is_ignored = equal(cast(target[i], INT64), ignored)
        return if_then_else(is_ignored, const(0, data.dtype), factor)

    factors = compute(target.shape, weight_at, stage_name(name, "weight"))

    def one(*i: Scalar) -> Scalar:
        return (0 - data[(i[0], class_at(i), *i[1:])]) * factors[i]

    if reduction == "none":
        return compute(target.shape, one, name)
    losses = compute(target.shape, one, stage_name(name, "each"))
    if reduction == "sum":
        return reduce_over(name, losses, None, sum, name)
    total = reduce_over(name, losses, None, sum, stage_name(name, "total"))
    share = reduce_over(name, factors, None, sum, stage_name(name, "share"))
    return compute((), lambda: total[()] / share[()], name)


LOSSES: Mapping[str, Callable[..., Tensor]] = {"negative_log_likelihood": negative_log_likelihood}
"""Definitions by the name of their operator."""
