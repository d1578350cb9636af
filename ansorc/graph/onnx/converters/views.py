"""ONNX operators that only give elements another shape, or whose results are shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.model import numpy_name
from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.ir.dtype import dtype

_AXES_ARE_INPUTS_SINCE = 13


def _shape(call: NodeCall) -> Value:
    shape = call.type(0).shape
    begin, end = call.attribute("start", 0), call.attribute("end", len(shape))
    return np.array(shape[begin:end], np.int64)


def _flatten(call: NodeCall) -> str:
    shape = call.type(0).shape
    axis = call.attribute("axis", 1)
    dimension = axis + len(shape) if axis < 0 else axis
    return call.add(
        "reshape",
        [call.input(0)],
        shape=[math.prod(shape[:dimension]), math.prod(shape[dimension:])],
    )


def _reshape(call: NodeCall) -> str:
    old = call.type(0).shape
    wanted = call.ints(1, "the new shape") if call.opset >= 5 else list(call.attribute("shape"))
    if not call.attribute("allowzero", 0):
        wanted = [old[d] if extent == 0 else extent for d, extent in enumerate(wanted)]
    return call.add("reshape", [call.input(0)], shape=wanted)


def _axes(call: NodeCall, rank: int) -> list[int] | None:
    """The axes of a Squeeze or Unsqueeze, counted from the front; None if they are not given."""
    if call.opset < _AXES_ARE_INPUTS_SINCE:
        axes = call.attribute("axes")
    else:
        axes = call.ints(1, "the axes") if call.has(1) else None
    return None if axes is None else [call.axis(axis, rank) for axis in axes]


def _squeeze(call: NodeCall) -> str:
    shape = call.type(0).shape
    axes = _axes(call, len(shape))
    left = [d for d, extent in enumerate(shape) if (extent > 1 if axes is None else d not in axes)]
    return call.add("reshape", [call.input(0)], shape=[shape[d] for d in left])


def _unsqueeze(call: NodeCall) -> str:
    count = len(call.attribute("axes") or call.ints(1, "the axes"))
    rank = call.rank(0) + count
    axes, rest = _axes(call, rank) or [], iter(call.type(0).shape)
    return call.add(
        "reshape", [call.input(0)], shape=[1 if d in axes else next(rest) for d in range(rank)]
    )


def _transpose(call: NodeCall) -> str:
    order = call.attribute("perm") or list(reversed(range(call.rank(0))))
    return call.add("transpose", [call.input(0)], order=order)


def _expand(call: NodeCall) -> str:
    shape = np.broadcast_shapes(call.type(0).shape, tuple(call.ints(1, "the new shape")))
    if shape == call.type(0).shape:
        return call.input(0)
    return call.add("broadcast_to", [call.input(0)], shape=[int(extent) for extent in shape])


def _space(call: NodeCall, shapes: Sequence[int], order: Sequence[int], new: Sequence[int]) -> str:
    split = call.add("reshape", [call.input(0)], shape=shapes)
    return call.add("reshape", [call.add("transpose", [split], order=order)], shape=new)


def _depth_to_space(call: NodeCall) -> str:
    n, c, h, w = call.type(0).shape
    b = int(call.attribute("blocksize"))
    new = [n, c // (b * b), h * b, w * b]
    if call.attribute("mode", "DCR") == "CRD":
        return _space(call, [n, c // (b * b), b, b, h, w], [0, 1, 4, 2, 5, 3], new)
    return _space(call, [n, b, b, c // (b * b), h, w], [0, 3, 4, 1, 5, 2], new)


def _space_to_depth(call: NodeCall) -> str:
    n, c, h, w = call.type(0).shape
    b = int(call.attribute("blocksize"))
    return _space(
        call, [n, c, h // b, b, w // b, b], [0, 3, 5, 1, 2, 4], [n, c * b * b, h // b, w // b]
    )


def _eye_like(call: NodeCall) -> Value:
    given, shape = call.attribute("dtype"), call.type(0).shape
    name = numpy_name(given) if given else str(call.type(0).dtype)
    return np.eye(shape[0], shape[1], int(call.attribute("k", 0)), dtype(name).numpy)


def _only_known(what: str) -> Converter:
    """An operator whose result has a shape that depends on values."""

    def convert(call: NodeCall) -> Value:
        for index in range(call.count):
            if call.has(index):
                call.require_known(index, what)
        call.refuse("it cannot be computed at import")

    return convert


VIEWS: Mapping[str, Converter] = {
    "BlackmanWindow": _only_known("the size of the window"),
    "ConstantOfShape": _only_known("the shape"),
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "HammingWindow": _only_known("the size of the window"),
    "HannWindow": _only_known("the size of the window"),
    "Identity": lambda call: call.item(0),
    "MelWeightMatrix": _only_known("a number of frequencies"),
    "NonZero": _only_known("what decides the shape of the result"),
    "Range": _only_known("an end of the range"),
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": lambda call: np.asarray(call.type(0).elements, np.int64),
    "SpaceToDepth": _space_to_depth,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unique": _only_known("what decides the shape of the result"),
    "Unsqueeze": _unsqueeze,
}
