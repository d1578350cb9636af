"""ONNX operators that cut, join, repeat and pad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.graph.slices import add_slice

_PADS = {"constant": "pad", "edge": "edge_pad", "reflect": "reflect_pad", "wrap": "wrap_pad"}
_PAD_INPUTS_SINCE, _SLICE_INPUTS_SINCE, _SPLIT_INPUTS_SINCE = 11, 10, 13


def _slice(call: NodeCall) -> Value:
    shape = call.type(0).shape
    if call.opset < _SLICE_INPUTS_SINCE:
        starts, ends = call.attribute("starts"), call.attribute("ends")
        axes, steps = call.attribute("axes"), None
    else:
        starts, ends = call.ints(1, "the starts"), call.ints(2, "the ends")
        axes = call.ints(3, "the axes") if call.has(3) else None
        steps = call.ints(4, "the steps") if call.has(4) else None
    ranges = [range(extent) for extent in shape]
    places = range(len(starts)) if axes is None else axes
    for axis, start, end, step in zip(
        places, starts, ends, steps or [1] * len(starts), strict=True
    ):
        dimension = call.axis(axis, len(shape))
        ranges[dimension] = range(*slice(start, end, step).indices(shape[dimension]))
    return add_slice(call.builder, call.input(0), ranges)


def _split(call: NodeCall) -> list[Value]:
    shape = call.type(0).shape
    axis = call.axis(call.attribute("axis", 0), len(shape))
    lengths = call.attribute("split")
    if call.opset >= _SPLIT_INPUTS_SINCE and call.has(1):
        lengths = call.ints(1, "the lengths")
    if lengths is None:
        count = call.attribute("num_outputs", len(call.node.outputs))
        each = -(-shape[axis] // count)
        lengths = [each] * (count - 1) + [shape[axis] - each * (count - 1)]
    parts: list[Value] = []
    start = 0
    for length in lengths:
        ranges = [range(extent) for extent in shape]
        ranges[axis] = range(start, start + length)
        parts.append(add_slice(call.builder, call.input(0), ranges))
        start += length
    return parts


def _concat(call: NodeCall) -> Value:
    axis = call.axis(call.attribute("axis", 1), call.rank(0))
    parts = [call.input(d) for d in range(call.count) if call.type(d).elements]
    return parts[0] if len(parts) == 1 else call.add("concat", parts, axis=axis)


def _tile(call: NodeCall) -> Value:
    repeats = call.ints(1, "the repeats")
    if min(repeats, default=1) < 1:
        shape = [e * n for e, n in zip(call.type(0).shape, repeats, strict=True)]
        return np.zeros(shape, call.type(0).dtype.numpy)
    return call.add("tile", [call.input(0)], repeats=repeats)


def _pad(call: NodeCall) -> Value:
    rank, value, filler = call.rank(0), 0.0, ""
    if call.opset < _PAD_INPUTS_SINCE:
        pads = list(call.attribute("pads") or call.attribute("paddings"))
        value = call.attribute("value", 0.0)
    else:
        pads = call.ints(1, "the padding")
        given = call.value(2) if call.has(2) else None
        if call.has(2) and given is None:
            filler = call.input(2)
        elif given is not None and given.size:
            value = given.item()
    axes = call.ints(3, "the axes") if call.has(3) else list(range(rank))
    before, after = [0] * rank, [0] * rank
    for number, axis in enumerate(axes):
        dimension = call.axis(axis, rank)
        before[dimension], after[dimension] = pads[number], pads[number + len(axes)]
    mode = str(call.attribute("mode", "constant"))
    return pad(call, before, after, mode, filler or value)


def pad(
    call: NodeCall, before: Sequence[int], after: Sequence[int], mode: str, value: float | str
) -> Value:
    """Add the first input with margins; negative ones cut. `value` may be a tensor of the graph."""
    if mode not in _PADS:
        call.refuse(f"there is no mode '{mode}'")
    shape = call.type(0).shape
    ranges = [
        range(max(0, -low), extent - max(0, -high))
        for low, high, extent in zip(before, after, shape, strict=True)
    ]
    data = add_slice(call.builder, call.input(0), ranges)
    low, high = [max(0, margin) for margin in before], [max(0, margin) for margin in after]
    if not any(low) and not any(high):
        return data
    if not isinstance(data, str):
        call.refuse(f"its pads {[*before, *after]} cut away all of {list(shape)}")
    margins: dict[str, object] = {"before": low, "after": high}
    if mode != "constant":
        return call.add(_PADS[mode], [data], **margins)
    if isinstance(value, str):
        return call.add("pad_with", [data, value], **margins)
    is_integer = call.type(0).dtype.is_integer
    return call.add("pad", [data], value=int(value) if is_integer else value, **margins)


def _center_crop_pad(call: NodeCall) -> Value:
    shape, wanted = call.type(0).shape, call.ints(1, "the new shape")
    axes = call.attribute("axes") or list(range(len(shape)))
    before, after = [0] * len(shape), [0] * len(shape)
    for axis, extent in zip(axes, wanted, strict=True):
        dimension = call.axis(axis, len(shape))
        more = extent - shape[dimension]
        before[dimension] = more // 2 if more >= 0 else -(-more // 2)
        after[dimension] = more - before[dimension]
    return pad(call, before, after, "constant", 0.0)


def trilu(call: NodeCall) -> str:
    """Add the triangle of matrices above or below a diagonal."""
    diagonal = call.ints(1, "the diagonal")[0] if call.has(1) else 0
    return call.add(
        "triangle", [call.input(0)], diagonal=diagonal, upper=bool(call.attribute("upper", 1))
    )


SLICES: Mapping[str, Converter] = {
    "CenterCropPad": _center_crop_pad,
    "Concat": _concat,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    "Tile": _tile,
    "Trilu": trilu,
}
