"""Operators of com.microsoft that exporters and optimisers of ONNX files write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansorc.graph.onnx.node_call import Converter, NodeCall, OnnxValue


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


def _fused_matmul(call: NodeCall) -> str:
    if call.attribute("transBatchA", 0) or call.attribute("transBatchB", 0):
        call.refuse("transposed batches are not supported")
    if min(call.rank(0), call.rank(1)) < 2:
        call.refuse("vectors are not supported")
    left = "...ki" if call.attribute("transA", 0) else "...ik"
    right = "...jk" if call.attribute("transB", 0) else "...kj"
    tensors = [call.input(0), call.input(1)]
    alpha = float(call.attribute("alpha", 1.0))
    return call.add("einsum", tensors, equation=f"{left},{right}->...ij", scale=alpha)


def _skip_layer_norm(call: NodeCall) -> Sequence[OnnxValue]:
    shift = [call.input(3)] if call.has(3) else []
    total = _total(call, 4)
    epsilon = call.attribute("epsilon", 1e-12)
    if shift:
        result = call.add("layer_norm", [total, call.input(2), *shift], epsilon=epsilon)
    else:
        result = call.add("standardize", [total], axes=[-1], epsilon=epsilon)
        result = call.add("multiply", [result, call.input(2)])
    return _with_total(call, result, total)


def _skip_rms_norm(call: NodeCall) -> Sequence[OnnxValue]:
    total = _total(call, 3)
    epsilon = call.attribute("epsilon", 1e-12)
    result = call.add("rms_norm", [total, call.input(2)], epsilon=epsilon)
    return _with_total(call, result, total)


def _total(call: NodeCall, bias: int) -> str:
    """The sum of the input, what skips a layer, and the bias."""
    total = call.add("add", [call.input(0), call.input(1)])
    return call.add("add", [total, call.input(bias)]) if call.has(bias) else total


def _with_total(call: NodeCall, result: str, total: str) -> Sequence[OnnxValue]:
    """The outputs: the result, two statistics that only training has, and the sum."""
    outputs = call.node.outputs
    if any(outputs[1:3]):
        call.refuse("its outputs of mean and deviation are for training")
    return [result, "", "", total][: len(outputs)]


MICROSOFT: Mapping[str, Converter] = {
    "com.microsoft::BiasGelu": _bias_gelu,
    "com.microsoft::FastGelu": _fast_gelu,
    "com.microsoft::FusedMatMul": _fused_matmul,
    "com.microsoft::Gelu": lambda call: call.add("gelu", [call.input(0)]),
    "com.microsoft::QuickGelu": _quick_gelu,
    "com.microsoft::SkipLayerNormalization": _skip_layer_norm,
    "com.microsoft::SkipSimplifiedLayerNormalization": _skip_rms_norm,
}
