"""ONNX operators that move a window over images, and batch normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.onnx.node_call import Converter, NodeCall

_LAYOUTS = {1: "NCL", 2: "NCHW", 3: "NCDHW"}


def _conv(call: NodeCall) -> str:
    rank = call.rank(0) - 2
    if rank not in _LAYOUTS:
        call.refuse(f"its input has {rank} spatial dimensions; ansorc convolves over 1 to 3")
    kernel = call.type(1).shape[2:]
    stride, dilation = _each(call, "strides", rank), _each(call, "dilations", rank)
    padding = _padding(call, kernel, stride, dilation)
    result = call.add(
        f"conv{rank}d", [call.input(0), call.input(1)], stride=stride, padding=padding,
        dilation=dilation, groups=call.attribute("group", 1), layout=_LAYOUTS[rank],
    )  # fmt: skip
    return _with_bias(call, result, 2) if call.has(2) else result


def _with_bias(call: NodeCall, result: str, place: int) -> str:
    return call.add("bias_add", [result, call.input(place)], axis=1)


def _each(call: NodeCall, name: str, rank: int) -> list[int]:
    return list(call.attribute(name) or [1] * rank)


def _padding(
    call: NodeCall, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """The margins before, then those after, of each spatial dimension."""
    rank, automatic = len(kernel), call.attribute("auto_pad", "NOTSET")
    if automatic in ("NOTSET", ""):
        return list(call.attribute("pads") or [0] * 2 * rank)
    if automatic == "VALID":
        return [0] * 2 * rank
    before: list[int] = []
    after: list[int] = []
    for d, extent in enumerate(call.type(0).shape[2:]):
        reach = (kernel[d] - 1) * dilation[d] + 1
        total = max(0, (-(-extent // stride[d]) - 1) * stride[d] + reach - extent)
        small, large = total // 2, total - total // 2
        is_upper = automatic == "SAME_UPPER"
        before.append(small if is_upper else large)
        after.append(large if is_upper else small)
    return before + after


def _pool(kind: str) -> Converter:
    def convert(call: NodeCall) -> str:
        rank = call.rank(0) - 2
        if rank not in _LAYOUTS:
            call.refuse(f"its input has {rank} spatial dimensions; ansorc pools over 1 to 3")
        if len([name for name in call.node.outputs if name]) > 1:
            call.refuse("its second output (indices) is not supported")
        kernel = list(call.attribute("kernel_shape"))
        stride, dilation = _each(call, "strides", rank), _each(call, "dilations", rank)
        options: dict[str, object] = {
            "kernel": kernel, "stride": stride, "dilation": dilation, "layout": _LAYOUTS[rank],
            "padding": _padding(call, kernel, stride, dilation),
            "ceil_mode": bool(call.attribute("ceil_mode", 0)),
        }  # fmt: skip
        if kind == "avg":
            options["count_include_pad"] = bool(call.attribute("count_include_pad", 0))
        return call.add(f"{kind}_pool{rank}d", [call.input(0)], **options)

    return convert


def _global(operator: str) -> Converter:
    def convert(call: NodeCall) -> str:
        shape = call.type(0).shape
        layout = _LAYOUTS.get(len(shape) - 2, "")
        result = call.add(operator, [call.input(0)], layout=layout)
        return call.add("reshape", [result], shape=[*shape[:2], *[1] * (len(shape) - 2)])

    return convert


def _batch_norm(call: NodeCall) -> str:
    if call.attribute("training_mode", 0):
        call.refuse("it is in training mode; export the network for inference")
    vectors = [call.input(place) for place in range(1, 5)]
    data, epsilon = call.input(0), call.attribute("epsilon", 1e-5)
    known = [call.value(place) for place in range(1, 5)]
    if all(one is not None for one in known):
        scale, shift, mean, variance = (np.asarray(one, np.float64) for one in known)
        factor = scale / np.sqrt(variance + epsilon)
        kind = call.type(0).dtype.numpy
        folded = [factor.astype(kind), (shift - mean * factor).astype(kind)]
        return call.add("batch_norm", [data, *map(call.constant, folded)], axis=1)
    return call.add("batch_norm_inference", [data, *vectors], axis=1, epsilon=epsilon)


CONVOLUTION: Mapping[str, Converter] = {
    "AveragePool": _pool("avg"),
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "GlobalAveragePool": _global("global_avg_pool"),
    "GlobalMaxPool": _global("global_max_pool"),
    "MaxPool": _pool("max"),
}
