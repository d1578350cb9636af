"""ONNX operators that convolve images."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.graph.importing.values import LAYOUTS
from ansorc.graph.onnx.converters.window import (
    crop,
    each,
    kernel_of,
    padding,
    spatial_rank,
    split_margins,
)
from ansorc.graph.onnx.node_call import Converter, NodeCall


def convolution(call: NodeCall) -> str:
    """Return the convolution of input 0 with the weights 1, plus the bias 2 if given."""
    rank = spatial_rank(call)
    kernel = kernel_of(call)
    stride, dilation = each(call, "strides", rank), each(call, "dilations", rank)
    data, margins = crop(call, padding(call, kernel, stride, dilation))
    result = call.add(
        f"conv{rank}d", [data, call.input(1)], stride=stride, dilation=dilation,
        padding=margins, groups=call.attribute("group", 1), layout=LAYOUTS[rank],
    )  # fmt: skip
    return _with_bias(call, result, 2)


def _conv_transpose(call: NodeCall) -> str:
    rank = spatial_rank(call)
    stride, dilation = each(call, "strides", rank), each(call, "dilations", rank)
    extra = list(call.attribute("output_padding") or [0] * rank)[:rank]
    margins, weight = _margins_of_transposed(call, stride, dilation, extra), call.input(1)
    if max(dilation) > 1:
        weight = call.add("dilate", [weight], steps=[1, 1, *dilation])
    result = call.add(
        f"conv{rank}d_transpose", [call.input(0), weight], stride=stride,
        padding=[max(0, margin) for margin in margins], output_padding=extra,
        groups=call.attribute("group", 1), layout=LAYOUTS[rank],
    )  # fmt: skip
    if min(margins) < 0:  # the output is larger than the window reaches: zeros
        more = [max(0, -margin) for margin in margins]
        before, after = [0, 0, *more[:rank]], [0, 0, *more[rank:]]
        result = call.add("pad", [result], before=before, after=after)
    return _with_bias(call, result, 2)


def _margins_of_transposed(
    call: NodeCall, stride: list[int], dilation: list[int], extra: list[int]
) -> list[int]:
    """The margins that a transposed convolution loses, before and after."""
    inputs, kernel, rank = call.type(0).shape[2:], kernel_of(call), len(stride)
    automatic, size = call.attribute("auto_pad", "NOTSET"), call.attribute("output_shape")
    if size is None and automatic in ("NOTSET", "", "VALID"):
        return padding(call, kernel, stride, dilation)
    if size is None:
        size = [extent * step for extent, step in zip(inputs, stride, strict=True)]
    size = list(size)[-rank:]
    totals = [
        stride[d] * (inputs[d] - 1) + extra[d] + (kernel[d] - 1) * dilation[d] + 1 - size[d]
        for d in range(rank)
    ]
    cut = split_margins([max(0, total) for total in totals], larger_last=automatic == "SAME_UPPER")
    more = [
        min(0, total) for total in totals
    ]  # what the size asks for beyond the window: at the end
    return [
        margin + output_margin for margin, output_margin in zip(cut, [0] * rank + more, strict=True)
    ]


def _deformable(call: NodeCall) -> str:
    if spatial_rank(call) != 2:
        call.refuse("it is defined here over 2 dimensions alone")
    shape, size, kernel = call.type(0).shape[2:], call.type(2).shape[2:], kernel_of(call)
    stride, dilation = each(call, "strides", 2), each(call, "dilations", 2)
    margins = padding(call, kernel, stride, dilation)
    wanted = tuple(
        (shape[d] + margins[d] + margins[d + 2] - (kernel[d] - 1) * dilation[d] - 1) // stride[d]
        + 1
        for d in range(2)
    )
    parts = call.attribute("offset_group", 1)
    if size != wanted or call.type(2).shape[1] != 2 * parts * kernel[0] * kernel[1]:
        call.refuse(f"its offsets are {list(call.type(2).shape)} for an output of {list(wanted)}")
    tensors = [call.input(index) for index in (0, 1, 2, 4) if call.has(index)]
    result = call.add(
        "deformable_conv2d", tensors, stride=stride, padding=margins, dilation=dilation,
        groups=call.attribute("group", 1),
    )  # fmt: skip
    return _with_bias(call, result, 3)


def _col2im(call: NodeCall) -> str:
    size, kernel = call.ints(1, "the size of the image"), call.ints(2, "the size of the blocks")
    rank = len(size)
    stride, dilation = each(call, "strides", rank), each(call, "dilations", rank)
    return call.add(
        "sum_of_patches", [call.input(0)], size=size, kernel=kernel, stride=stride,
        padding=padding(call, kernel, stride, dilation), dilation=dilation,
    )  # fmt: skip


def _with_bias(call: NodeCall, result: str, index: int) -> str:
    if not call.has(index):
        return result
    return call.add("bias_add", [result, call.input(index)], axis=1)


CONVOLUTION: Mapping[str, Converter] = {
    "Col2Im": _col2im,
    "Conv": convolution,
    "ConvTranspose": _conv_transpose,
    "DeformConv": _deformable,
}
