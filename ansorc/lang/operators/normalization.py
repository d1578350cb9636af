"""Operators that reduce and then use the result for each element: softmax and norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansorc.ir.expr import Expr
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import axis_number, require, require_rank
from ansorc.lang.reduction import Reduction, max, reduce_axis, sum
from ansorc.lang.tensor import Tensor

_SOFTMAX, _NORM2, _LAYER_NORM = AutoName("softmax"), AutoName("norm2"), AutoName("layer_norm")


def softmax(data: Tensor, axis: int = -1, name: str = _SOFTMAX) -> Tensor:
    """Return exp(data) / sum(exp(data)) along `axis`, of the shape of `data`.

    Four stages: `<name>.max`, `<name>.exp` of the difference to it (so nothing overflows),
    `<name>.sum` and the division. Raise LanguageError where there is no such axis.
    """
    place = axis_number("softmax", data, axis)
    peak = _reduced(data, place, max, stage_name(name, "max"))
    raised = compute(
        data.shape,
        lambda *i: scalar.exp(data[i] - peak[_without(i, place)]),
        stage_name(name, "exp"),
    )
    total = _reduced(raised, place, sum, stage_name(name, "sum"))
    return compute(data.shape, lambda *i: raised[i] / total[_without(i, place)], name)


def norm2(data: Tensor, name: str = _NORM2) -> Tensor:
    """Return the root of the sum of squares [batch] of each matrix of data [batch, n, m].

    Two stages: `<name>.sum` and the root. Raise LanguageError on another rank.
    """
    require_rank("norm2", 3, data)
    i, j = reduce_axis(data.shape[1], "i"), reduce_axis(data.shape[2], "j")
    total = compute(
        data.shape[:1],
        lambda b: sum(data[b, i, j] * data[b, i, j], axis=[i, j]),
        stage_name(name, "sum"),
    )
    return compute(data.shape[:1], lambda b: scalar.sqrt(total[b]), name)


def layer_norm(
    data: Tensor, scale: Tensor, shift: Tensor, epsilon: float = 1e-5, name: str = _LAYER_NORM
) -> Tensor:
    """Return (data - mean) / sqrt(variance + epsilon) * scale + shift, along the last axis.

    scale and shift are [extent of that axis]. Three stages: `<name>.sum`, `<name>.squares` (of the
    differences to the mean) and the result. Raise LanguageError on other shapes.
    """
    last = axis_number("layer_norm", data, -1)
    extent = data.shape[last]
    fits = scale.shape == shift.shape == (extent,)
    require(fits, "layer_norm", data, scale, shift, need=f"scale and shift must be [{extent}]")
    share = 1.0 / extent
    total = _reduced(data, last, sum, stage_name(name, "sum"))
    k = reduce_axis(extent, "k")

    def squares(*indices: Expr) -> Reduction:
        difference = data[(*indices, k)] - total[indices] * share
        return sum(difference * difference, axis=k)

    def result(*indices: Expr) -> Expr:
        outer = _without(indices, last)
        spread = scalar.rsqrt(variance[outer] * share + epsilon)
        centred = data[indices] - total[outer] * share
        return centred * spread * scale[indices[last]] + shift[indices[last]]

    variance = compute(data.shape[:last], squares, stage_name(name, "squares"))
    return compute(data.shape, result, name)


def _reduced(data: Tensor, place: int, reduce: Callable[..., Reduction], name: str) -> Tensor:
    k = reduce_axis(data.shape[place], "k")
    shape = (*data.shape[:place], *data.shape[place + 1 :])
    return compute(shape, lambda *i: reduce(data[(*i[:place], k, *i[place:])], axis=k), name)


def _without(indices: Sequence[Expr], place: int) -> tuple[Expr, ...]:
    return (*indices[:place], *indices[place + 1 :])
