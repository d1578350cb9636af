"""ONNX operators that pool images, and undo it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansorc.graph.importing.values import LAYOUTS
from ansorc.graph.onnx.converters.window import (
    each,
    padding,
    spatial_rank,
    with_last_windows,
)
from ansorc.graph.onnx.node_call import Converter, NodeCall


def _average_pool(call: NodeCall) -> str:
    rank, options = _options(call)
    options["ceil_mode"] = bool(call.attribute("ceil_mode", 0))
    options["count_include_pad"] = bool(call.attribute("count_include_pad", 0))
    return call.add(f"avg_pool{rank}d", [call.input(0)], **options)


def _max_pool(call: NodeCall) -> str | Sequence[str]:
    rank, options = _options(call)
    if len([name for name in call.node.outputs if name]) < 2:
        options["ceil_mode"] = bool(call.attribute("ceil_mode", 0))
        return call.add(f"max_pool{rank}d", [call.input(0)], **options)
    options["padding"] = _margins(call)
    options["columns_first"] = bool(call.attribute("storage_order", 0))
    return call.builder.add_many("max_pool_with_indices", [call.input(0)], ("", ""), **options)


def _lp_pool(call: NodeCall) -> str:
    _, options = _options(call)
    options["padding"] = _margins(call)
    return call.add("lp_pool", [call.input(0)], p=_order(call), **options)


def _options(call: NodeCall) -> tuple[int, dict[str, object]]:
    """The number of spatial dimensions, and how the window moves over them."""
    rank = spatial_rank(call)
    kernel = list(call.attribute("kernel_shape"))
    stride, dilation = each(call, "strides", rank), each(call, "dilations", rank)
    return rank, {
        "kernel": kernel, "stride": stride, "dilation": dilation, "layout": LAYOUTS[rank],
        "padding": padding(call, kernel, stride, dilation),
    }  # fmt: skip


def _margins(call: NodeCall) -> list[int]:
    """The margins of a window, those after it as large as `ceil_mode` asks for."""
    rank, kernel = spatial_rank(call), list(call.attribute("kernel_shape"))
    stride, dilation = each(call, "strides", rank), each(call, "dilations", rank)
    margins = padding(call, kernel, stride, dilation)
    if not call.attribute("ceil_mode", 0):
        return margins
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    return with_last_windows(margins, reach, stride, call.type(0).shape[2:])


def _order(call: NodeCall) -> int:
    """The order p of a norm."""
    p = int(call.attribute("p", 2))
    if p < 1:
        call.refuse(f"p is {p}; it must be 1 or more")
    return p


def _global(operator: str) -> Converter:
    def convert(call: NodeCall) -> str:
        shape = call.type(0).shape
        layout = LAYOUTS[spatial_rank(call)]
        result = call.add(operator, [call.input(0)], layout=layout)
        return call.add("reshape", [result], shape=[*shape[:2], *[1] * (len(shape) - 2)])

    return convert


def _global_lp_pool(call: NodeCall) -> str:
    kernel = call.type(0).shape[2:]
    return call.add(
        "lp_pool",
        [call.input(0)],
        kernel=kernel,
        p=_order(call),
        layout=LAYOUTS[spatial_rank(call)],
    )


def _max_unpool(call: NodeCall) -> str:
    rank = spatial_rank(call)
    kernel, inputs = list(call.attribute("kernel_shape")), call.type(0).shape
    stride, margins = each(call, "strides", rank), call.attribute("pads") or [0] * 2 * rank
    size = [
        (inputs[d + 2] - 1) * stride[d] - margins[d] - margins[rank + d] + kernel[d]
        for d in range(rank)
    ]
    if call.has(2):  # the places count in an image of that size
        wanted = call.ints(2, "the output's shape")
        if wanted[:2] != list(inputs[:2]) or len(wanted) != len(inputs):
            call.refuse(f"its output is {wanted}, its input {list(inputs)}")
        size = wanted[2:]
    return call.add("max_unpool", [call.input(0), call.input(1)], size=size)


POOL: Mapping[str, Converter] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global("global_avg_pool"),
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global("global_max_pool"),
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
}
