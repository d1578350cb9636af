"""Operators of com.microsoft that exporters and optimisers of ONNX files write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.converters.convolution import convolution
from ansorc.graph.onnx.converters.matmul import gemm_with_bias
from ansorc.graph.onnx.converters.slices import trilu
from ansorc.graph.onnx.node_call import Converter, NodeCall

_ACTIVATIONS: Sequence[tuple[str, str, Sequence[tuple[str, float]]]] = (
    ("Relu", "relu", ()),
    ("Sigmoid", "sigmoid", ()),
    ("Tanh", "tanh", ()),
    ("Softplus", "softplus", ()),
    ("Softsign", "softsign", ()),
    ("LeakyRelu", "leaky_relu", (("slope", 0.01),)),
    ("HardSigmoid", "hard_sigmoid", (("alpha", 0.2), ("beta", 0.5))),
    ("Elu", "elu", (("alpha", 1.0),)),
    ("ThresholdedRelu", "thresholded_relu", (("alpha", 1.0),)),
)
"""Fused activations: the name, the operator, and the numbers with their defaults."""


def add_activation(call: NodeCall, data: str, numbers: Sequence[float]) -> str:
    """Add the activation that is fused into a node, of which `numbers` are the parameters."""
    name = str(call.attribute("activation", ""))
    if not name:
        return data
    if name == "Clip":
        low, high = [*numbers, *(-np.inf, np.inf)[len(numbers) :]]
        bound = call.add("maximum", [data, call.scalar(low, data)])
        return call.add("minimum", [bound, call.scalar(high, data)])
    activations = [(operator, rest) for theirs, operator, rest in _ACTIVATIONS if theirs == name]
    if not activations:
        call.refuse(f"ansorc does not know its activation '{name}'")
    operator, parameters = activations[0]
    options: dict[str, object] = dict(parameters)
    options.update(zip(options, map(float, numbers), strict=False))
    return call.add(operator, [data], **options)


def _fused_conv(call: NodeCall) -> str:
    result = convolution(call)
    if call.has(3):
        result = call.add("add", [result, call.input(3)])
    return add_activation(call, result, call.attribute("activation_params") or ())


def _fused_gemm(call: NodeCall) -> str:
    names = [f"activation_{part}" for part in ("alpha", "beta", "gamma")]
    given = [call.attribute(part) for part in names]
    numbers = [part for part in given if part is not None]
    return add_activation(call, gemm_with_bias(call), numbers)


def _bias_gelu(call: NodeCall) -> str:
    return call.add("gelu", [call.add("add", [call.input(0), call.input(1)])])


def _fast_gelu(call: NodeCall) -> str:
    data = call.input(0)
    if call.has(1):
        data = call.add("add", [data, call.input(1)])
    return call.add("gelu", [data], approximate=True)


def _quick_gelu(call: NodeCall) -> str:
    data, alpha = call.input(0), call.attribute("alpha", 1.702)
    gate = call.add("sigmoid", [call.add("multiply", [data, call.scalar(alpha, data)])])
    return call.add("multiply", [data, gate])


def _bias_split_gelu(call: NodeCall) -> str:
    data = call.add("add", [call.input(0), call.input(1)])
    shape = call.builder.type(data).shape
    half, zeros = shape[-1] // 2, [0] * (len(shape) - 1)
    left = call.add("slice", [data], begin=[*zeros, 0], end=[*shape[:-1], half])
    right = call.add("slice", [data], begin=[*zeros, half], end=list(shape))
    return call.add("multiply", [left, call.add("gelu", [right])])


def _bias_add(call: NodeCall) -> str:
    return call.add("add", [call.add("add", [call.input(0), call.input(1)]), call.input(2)])


def _fused_matmul(call: NodeCall) -> str:
    rank, others = call.rank(0), call.rank(1)
    if min(rank, others) < 2:
        call.refuse("vectors are not supported")
    batches = [bool(call.attribute(f"transBatch{side}", 0)) for side in "AB"]
    tensors = [call.input(0), call.input(1)]
    for index, moves in enumerate(batches):
        if moves:  # the dimension before the last goes to the front: [m, b…, k] is [b…, m, k]
            count = call.rank(index)
            order = [*range(1, count - 1), 0, count - 1]
            tensors[index] = call.add("transpose", [tensors[index]], order=order)
    left = "...ki" if call.attribute("transA", 0) else "...ik"
    right = "...jk" if call.attribute("transB", 0) else "...kj"
    alpha = float(call.attribute("alpha", 1.0))
    return call.add("einsum", tensors, equation=f"{left},{right}->...ij", scale=alpha)


def _fused_matmul_activation(call: NodeCall) -> str:
    names = [f"activation_{part}" for part in ("alpha", "beta", "gamma")]
    given = [call.attribute(part) for part in names]
    if call.attribute("activation_axis") is not None:
        call.refuse("an activation along an axis is not supported")
    return add_activation(call, _fused_matmul(call), [part for part in given if part is not None])


def _gemm_fast_gelu(call: NodeCall) -> str:
    data = call.add("matmul", [call.input(0), call.input(1)])
    if call.has(2):
        data = call.add("add", [data, call.input(2)])
    return call.add("gelu", [data], approximate=True)


def _skip_layer_norm(call: NodeCall) -> Sequence[Value]:
    shift = [call.input(3)] if call.has(3) else []
    total = _total(call, 4)
    epsilon = call.attribute("epsilon", 1e-12)
    if shift:
        result = call.add("layer_norm", [total, call.input(2), *shift], epsilon=epsilon)
    else:
        result = call.add("standardize", [total], axes=[-1], epsilon=epsilon)
        result = call.add("multiply", [result, call.input(2)])
    return _with_total(call, result, total)


def _skip_rms_norm(call: NodeCall) -> Sequence[Value]:
    total = _total(call, 3)
    epsilon = call.attribute("epsilon", 1e-12)
    result = call.add("rms_norm", [total, call.input(2)], epsilon=epsilon)
    return _with_total(call, result, total)


def _total(call: NodeCall, bias: int) -> str:
    """The sum of the input, what skips a layer, and the bias."""
    total = call.add("add", [call.input(0), call.input(1)])
    return call.add("add", [total, call.input(bias)]) if call.has(bias) else total


def _with_total(call: NodeCall, result: str, total: str) -> Sequence[Value]:
    """The outputs: the result, two statistics that only training has, and the sum."""
    outputs = call.node.outputs
    if any(outputs[1:3]):
        call.refuse("its outputs of mean and deviation are for training")
    return [result, "", "", total][: len(outputs)]


def _group_norm(call: NodeCall) -> str:
    return _add_group_norm(call, call.input(0))


def _skip_group_norm(call: NodeCall) -> Sequence[Value]:
    shape, skip = call.type(0).shape, call.input(3)
    if call.rank(3) == 2:
        wide = (shape[0], 1, 1, shape[3]) if call.attribute("channels_last", 1) else None
        skip = call.add("reshape", [skip], shape=wide or (*call.type(3).shape, 1, 1))
    total = call.add("add", [call.input(0), skip])
    if call.has(4):
        if not call.attribute("channels_last", 1):
            call.refuse("it has a bias and channels that do not lie last")
        total = call.add("add", [total, call.input(4)])
    return [_add_group_norm(call, total), total][: len(call.node.outputs)]


def _add_group_norm(call: NodeCall, data: str) -> str:
    layout = "NHWC" if call.attribute("channels_last", 1) else "NCHW"
    result = call.add(
        "group_norm", [data, call.input(1), call.input(2)], groups=call.attribute("groups"),
        epsilon=call.attribute("epsilon", 1e-5), layout=layout,
    )  # fmt: skip
    kind = call.attribute("activation", 0)
    if kind not in (0, 1):
        call.refuse(f"ansorc does not know its activation {kind}; 0 is none, 1 is SiLU")
    return call.add("silu", [result]) if kind else result


def _expand_dims(call: NodeCall) -> str:
    axis = call.ints(1, "the axis")[0]
    return call.add("expand_dims", [call.input(0)], axis=call.axis(axis, call.rank(0) + 1))


MICROSOFT: Mapping[str, Converter] = {
    "com.microsoft::BiasAdd": _bias_add,
    "com.microsoft::BiasGelu": _bias_gelu,
    "com.microsoft::BiasSplitGelu": _bias_split_gelu,
    "com.microsoft::ExpandDims": _expand_dims,
    "com.microsoft::FastGelu": _fast_gelu,
    "com.microsoft::FusedConv": _fused_conv,
    "com.microsoft::FusedGemm": _fused_gemm,
    "com.microsoft::FusedMatMul": _fused_matmul,
    "com.microsoft::FusedMatMulActivation": _fused_matmul_activation,
    "com.microsoft::Gelu": lambda call: call.add("gelu", [call.input(0)]),
    "com.microsoft::GemmFastGelu": _gemm_fast_gelu,
    "com.microsoft::GroupNorm": _group_norm,
    "com.microsoft::QuickGelu": _quick_gelu,
    "com.microsoft::SkipGroupNorm": _skip_group_norm,
    "com.microsoft::SkipLayerNormalization": _skip_layer_norm,
    "com.microsoft::SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "com.microsoft::TransposeMatMul": _fused_matmul,
    "com.microsoft::Trilu": trilu,
}
