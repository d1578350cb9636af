"""ATen's operators that cut, join, repeat and pad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.slices import add_slice
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter


def part_along(call: TorchCall, data: str, axis: int, places: range) -> Value:
    """Return the elements of `data` at some places of an axis; an empty part is known."""
    ranges = [range(extent) for extent in call.builder.type(data).shape]
    ranges[axis] = places
    return add_slice(call.builder, data, ranges)


def _range(call: TorchCall, extent: int) -> range:
    """The places that `start`, `end` and `step` mean."""
    step = int(call.get("step", 1))
    return range(*slice(call.get("start"), call.get("end"), step).indices(extent))


def _slice(call: TorchCall) -> Value:
    shape = call.type("self").shape
    axis = call.axis(call.get("dim", 0), len(shape))
    return part_along(call, call.input("self"), axis, _range(call, shape[axis]))


def _narrow(call: TorchCall) -> Value:
    shape = call.type("self").shape
    axis, start = call.axis(call.get("dim"), len(shape)), int(call.get("start"))
    begin = start + shape[axis] if start < 0 else start
    places = range(begin, begin + int(call.get("length")))
    return part_along(call, call.input("self"), axis, places)


def _select(call: TorchCall) -> Value:
    shape = call.type("self").shape
    axis = call.axis(call.get("dim"), len(shape))
    index = int(call.get("index"))
    start = index + shape[axis] if index < 0 else index
    selected = part_along(call, call.input("self"), axis, range(start, start + 1))
    new = [*shape[:axis], *shape[axis + 1 :]]
    return call.reshape(selected, new) if isinstance(selected, str) else selected.reshape(new)


def _split(call: TorchCall) -> Sequence[Value]:
    shape = call.type("self").shape
    axis = call.axis(call.get("dim", 0), len(shape))
    given = call.get("split_sizes", call.get("split_size"))
    if isinstance(given, int):
        starts = range(0, shape[axis], given)
        given = [min(given, shape[axis] - start) for start in starts]
    parts: list[Value] = []
    start = 0
    for number, length in enumerate(given):
        where = (
            range(start, start + length) if number in call.node.used else range(start, start + 1)
        )
        parts.append(part_along(call, call.input("self"), axis, where))
        start += length
    return parts


def _diagonal(call: TorchCall) -> Value:
    """A diagonal of matrices, as every (columns + 1)th of their elements."""
    shape = call.type("self").shape
    axes = [call.axis(call.get(name, d), len(shape)) for d, name in enumerate(("dim1", "dim2"))]
    others = [d for d in range(len(shape)) if d not in axes]
    data = call.add("transpose", [call.input("self")], order=[*others, *axes])
    outer, (rows, columns) = [shape[d] for d in others], [shape[d] for d in axes]
    offset, count = int(call.get("offset", 0)), call.result.shape[-1]
    begin = offset if offset >= 0 else -offset * columns
    places = range(begin, begin + (columns + 1) * count, columns + 1)
    return part_along(call, call.reshape(data, [*outer, rows * columns]), len(outer), places)


def _unfold(call: TorchCall) -> str:
    axis = call.axis(call.get("dimension"), len(call.type("self").shape))
    options: dict[str, object] = {"size": int(call.get("size")), "step": int(call.get("step"))}
    return call.add("windows", [call.input("self")], axis=axis, **options)


def _im2col(call: TorchCall) -> str:
    """The patches of images [n, c, h, w], or of one [c, h, w], as columns."""
    shape, (kernel, dilation, padding, stride) = call.type("self").shape, _patches(call)
    data, rank = call.reshape(call.input("self"), [*[1] * (4 - len(shape)), *shape]), 2
    margins = [0, 0, *padding]
    if any(padding):
        data = call.add("pad", [data], before=margins, after=margins)
    for d in range(rank):
        steps: dict[str, object] = {"step": stride[d], "dilation": dilation[d]}
        data = call.add("windows", [data], axis=2 + d, size=kernel[d], **steps)
    data = call.add("transpose", [data], order=[0, 1, 4, 5, 2, 3])
    return call.reshape(data, call.result.shape)


def _col2im(call: TorchCall) -> str:
    """Return the sum of patches that are given as columns."""
    shape, (kernel, dilation, padding, stride) = call.type("self").shape, _patches(call)
    data = call.reshape(call.input("self"), [*[1] * (3 - len(shape)), *shape])
    patches = call.add(
        "sum_of_patches", [data], size=call.each("output_size", 2), kernel=kernel, stride=stride,
        padding=[*padding, *padding], dilation=dilation,
    )  # fmt: skip
    return call.reshape(patches, call.result.shape)


def _patches(call: TorchCall) -> list[list[int]]:
    return [call.each(name, 2) for name in ("kernel_size", "dilation", "padding", "stride")]


def _unbind(call: TorchCall) -> Sequence[Value]:
    shape = call.type("self").shape
    axis = call.axis(call.get("dim", 0), len(shape))
    new, parts = [*shape[:axis], *shape[axis + 1 :]], list[Value]()
    for index in range(shape[axis]):
        part = part_along(call, call.input("self"), axis, range(index, index + 1))
        parts.append(call.reshape(part, new) if isinstance(part, str) else part.reshape(new))
    return parts


def _cat(call: TorchCall) -> str:
    rank = len(call.result.shape)
    axis = call.axis(call.get("dim", 0), rank)
    parts = call.inputs("tensors", call.result.dtype)
    return parts[0] if len(parts) == 1 else call.add("concat", parts, axis=axis)


def _stack(call: TorchCall) -> str:
    axis = call.axis(call.get("dim", 0), len(call.result.shape))
    return call.add("stack", call.inputs("tensors", call.result.dtype), axis=axis)


def _repeat(call: TorchCall) -> str:
    repeats, shape = list(call.get("repeats")), call.type("self").shape
    data = call.reshape(call.input("self"), [*[1] * (len(repeats) - len(shape)), *shape])
    return call.add("tile", [data], repeats=repeats)


def _flip(call: TorchCall) -> str:
    axes = call.axes("dims", len(call.type("self").shape))
    return call.add("flip", [call.input("self")], axis=axes) if axes else call.input("self")


def _roll(call: TorchCall) -> str:
    shape, data = call.type("self").shape, call.input("self")
    axes = call.axes("dims", len(shape))
    shifts = call.each("shifts", len(axes or [0]))
    if axes is None:
        data, axes = call.reshape(data, [call.type("self").elements]), [0]
    for axis, shift in zip(axes, shifts, strict=True):
        extent = call.builder.type(data).shape[axis]
        cut = -shift % extent
        if not cut:
            continue
        halves = [range(cut, extent), range(cut)]
        parts = [part_along(call, data, axis, half) for half in halves]
        data = call.add("concat", [half for half in parts if isinstance(half, str)], axis=axis)
    return call.reshape(data, shape)


def _slice_scatter(call: TorchCall) -> str:
    """`src` in the place of a part of `self`."""
    shape, kind = call.type("self").shape, call.result.dtype
    axis = call.axis(call.get("dim", 0), len(shape))
    places = _range(call, shape[axis])
    if not places:
        return call.input("self", kind)
    data, inner = call.input("self", kind), call.input("src", kind)
    if places.step != 1:
        return _put_inner(call, data, inner, axis, places)
    outer = (range(places.start), range(places.stop, shape[axis]))
    before, after = (part_along(call, data, axis, where) for where in outer)
    parts = [where for where in (before, inner, after) if isinstance(where, str)]
    return parts[0] if len(parts) == 1 else call.add("concat", parts, axis=axis)


def _put_inner(call: TorchCall, data: str, inner: str, axis: int, places: range) -> str:
    """`inner` at places of an axis that are not in a row, elsewhere `data`."""
    extent = call.builder.type(data).shape[axis]
    source, is_there = np.zeros(extent, np.int64), np.zeros(extent, np.bool_)
    source[places], is_there[places] = np.arange(len(places)), True
    spread = call.add("take", [inner, call.constant(source)], axis=axis, mode="clip")
    behind = [1] * (len(call.result.shape) - axis - 1)
    chosen = call.constant(is_there.reshape(extent, *behind))
    return call.add("where", [chosen, spread, data])


def _select_scatter(call: TorchCall) -> str:
    shape, kind = call.type("self").shape, call.result.dtype
    axis, index = call.axis(call.get("dim"), len(shape)), int(call.get("index"))
    start = index + shape[axis] if index < 0 else index
    new = [1 if d == axis else extent for d, extent in enumerate(shape)]
    inner, data = call.reshape(call.input("src", kind), new), call.input("self", kind)
    outer = (range(start), range(start + 1, shape[axis]))
    before, after = (part_along(call, data, axis, where) for where in outer)
    parts = [where for where in (before, inner, after) if isinstance(where, str)]
    return parts[0] if len(parts) == 1 else call.add("concat", parts, axis=axis)


def _copy(call: TorchCall) -> str:
    source, shape = call.input("src", call.result.dtype), call.result.shape
    if call.type("src").shape == shape:
        return source
    return call.add("broadcast_to", [source], shape=list(shape))


def _pad(operator: str) -> TorchConverter:
    """Margins, given for the last dimension first; negative ones cut."""

    def convert(call: TorchCall) -> Value:
        shape, pads = call.type("self").shape, call.get("pad", call.get("padding"))
        before, after = [0] * len(shape), [0] * len(shape)
        for d in range(len(pads) // 2):
            before[-1 - d], after[-1 - d] = pads[2 * d], pads[2 * d + 1]
        ranges = [
            range(max(0, -low), extent - max(0, -high))
            for low, high, extent in zip(before, after, shape, strict=True)
        ]
        data = add_slice(call.builder, call.input("self"), ranges)
        low, high = [max(0, margin) for margin in before], [max(0, margin) for margin in after]
        if not any(low) and not any(high):
            return data
        inner = [data] if isinstance(data, str) else [call.constant(data)]
        margins: dict[str, object] = {"before": low, "after": high}
        if operator == "pad":
            value = call.get("value", 0)
            is_integer = call.result.dtype.is_integer
            margins["value"] = int(value) if is_integer else float(value)
        return call.add(operator, inner, **margins)

    return convert


_RANKS = (1, 2, 3)
TORCH_SLICES: Mapping[str, TorchConverter] = {
    **{f"reflection_pad{d}d.default": _pad("reflect_pad") for d in _RANKS},
    **{f"replication_pad{d}d.default": _pad("edge_pad") for d in _RANKS},
    "cat.default": _cat,
    "col2im.default": _col2im,
    "constant_pad_nd.default": _pad("pad"),
    "copy.default": _copy,
    "diagonal.default": _diagonal,
    "flip.default": _flip,
    "im2col.default": _im2col,
    "narrow_copy.default": _narrow,
    "repeat.default": _repeat,
    "roll.default": _roll,
    "select.int": _select,
    "select_scatter.default": _select_scatter,
    "slice.Tensor": _slice,
    "slice_scatter.default": _slice_scatter,
    "split.Tensor": _split,
    "split_with_sizes.default": _split,
    "stack.default": _stack,
    "unbind.int": _unbind,
    "unfold.default": _unfold,
}
