"""What stands between layers: activations, broadcasts, reductions, views, places."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.graph.campaign.network_writer import Block, NetworkWriter, Value

ACTIVATIONS = (
    "Relu", "Sigmoid", "Tanh", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid", "HardSwish",
    "Softplus", "Softsign", "ThresholdedRelu", "Erf", "Abs", "Neg", "Identity",
)  # fmt: skip


def is_float(value: Value) -> bool:
    return value.dtype == np.float32


def activation(net: NetworkWriter, x: Value) -> Value | None:
    if not is_float(x):
        return None
    return net.add(str(net.rng.choice(ACTIVATIONS)), [x])


def composed_activation(net: NetworkWriter, x: Value) -> Value | None:
    """SiLU, GELU in both forms, Mish, clipping: as exporters write them."""
    if not is_float(x):
        return None

    def scalar(number: float) -> Value:
        return net.constant(np.array(number, np.float32))

    match int(net.rng.integers(5)):
        case 0:
            return net.add("Mul", [x, net.add("Sigmoid", [x])])
        case 1:
            inner = net.add("Erf", [net.add("Div", [x, scalar(np.sqrt(2))])])
            half = net.add("Mul", [x, net.add("Add", [inner, scalar(1)])])
            return net.add("Mul", [half, scalar(0.5)])
        case 2:
            cube = net.add("Pow", [x, scalar(3)])
            inner = net.add("Add", [x, net.add("Mul", [cube, scalar(0.044715)])])
            tanh = net.add("Tanh", [net.add("Mul", [inner, scalar(0.7978845608)])])
            half = net.add("Mul", [x, scalar(0.5)])
            return net.add("Mul", [half, net.add("Add", [tanh, scalar(1)])])
        case 3:
            return net.add("Mul", [x, net.add("Tanh", [net.add("Softplus", [x])])])
        case _:
            return net.add("Clip", [x, scalar(-0.5), scalar(1.5)])


def binary(net: NetworkWriter, x: Value) -> Value | None:
    """Combine with a constant that is broadcast, or with an earlier value of the same shape."""
    if not is_float(x):
        return None
    earlier = [one for one in net.values if one.shape == x.shape and is_float(one)]
    if net.rng.random() < 0.5:
        other = earlier[int(net.rng.integers(len(earlier)))]
    else:
        first = int(net.rng.integers(len(x.shape) + 1))
        shape = [1 if net.rng.random() < 0.4 else extent for extent in x.shape[first:]]
        other = net.weights(*shape, scale=1.0)
    operator = str(net.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Add", "Div"]))
    if operator == "Div":
        other = net.add("Add", [net.add("Abs", [other]), net.constant(np.array([0.5], np.float32))])
    pair = [x, other] if net.rng.random() < 0.7 else [other, x]
    return net.add(operator, pair) if operator != "Div" else net.add("Div", [x, other])


def reduction(net: NetworkWriter, x: Value) -> Value | None:
    if not is_float(x) or len(x.shape) < 2:
        return None
    operator = str(
        net.rng.choice(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSum"])
    )
    axes = sorted({int(net.rng.integers(len(x.shape))) for _ in range(2)})
    keep = int(net.rng.random() < 0.6)
    if operator == "ReduceSum" or net.opset >= 18:
        return net.add(operator, [x, net.integers(*axes)], keepdims=keep)
    return net.add(operator, [x], axes=axes, keepdims=keep)


def ranking(net: NetworkWriter, x: Value) -> Value | None:
    """Sort out the largest, sum along an axis, or take the first of the largest."""
    if not is_float(x) or not x.shape:
        return None
    axis = int(net.rng.integers(len(x.shape)))
    match int(net.rng.integers(3)):
        case 0:
            count = net.integers(int(net.rng.integers(1, x.shape[axis] + 1)))
            return net.add_many("TopK", [x, count], 2, axis=axis)[0]
        case 1:
            where = net.constant(np.array(axis, np.int64))
            reverse = int(net.rng.random() < 0.5)
            return net.add("CumSum", [x, where], reverse=reverse)
        case _:
            index = net.add("ArgMax", [x], axis=axis, keepdims=1)
            return net.add("Add", [x, net.add("Cast", [index], to=1)])


def view(net: NetworkWriter, x: Value) -> Value | None:
    """Transpose, reshape, or add and take away an axis of extent 1."""
    if not x.shape:
        return None
    rank = len(x.shape)
    match int(net.rng.integers(4)):
        case 0:
            return net.add("Transpose", [x], perm=[int(p) for p in net.rng.permutation(rank)])
        case 1 if rank >= 2:
            at = int(net.rng.integers(rank - 1))
            shape = [*x.shape[:at], -1, *x.shape[at + 2 :]]
            return net.add("Reshape", [x, net.integers(*shape)])
        case 2 if rank < 4:
            at = net.integers(int(net.rng.integers(rank + 1)))
            return net.add("Unsqueeze", [x, at])
        case _:
            split = [n for n, extent in enumerate(x.shape) if extent in {4, 8, 12, 16}]
            if not split or rank > 3:
                return None
            shape = [*x.shape[: split[0]], 2, x.shape[split[0]] // 2, *x.shape[split[0] + 1 :]]
            return net.add("Reshape", [x, net.integers(*shape)])


def part(net: NetworkWriter, x: Value) -> Value | None:
    """Slice forwards or backwards, gather at constant places, split in two, or pad."""
    if not x.shape:
        return None
    axis = int(net.rng.integers(len(x.shape)))
    extent = x.shape[axis]
    match int(net.rng.integers(4)):
        case 0:
            step = int(net.rng.choice([1, 1, 2, -1, -2]))
            low = int(net.rng.integers(0, extent // 2 + 1))
            start, stop = (low, extent) if step > 0 else (extent - 1, -extent - 1)
            numbers = (start, stop, axis, step)
            return net.add("Slice", [x, *(net.integers(one) for one in numbers)])
        case 1:
            places = net.rng.integers(-extent, extent, int(net.rng.integers(1, 6)))
            return net.add("Gather", [x, net.integers(*map(int, places))], axis=axis)
        case 2 if extent >= 2:
            sizes = net.integers(1, extent - 1)
            first, second = net.add_many("Split", [x, sizes], 2, axis=axis)
            return net.add("Concat", [second, first, second], axis=axis)
        case _:
            pads = net.rng.integers(0, 2, 2 * len(x.shape))
            mode = str(net.rng.choice(["constant", "edge"]))
            return net.add("Pad", [x, net.integers(*map(int, pads))], mode=mode)


def choice(net: NetworkWriter, x: Value) -> Value | None:
    """Choose between two values by a comparison."""
    if not is_float(x):
        return None
    limit = net.constant(np.array(0.25, np.float32))
    operator = str(net.rng.choice(["Less", "Greater", "LessOrEqual"]))
    holds = net.add(operator, [x, limit])
    return net.add("Where", [holds, x, net.add("Mul", [x, limit])])


def normalization(net: NetworkWriter, x: Value) -> Value | None:
    """Softmax, layer norm as one operator or as its parts."""
    if not is_float(x) or not x.shape:
        return None
    match int(net.rng.integers(3)):
        case 0:
            axis = int(net.rng.integers(-len(x.shape), len(x.shape)))
            return net.add(str(net.rng.choice(["Softmax", "LogSoftmax"])), [x], axis=axis)
        case 1 if net.opset >= 17:
            size = x.shape[-1]
            return net.add(
                "LayerNormalization", [x, net.weights(size, scale=1), net.weights(size, scale=1)]
            )
        case _:
            axes: dict[str, Any] = {"axes": [-1]} if net.opset < 18 else {}
            more = [] if axes else [net.integers(-1)]
            centred = net.add("Sub", [x, net.add("ReduceMean", [x, *more], **axes)])
            square = net.add("Mul", [centred, centred])
            variance = net.add("ReduceMean", [square, *more], **axes)
            shifted = net.add("Add", [variance, net.constant(np.array(1e-3, np.float32))])
            return net.add("Div", [centred, net.add("Sqrt", [shifted])])


ELEMENTWISE: tuple[Block, ...] = (
    activation, composed_activation, binary, reduction, ranking, view, part, choice, normalization,
)  # fmt: skip
