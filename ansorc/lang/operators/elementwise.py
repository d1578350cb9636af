"""Operators that compute each element from one element of each operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np

from ansorc.ir.dtype import DType
from ansorc.ir.expr import BinaryOp
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.literal import DTypeLike
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import (
    axis_number,
    broadcast_indices,
    broadcast_shape,
    refuse_unknown,
    require,
)
from ansorc.lang.operators.wide import widen
from ansorc.lang.scalar_type import Scalar, ScalarLike, binary
from ansorc.lang.tensor import Tensor

_ADD, _SUBTRACT, _MULTIPLY = (AutoName(n) for n in ("add", "subtract", "multiply"))
_DIVIDE, _BIAS_ADD, _BATCH_NORM = (AutoName(n) for n in ("divide", "bias_add", "batch_norm"))
_MAXIMUM, _MINIMUM, _POWER = (AutoName(n) for n in ("maximum", "minimum", "power"))
_FITS_ALL = 65504
"""The largest number that every float dtype has."""
_WHERE, _CLIP, _CAST = AutoName("where"), AutoName("clip"), AutoName("cast")


def add(a: Tensor, b: Tensor, name: str = _ADD) -> Tensor:
    """Return a + b, broadcast as NumPy does; raise LanguageError on other shapes."""
    return _broadcast("add", a, b, BinaryOp.ADD, name)


def subtract(a: Tensor, b: Tensor, name: str = _SUBTRACT) -> Tensor:
    """Return a - b, broadcast as NumPy does; raise LanguageError on other shapes."""
    return _broadcast("subtract", a, b, BinaryOp.SUB, name)


def multiply(a: Tensor, b: Tensor, name: str = _MULTIPLY) -> Tensor:
    """Return a * b, broadcast as NumPy does; raise LanguageError on other shapes."""
    return _broadcast("multiply", a, b, BinaryOp.MUL, name)


def divide(a: Tensor, b: Tensor, name: str = _DIVIDE) -> Tensor:
    """Return a / b (floats), broadcast as NumPy does; raise LanguageError on other shapes."""
    return _broadcast("divide", a, b, BinaryOp.DIV, name)


def maximum(a: Tensor, b: Tensor, name: str = _MAXIMUM) -> Tensor:
    """Return the larger of a and b, broadcast as NumPy does; NaN if one is NaN."""
    return _broadcast("maximum", a, b, BinaryOp.MAX, name)


def minimum(a: Tensor, b: Tensor, name: str = _MINIMUM) -> Tensor:
    """Return the smaller of a and b, broadcast as NumPy does; NaN if one is NaN."""
    return _broadcast("minimum", a, b, BinaryOp.MIN, name)


def power(a: Tensor, b: Tensor, name: str = _POWER) -> Tensor:
    """Return a to the power b, broadcast as NumPy does; integers wrap around."""
    shape = broadcast_shape("power", a, b)
    return compute(shape, lambda *i: scalar.power(element_at(a, i), element_at(b, i)), name)


def where(condition: Tensor, a: Tensor, b: Tensor, name: str = _WHERE) -> Tensor:
    """Return a where `condition` (bool) holds, else b, all three broadcast as NumPy does."""
    shape = broadcast_shape("where", condition, a, b)

    def body(*i: Scalar) -> Scalar:
        test = element_at(condition, i)
        return scalar.if_then_else(test, element_at(a, i), element_at(b, i))

    return compute(shape, body, name)


def clip(data: Tensor, low: float, high: float, name: str = _CLIP) -> Tensor:
    """Return min(max(data, low), high), of the shape of `data`.

    An end that is infinite in the dtype has no effect. Raise LanguageError if low is above high.
    """
    require(low <= high, "clip", data, need=f"low {low} must not be above high {high}")
    first, last = (_end(value, data.dtype) for value in (low, high))
    return compute(
        data.shape, lambda *i: scalar.minimum(scalar.maximum(data[i], first), last), name
    )


def cast(data: Tensor, dtype: DTypeLike, name: str = _CAST) -> Tensor:
    """Return `data`, its shape kept, converted to `dtype` as NumPy's `astype` does."""
    return compute(data.shape, lambda *i: scalar.cast(data[i], dtype), name)


def bias_add(data: Tensor, bias: Tensor, axis: int = -1, name: str = _BIAS_ADD) -> Tensor:
    """Return `data` plus bias [channels], the channels lying along `axis` of `data`.

    Raise LanguageError where the extents differ.
    """
    dimension = _channels("bias_add", data, axis, bias)
    return compute(data.shape, lambda *i: data[i] + bias[i[dimension]], name)


def batch_norm(
    data: Tensor, scale: Tensor, shift: Tensor, axis: int = -1, name: str = _BATCH_NORM
) -> Tensor:
    """Return data * scale + shift, both [channels], the channels lying along `axis` of `data`.

    That is batch normalisation in inference, with mean and variance folded in. Raise LanguageError
    where the extents differ.
    """
    dimension = _channels("batch_norm", data, axis, scale, shift)
    return compute(data.shape, lambda *i: data[i] * scale[i[dimension]] + shift[i[dimension]], name)


class BatchNormOptions(TypedDict, total=False):
    """Options of a batch normalisation."""

    axis: int
    """The dimension of the channels; default: the last."""
    epsilon: float
    """Added to the variance; default 1e-5."""
    name: str


def batch_norm_inference(
    data: Tensor,
    scale: Tensor,
    shift: Tensor,
    mean: Tensor,
    variance: Tensor,
    **options: Unpack[BatchNormOptions],
) -> Tensor:
    """Return (data - mean) / sqrt(variance + epsilon) * scale + shift; all four are [channels].

    Raise LanguageError where the extents differ.
    """
    refuse_unknown("batch_norm_inference", options, BatchNormOptions.__optional_keys__)
    axis, epsilon = options.get("axis", -1), options.get("epsilon", 1e-5)
    dimension = _channels("batch_norm_inference", data, axis, scale, shift, mean, variance)

    def body(*i: Scalar) -> Scalar:
        c = i[dimension]
        factor = widen(scale[c]) * scalar.rsqrt(widen(variance[c]) + epsilon)
        result = (widen(data[i]) - widen(mean[c])) * factor + widen(shift[c])
        return result.astype(data.dtype)

    return compute(data.shape, body, options.get("name", AutoName("batch_norm")))


def element_at(tensor: Tensor, indices: Sequence[ScalarLike]) -> Scalar:
    """Return the element of `tensor` that NumPy's broadcasting takes for `indices` of a result."""
    return tensor[broadcast_indices(tensor.shape, indices)]


def _channels(operator: str, data: Tensor, axis: int, *vectors: Tensor) -> int:
    dimension = axis_number(operator, data, axis)
    extent = data.shape[dimension]
    fits = all(vector.shape == (extent,) for vector in vectors)
    require(
        fits, operator, data, *vectors, need=f"axis {axis} has {extent} channels; use [{extent}]"
    )
    return dimension


def _end(value: float, dtype: DType) -> float:
    """Return an end of a range; infinite if it is beyond the finite numbers of `dtype`."""
    if not dtype.is_float or abs(value) <= _FITS_ALL:
        return value
    try:
        with np.errstate(over="ignore"):
            rounded = float(np.asarray(float(value)).astype(dtype.numpy))
    except OverflowError:
        rounded = math.copysign(math.inf, value)
    return rounded if math.isinf(rounded) else value


def _broadcast(operator: str, a: Tensor, b: Tensor, op: BinaryOp, name: str) -> Tensor:
    shape = broadcast_shape(operator, a, b)
    return compute(shape, lambda *i: binary(op, element_at(a, i), element_at(b, i)), name)
