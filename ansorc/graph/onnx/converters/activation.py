"""ONNX activations."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ansorc.graph.onnx.node_call import Converter, NodeCall

_SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def _with(operator: str, **defaults: float) -> Converter:
    """An operator on the first input; the attributes of ONNX, by name, with their defaults.

    A name a__b is a here and b in ONNX.
    """

    def convert(call: NodeCall) -> str:
        given: dict[str, object] = {}
        for name, default in defaults.items():
            mine, _, theirs = name.partition("__")
            given[mine] = float(call.attribute(theirs or mine, default))
        return call.add(operator, [call.input(0)], **given)

    return convert


def _selu(call: NodeCall) -> str:
    alpha, gamma = call.attribute("alpha", _SELU[0]), call.attribute("gamma", _SELU[1])
    data = call.input(0)
    if math.isclose(alpha, _SELU[0], rel_tol=1e-6) and math.isclose(gamma, _SELU[1], rel_tol=1e-6):
        return call.add("selu", [data])
    result = call.add("elu", [data], alpha=alpha)
    return call.add("multiply", [result, call.scalar(gamma, result)])


def _gelu(call: NodeCall) -> str:
    is_approximate = call.attribute("approximate", "none") == "tanh"
    return call.add("gelu", [call.input(0)], approximate=is_approximate)


def _prelu(call: NodeCall) -> str:
    """A slope for each channel is an operator that works for any place of the channels."""
    shape, slope = call.type(0).shape, call.type(1).shape
    is_channels = len(slope) == len(shape) - 1 > 0 and slope[:1] == shape[1:2]
    if is_channels and math.prod(slope[1:]) == 1:
        flat = call.add("reshape", [call.input(1)], shape=[shape[1]])
        return call.add("prelu", [call.input(0), flat], axis=1)
    return call.add("broadcast_prelu", [call.input(0), call.input(1)])


ACTIVATION: Mapping[str, Converter] = {
    "Celu": _with("celu", alpha=1.0),
    "Elu": _with("elu", alpha=1.0),
    "Gelu": _gelu,
    "HardSigmoid": _with("hard_sigmoid", alpha=0.2, beta=0.5),
    "HardSwish": _with("hard_swish"),
    "LeakyRelu": _with("leaky_relu", slope__alpha=0.01),
    "Mish": _with("mish"),
    "PRelu": _prelu,
    "Relu": _with("relu"),
    "Selu": _selu,
    "Shrink": _with("shrink", limit__lambd=0.5, bias=0.0),
    "Sigmoid": _with("sigmoid"),
    "Softplus": _with("softplus"),
    "Softsign": _with("softsign"),
    "Swish": _with("swish", alpha=1.0),
    "Tanh": _with("tanh"),
    "ThresholdedRelu": _with("thresholded_relu", alpha=1.0),
}
