"""Activations with parameters that only frameworks have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.activation import map_elements
from ansorc.lang.operators.elementwise import element_at
from ansorc.lang.operators.shapes import broadcast_shape
from ansorc.lang.scalar import any_of, const, equal, expm1, if_then_else, maximum, minimum, sigmoid
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor


def celu(data: Tensor, alpha: float = 1.0) -> Tensor:
    """Return data where it is positive, else alpha * (exp(data / alpha) - 1)."""

    def function(x: Scalar) -> Scalar:
        return maximum(x, 0) + expm1(minimum(x, 0) * (1.0 / alpha)) * alpha

    return map_elements(data, function, AutoName("celu"))


def swish(data: Tensor, alpha: float = 1.0) -> Tensor:
    """Return data * sigmoid(alpha * data)."""
    return map_elements(data, lambda x: x * sigmoid(x * alpha), AutoName("swish"))


def thresholded_relu(data: Tensor, alpha: float = 1.0) -> Tensor:
    """Return data where it is above alpha, else 0."""
    return map_elements(
        data, lambda x: if_then_else(x > alpha, x, 0.0), AutoName("thresholded_relu")
    )


def shrink(data: Tensor, limit: float = 0.5, bias: float = 0.0) -> Tensor:
    """Return data - bias above `limit`, data + bias below -limit, else 0."""

    def function(x: Scalar) -> Scalar:
        kind = x.dtype
        low, high, by = (const(value, kind) for value in (-limit, limit, bias))
        below = if_then_else(x < low, x + by, const(0, kind))
        return if_then_else(x > high, x - by, below)

    return map_elements(data, function, AutoName("shrink"))


def broadcast_prelu(data: Tensor, slope: Tensor) -> Tensor:
    """Return data where it is positive, else slope * data, broadcast as NumPy does."""

    def body(*i: Scalar) -> Scalar:
        x = element_at(data, i)
        return if_then_else(x > 0, x, x * element_at(slope, i))

    return compute(broadcast_shape("prelu", data, slope), body, AutoName("prelu"))


def isinf(data: Tensor, *, positive: bool = True, negative: bool = True) -> Tensor:
    """Return whether data is infinite, of a sign that is asked for."""

    def function(x: Scalar) -> Scalar:
        kind = x.dtype
        signs = [math.inf] * positive + [-math.inf] * negative
        tests = [equal(x, const(value, kind)) for value in signs]
        return any_of(*tests) if tests else x < const(-math.inf, kind)

    return map_elements(data, function, AutoName("isinf"))


ACTIVATIONS: Mapping[str, Callable[..., Tensor]] = {
    "broadcast_prelu": broadcast_prelu,
    "celu": celu,
    "isinf": isinf,
    "shrink": shrink,
    "swish": swish,
    "thresholded_relu": thresholded_relu,
}
"""Definitions by the name of their operator."""
