"""ONNX operators on sequences of known length, and on optional values that are there or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.node_call import Converter, NodeCall, OnnxItem, OnnxSequence
from ansorc.graph.slices import add_slice


def _construct(call: NodeCall) -> OnnxItem:
    return OnnxSequence(tuple(_tensor(call, index) for index in range(call.count)))


def _at(call: NodeCall) -> OnnxItem:
    items = call.sequence(0)
    return items[_position(call, 1, len(items), len(items) - 1)]


def _insert(call: NodeCall) -> OnnxItem:
    items = list(call.sequence(0))
    position = _position(call, 2, len(items), len(items)) if call.has(2) else len(items)
    items.insert(position, _tensor(call, 1))
    return OnnxSequence(tuple(items))


def _erase(call: NodeCall) -> OnnxItem:
    items = list(call.sequence(0))
    last = len(items) - 1
    del items[_position(call, 1, len(items), last) if call.has(1) else last]
    return OnnxSequence(tuple(items))


def _position(call: NodeCall, index: int, length: int, last: int) -> int:
    """A position that must be known, at most `last`; negative ones count from the end."""
    values = call.require_known(index, "the position in the sequence")
    if values.size != 1:
        call.refuse(f"its position has {values.size} elements, not one")
    given = int(values.reshape(()))
    if not -length <= given <= last:
        call.refuse(f"there is no position {given} in a sequence of {length} tensors")
    return given if given >= 0 else given + length


def _split(call: NodeCall) -> OnnxItem:
    shape = call.type(0).shape
    axis = call.axis(call.attribute("axis", 0), len(shape))
    extent, drops = shape[axis], False
    if not call.has(1):
        lengths, drops = [1] * extent, not call.attribute("keepdims", 1)
    else:
        given = call.require_known(1, "the lengths of the parts")
        each = [int(size) for size in given.reshape(-1)]
        if given.ndim == 0 and each[0] > 0:
            lengths = [min(each[0], extent - start) for start in range(0, extent, each[0])]
        else:
            lengths = each
    if sum(lengths) != extent or min(lengths, default=1) < 0:
        call.refuse(f"the lengths {lengths} of its parts do not make {extent} elements")
    ends = np.cumsum([0, *lengths])
    return OnnxSequence(
        tuple(
            _part(call, axis, int(end) - length, int(end), drops=drops)
            for length, end in zip(lengths, ends[1:], strict=True)
        )
    )


def _part(call: NodeCall, axis: int, begin: int, end: int, *, drops: bool) -> Value:
    """The input from `begin` to `end` along an axis, which may be dropped."""
    value = call.value(0)
    if value is not None:
        return value.take(begin if drops else range(begin, end), axis)
    ranges = [range(extent) for extent in call.type(0).shape]
    ranges[axis] = range(begin, end)
    part = add_slice(call.builder, call.input(0), ranges)
    return call.add("squeeze", [part], axis=axis) if drops and isinstance(part, str) else part


def _concat(call: NodeCall) -> OnnxItem:
    items = call.sequence(0)
    if not items:
        call.refuse("its sequence is empty")
    is_new = bool(call.attribute("new_axis", 0))
    known = [item for item in items if not isinstance(item, str)]
    kinds = [call.type_of_value(item) for item in items]
    rank = len(kinds[0].shape) + is_new
    axis = call.axis(int(call.attribute("axis")), rank)
    if len(known) == len(items):
        return (np.stack if is_new else np.concatenate)(known, axis)
    pairs = zip(items, kinds, strict=True)
    names = [item if isinstance(item, str) else call.constant(item)
             for item, kind in pairs if kind.elements]  # fmt: skip
    if len(names) == 1 and not is_new:
        return names[0]
    return call.add("stack" if is_new else "concat", names, axis=axis)


def _tensor(call: NodeCall, index: int) -> Value:
    """An input that must be a tensor, known values with their values."""
    value = call.value(index)
    return call.input(index) if value is None else value


def _optional(call: NodeCall) -> OnnxItem | Sequence[OnnxItem]:
    if not call.has(0):
        call.refuse("it has no value, and what it is the value of is not known")
    return [call.item(0)]


def _has_element(call: NodeCall) -> OnnxItem:
    return np.array(call.has(0))


SEQUENCES: Mapping[str, Converter] = {
    "ConcatFromSequence": _concat,
    "Optional": _optional,
    "OptionalGetElement": _optional,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": lambda _: OnnxSequence(()),
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": lambda call: np.array(len(call.sequence(0)), np.int64),
    "SplitToSequence": _split,
}
