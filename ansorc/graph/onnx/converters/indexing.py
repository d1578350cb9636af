"""ONNX operators that read or write at places that a tensor holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.graph.slices import add_slice
from ansorc.graph.sorting import add_top_k
from ansorc.ir.aligned import Array


def _gather(call: NodeCall) -> Value:
    shape = call.type(0).shape
    axis = call.axis(call.attribute("axis", 0), len(shape))
    known = call.value(1)
    if known is None:
        return call.add("take", [call.input(0), call.input(1)], axis=axis, mode="from_end")
    return _take_known(call, axis, known)


def _take_known(call: NodeCall, axis: int, known: Array) -> Value:
    """Add the elements at places along `axis` that are known: a slice, where they are in a row."""
    shape = call.type(0).shape
    places = np.where(known < 0, known + shape[axis], known).astype(np.int64)
    if places.min(initial=0) < 0 or places.max(initial=0) >= shape[axis]:
        call.refuse(f"an index lies outside of axis {axis}, which has {shape[axis]} elements")
    row = _range(places.ravel().tolist())
    if row is None:
        inputs = [call.input(0), call.constant(places)]
        return call.add("take", inputs, axis=axis, mode="clip")
    ranges = [range(extent) for extent in shape]
    ranges[axis] = row
    part = add_slice(call.builder, call.input(0), ranges)
    new = [*shape[:axis], *places.shape, *shape[axis + 1 :]]
    if not isinstance(part, str):
        return part.reshape(new)
    return part if places.ndim == 1 else call.add("reshape", [part], shape=new)


def _range(places: Sequence[int]) -> range | None:
    """`places` as a range, None if they are not equally far apart."""
    if len(places) < 2:
        return range(places[0], places[0] + 1) if places else range(0)
    step = places[1] - places[0]
    if not step or any(b - a != step for a, b in pairwise(places)):
        return None
    return range(places[0], places[-1] + (1 if step > 0 else -1), step)


def _gather_elements(call: NodeCall) -> str:
    axis = call.axis(call.attribute("axis", 0), call.rank(0))
    return call.add("gather", [call.input(0), call.input(1)], axis=axis, mode="from_end")


def _gather_nd(call: NodeCall) -> str:
    inputs = [call.input(0), call.input(1)]
    return call.add("gather_nd", inputs, batch_dims=call.attribute("batch_dims", 0))


def _scatter_elements(call: NodeCall) -> str:
    places = call.value(1)
    if places is not None and not places.size:
        return _as_it_is(call)
    axis = call.axis(call.attribute("axis", 0), call.rank(0))
    combine = call.attribute("reduction", "none")
    return call.add("scatter_elements", call.inputs(), axis=axis, combine=combine)


def _as_it_is(call: NodeCall) -> str:
    """The data, as there are no updates."""
    call.value(2)
    return call.input(0)


def _scatter_nd(call: NodeCall) -> str:
    known = call.value(1)
    if known is not None and 0 in known.shape[:-1]:
        return _as_it_is(call)
    data, places = call.type(0).shape, call.type(1).shape
    count = int(np.prod(places[:-1], dtype=np.int64))
    indices = call.add("reshape", [call.input(1)], shape=[count, places[-1]])
    updates = call.add("reshape", [call.input(2)], shape=[count, *data[places[-1] :]])
    combine = call.attribute("reduction", "none")
    return call.add("scatter_nd", [call.input(0), indices, updates], combine=combine)


def _one_hot(call: NodeCall) -> str:
    (depth,) = call.ints(1, "the depth")
    axis = call.axis(call.attribute("axis", -1), call.rank(0) + 1)
    return call.add("one_hot_values", [call.input(0), call.input(2)], depth=depth, axis=axis)


def _top_k(call: NodeCall) -> Sequence[Value]:
    k = call.ints(1, "the number k")[0] if call.opset >= 10 else call.attribute("k")
    axis = call.axis(call.attribute("axis", -1), call.rank(0))
    largest = bool(call.attribute("largest", 1))
    if k == 0:
        shape = [0 if d == axis else n for d, n in enumerate(call.type(0).shape)]
        return [np.zeros(shape, kind) for kind in (call.type(0).dtype.numpy, np.int64)]
    return add_top_k(call.builder, call.input(0), int(k), axis, largest=largest)


def _compress(call: NodeCall) -> Value:
    condition = np.flatnonzero(call.require_known(1, "the condition"))
    axis = call.attribute("axis")
    if axis is not None:
        return _take_known(call, call.axis(axis, call.rank(0)), condition)
    flat = call.add("reshape", [call.input(0)], shape=[call.type(0).elements])
    if condition.size and condition[-1] >= call.type(0).elements:
        call.refuse(f"its condition chooses element {condition[-1]}, which there is not")
    return call.add("take", [flat, call.constant(condition)], axis=0, mode="clip")


def _reverse_sequence(call: NodeCall) -> str:
    return call.add(
        "reverse_sequence",
        [call.input(0), call.input(1)],
        batch_axis=call.attribute("batch_axis", 1),
        time_axis=call.attribute("time_axis", 0),
    )


def _tensor_scatter(call: NodeCall) -> str:
    return call.add(
        "overwrite",
        call.inputs(),
        axis=call.axis(call.attribute("axis", -2), call.rank(0)),
        is_circular=call.attribute("mode", "linear") == "circular",
    )


INDEXING: Mapping[str, Converter] = {
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "TopK": _top_k,
}
