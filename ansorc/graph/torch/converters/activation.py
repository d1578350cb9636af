"""ATen's activations, and softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ansorc.graph.torch.torch_call import TorchCall, TorchConverter

_NO_DIFFERENCE = 17.0
"""From here on log(1 + e^x) is x in float32."""
_SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def _with(operator: str, **names: str) -> TorchConverter:
    """An operator on the first input; its attributes by their names in ATen."""

    def convert(call: TorchCall) -> str:
        given = {mine: float(call.get(theirs)) for mine, theirs in names.items()}
        return call.add(operator, [call.input("self", call.result.dtype)], **given)

    return convert


def _gelu(call: TorchCall) -> str:
    return call.add("gelu", [call.input("self")], approximate=call.get("approximate") == "tanh")


def _elu(call: TorchCall) -> str:
    data, alpha, scale = call.input("self"), float(call.get("alpha")), float(call.get("scale"))
    if call.get("input_scale", 1) != 1:
        call.refuse(f"input_scale is {call.get('input_scale')}; ansorc has 1")
    if math.isclose(alpha, _SELU[0], rel_tol=1e-6) and math.isclose(scale, _SELU[1], rel_tol=1e-6):
        return call.add("selu", [data])
    result = call.add("elu", [data], alpha=alpha)
    return result if scale == 1 else call.add("multiply", [result, call.scalar(scale, result)])


def _rrelu(call: TorchCall) -> Sequence[str]:
    """In evaluation: below 0 the middle of both slopes."""
    if call.get("training", False):
        call.refuse("it draws slopes in training mode; call module.eval() before")
    slope = (float(call.get("lower")) + float(call.get("upper"))) / 2
    return [call.add("leaky_relu", [call.input("self")], slope=slope)]


def _hardtanh(call: TorchCall) -> str:
    low, high = float(call.get("min_val")), float(call.get("max_val"))
    data = call.input("self", call.result.dtype)
    if (low, high) == (0, 6):
        return call.add("relu6", [data])
    return call.add("clip", [data], low=low, high=high)


def _softplus(call: TorchCall) -> str:
    """log(1 + e^(beta x)) / beta, x itself where beta x is beyond a threshold."""
    data, beta = call.input("self"), float(call.get("beta", 1))
    limit, scaled = float(call.get("threshold", 20)), data
    if beta != 1:
        scaled = call.add("multiply", [data, call.scalar(beta, data)])
    result = call.add("softplus", [scaled])
    if beta != 1:
        result = call.add("multiply", [result, call.scalar(1 / beta, result)])
    if limit >= _NO_DIFFERENCE:
        return result
    is_beyond = call.add("greater", [scaled, call.scalar(limit, scaled)])
    return call.add("where", [is_beyond, data, result])


def _log_sigmoid(call: TorchCall) -> Sequence[str]:
    turned = call.add("softplus", [call.add("negative", [call.input("self")])])
    return [call.add("negative", [turned])]


def _prelu(call: TorchCall) -> str:
    shape, slope = call.type("self").shape, call.type("weight").shape
    weight = call.input("weight")
    if len(slope) == 1 and len(shape) > 1:
        weight = call.reshape(weight, [*slope, *[1] * (len(shape) - 2)])
    return call.add("broadcast_prelu", [call.input("self"), weight])


def _threshold(call: TorchCall) -> str:
    data = call.input("self")
    is_above = call.add("greater", [data, call.scalar(call.get("threshold"), data)])
    return call.add("where", [is_above, data, call.scalar(call.get("value"), data)])


def _glu(call: TorchCall) -> str:
    shape = call.type("self").shape
    axis = call.axis(call.get("dim", -1), len(shape))
    data, half = call.input("self"), shape[axis] // 2
    ends = [[half if d == axis else n for d, n in enumerate(shape)], list(shape)]
    begins = [[0] * len(shape), [half if d == axis else 0 for d in range(len(shape))]]
    parts = [
        call.add("slice", [data], begin=begin, end=end)
        for begin, end in zip(begins, ends, strict=True)
    ]
    return call.add("multiply", [parts[0], call.add("sigmoid", [parts[1]])])


def _softmax(operator: str) -> TorchConverter:
    def convert(call: TorchCall) -> str:
        axis = call.axis(call.get("dim"), len(call.type("self").shape))
        return call.add(operator, [call.input("self", call.result.dtype)], axis=axis)

    return convert


def _safe_softmax(call: TorchCall) -> str:
    """Softmax of which -inf alone is 0."""
    shape, data = call.type("self").shape, call.input("self", call.result.dtype)
    if call.axis(call.get("dim"), len(shape)) != len(shape) - 1:
        call.refuse("it is along another dimension than the last; transpose it before")
    rows = [1, 1, math.prod(shape[:-1]), shape[-1]]
    return call.reshape(call.add("attention_softmax", [call.reshape(data, rows)]), shape)


TORCH_ACTIVATION: Mapping[str, TorchConverter] = {
    "_log_softmax.default": _softmax("log_softmax"),
    "_prelu_kernel.default": _prelu,
    "_safe_softmax.default": _safe_softmax,
    "_softmax.default": _softmax("softmax"),
    "elu.default": _elu,
    "gelu.default": _gelu,
    "glu.default": _glu,
    "hardsigmoid.default": _with("hard_sigmoid"),
    "hardswish.default": _with("hard_swish"),
    "hardtanh.default": _hardtanh,
    "leaky_relu.default": _with("leaky_relu", slope="negative_slope"),
    "log_sigmoid_forward.default": _log_sigmoid,
    "log_softmax.int": _softmax("log_softmax"),
    "mish.default": _with("mish"),
    "prelu.default": _prelu,
    "relu.default": _with("relu"),
    "rrelu_with_noise_functional.default": _rrelu,
    "selu.default": _with("selu"),
    "silu.default": _with("silu"),
    "softmax.int": _softmax("softmax"),
    "softplus.default": _softplus,
    "threshold.default": _threshold,
}
