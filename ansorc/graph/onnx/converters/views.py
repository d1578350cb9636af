"""ONNX operators that move elements: shapes, slices, joins."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ansorc.graph.onnx.node_call import Converter, NodeCall, OnnxValue


def _shape(call: NodeCall) -> OnnxValue:
    shape = call.type(0).shape
    begin, end = call.attribute("start", 0), call.attribute("end", len(shape))
    return np.array(shape[begin:end], np.int64)


def _flatten(call: NodeCall) -> str:
    shape = call.type(0).shape
    axis = call.attribute("axis", 1)
    place = axis + len(shape) if axis < 0 else axis
    return call.add(
        "reshape", [call.input(0)], shape=[math.prod(shape[:place]), math.prod(shape[place:])]
    )


def _reshape(call: NodeCall) -> str:
    old = call.type(0).shape
    wanted = call.ints(1, "the new shape") if call.opset >= 5 else list(call.attribute("shape"))
    if not call.attribute("allowzero", 0):
        wanted = [old[d] if extent == 0 else extent for d, extent in enumerate(wanted)]
    return call.add("reshape", [call.input(0)], shape=wanted)


def _transpose(call: NodeCall) -> str:
    order = call.attribute("perm") or list(reversed(range(call.rank(0))))
    return call.add("transpose", [call.input(0)], order=order)


def _concat(call: NodeCall) -> str:
    return call.add("concat", call.inputs(), axis=call.attribute("axis", 1))


VIEWS: Mapping[str, Converter] = {
    "Concat": _concat,
    "Flatten": _flatten,
    "Identity": lambda call: call.input(0),
    "Reshape": _reshape,
    "Shape": _shape,
    "Transpose": _transpose,
}
