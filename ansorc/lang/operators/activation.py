"""Activations: functions applied to each element of a float tensor."""

from __future__ import annotations

from collections.abc import Callable

from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import axis_number, require
from ansorc.lang.operators.wide import wide_float
from ansorc.lang.scalar import if_then_else, maximum, minimum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

_RELU, _RELU6, _LEAKY_RELU = AutoName("relu"), AutoName("relu6"), AutoName("leaky_relu")
_ELU, _SELU, _SILU = AutoName("elu"), AutoName("selu"), AutoName("silu")
_SIGMOID, _HARD_SIGMOID = AutoName("sigmoid"), AutoName("hard_sigmoid")
_HARD_SWISH, _SOFTPLUS, _TANH = AutoName("hard_swish"), AutoName("softplus"), AutoName("tanh")
_SOFTSIGN, _MISH, _GELU, _PRELU = (AutoName(n) for n in ("softsign", "mish", "gelu", "prelu"))

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def relu(data: Tensor, name: str = _RELU) -> Tensor:
    """Return max(data, 0), of the shape of `data`."""
    return map_elements(data, lambda x: maximum(x, 0), name)


def relu6(data: Tensor, name: str = _RELU6) -> Tensor:
    """Return min(max(data, 0), 6), of the shape of `data`."""
    return map_elements(data, lambda x: minimum(maximum(x, 0), 6), name)


def leaky_relu(data: Tensor, slope: float = 0.01, name: str = _LEAKY_RELU) -> Tensor:
    """Return data where it is positive, else slope * data, of the shape of `data`."""
    return map_elements(data, lambda x: if_then_else(x > 0, x, x * slope), name)


def prelu(data: Tensor, slope: Tensor, axis: int = -1, name: str = _PRELU) -> Tensor:
    """Return data where it is positive, else slope * data, slope [channels] lying along `axis`.

    Raise LanguageError where the extents differ.
    """
    dimension = axis_number("prelu", data, axis)
    extent = data.shape[dimension]
    need = f"axis {axis} has {extent} channels; use a slope [{extent}]"
    require(slope.shape == (extent,), "prelu", data, slope, need=need)
    return compute(
        data.shape,
        lambda *i: if_then_else(data[i] > 0, data[i], data[i] * slope[i[dimension]]),
        name,
    )


def elu(data: Tensor, alpha: float = 1.0, name: str = _ELU) -> Tensor:
    """Return data where it is positive, else alpha * (exp(data) - 1), of the shape of `data`."""
    return _map_wide(data, lambda x: _elu(x, alpha), name)


def selu(data: Tensor, name: str = _SELU) -> Tensor:
    """Return the scaled elu of self-normalising networks, of the shape of `data`.

    It is 1.0507 * elu(data, 1.6733), the numbers in full (Klambauer et al., 2017).
    """
    return _map_wide(data, lambda x: _elu(x, _SELU_ALPHA) * _SELU_SCALE, name)


def silu(data: Tensor, name: str = _SILU) -> Tensor:
    """Return data * sigmoid(data), also called swish, of the shape of `data`."""
    return _map_wide(data, lambda x: x * scalar.sigmoid(x), name)


def sigmoid(data: Tensor, name: str = _SIGMOID) -> Tensor:
    """Return 1 / (1 + exp(-data)), of the shape of `data`."""
    return map_elements(data, scalar.sigmoid, name)


def hard_sigmoid(
    data: Tensor, alpha: float = 1.0 / 6.0, beta: float = 0.5, name: str = _HARD_SIGMOID
) -> Tensor:
    """Return alpha * data + beta, at least 0 and at most 1, of the shape of `data`."""
    return _map_wide(data, lambda x: minimum(maximum(x * alpha + beta, 0), 1), name)


def hard_swish(data: Tensor, name: str = _HARD_SWISH) -> Tensor:
    """Return data * min(max(data + 3, 0), 6) / 6, of the shape of `data`."""
    return _map_wide(data, lambda x: x * minimum(maximum(x + 3, 0), 6) * (1.0 / 6.0), name)


def softplus(data: Tensor, name: str = _SOFTPLUS) -> Tensor:
    """Return log(1 + exp(data)), without overflow, of the shape of `data`."""
    return _map_wide(data, _softplus, name)


def softsign(data: Tensor, name: str = _SOFTSIGN) -> Tensor:
    """Return data / (1 + |data|), of the shape of `data`."""
    return _map_wide(data, lambda x: x / (scalar.abs(x) + 1), name)


def mish(data: Tensor, name: str = _MISH) -> Tensor:
    """Return data * tanh(softplus(data)), of the shape of `data`."""
    return _map_wide(data, lambda x: x * scalar.tanh(_softplus(x)), name)


def tanh(data: Tensor, name: str = _TANH) -> Tensor:
    """Return tanh(data), of the shape of `data`."""
    return map_elements(data, scalar.tanh, name)


def gelu(data: Tensor, name: str = _GELU, *, approximate: bool = False) -> Tensor:
    """Return data * Phi(data), Phi the normal distribution, of the shape of `data`.

    Phi is computed by erf, or with `approximate` by tanh (Hendrycks and Gimpel, 2016), which
    differs by up to 0.0005.
    """
    if not approximate:
        return _map_wide(data, lambda x: x * 0.5 * (scalar.erf(x * 0.5**0.5) + 1.0), name)
    root = 0.7978845608028654  # of 2 / pi
    return _map_wide(
        data,
        lambda x: x * 0.5 * (scalar.tanh((x + x * x * x * 0.044715) * root) + 1.0),
        name,
    )


def map_elements(data: Tensor, function: Callable[[Scalar], Scalar], name: str) -> Tensor:
    """Return `function` of each element of `data`."""
    return compute(data.shape, lambda *i: function(data[i]), name)


def _map_wide(data: Tensor, function: Callable[[Scalar], Scalar], name: str) -> Tensor:
    """Return `function` of each element of `data`: of 16-bit floats in float32, rounded once."""
    return map_elements(data, lambda x: function(wide_float(x)).astype(data.dtype), name)


def _elu(x: Scalar, alpha: float) -> Scalar:
    return if_then_else(x > 0, x, scalar.expm1(minimum(x, 0)) * alpha)


def _softplus(x: Scalar) -> Scalar:
    return maximum(x, 0) + scalar.log1p(scalar.exp(0 - scalar.abs(x)))
