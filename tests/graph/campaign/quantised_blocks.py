"""Blocks of quantised networks: chains of QDQ, and the operators on bytes."""

from __future__ import annotations

import numpy as np

from ansorc.ir.aligned import Array
from tests.graph.campaign.image_blocks import is_image
from tests.graph.campaign.network_writer import Block, NetworkWriter, Value

STEP = 0.05
"""The scale of activations: their numbers are around 1."""
SEVEN_BITS = (-64, 64)
"""The range of weights: without VNNI, ONNX Runtime adds pairs of products of bytes in 16 bits,
which only such weights never saturate."""


def _zero_point(net: NetworkWriter, *, is_signed: bool) -> Value:
    low, high = (-20, 20) if is_signed else (100, 150)
    number = net.rng.integers(low, high)
    return net.constant(np.array(number, np.int8 if is_signed else np.uint8))


def _scale(number: float) -> Array:
    return np.array(number, np.float32)


def round_trip(net: NetworkWriter, x: Value) -> Value | None:
    """Quantise and dequantise."""
    if x.dtype != np.float32:
        return None
    scale = net.constant(_scale(STEP))
    zero = _zero_point(net, is_signed=bool(net.rng.random() < 0.5))
    return net.add("DequantizeLinear", [net.add("QuantizeLinear", [x, scale, zero]), scale, zero])


def _weights(net: NetworkWriter, *shape: int) -> tuple[Value, Value, Value]:
    """Return int8 weights, a scale for each of their first axis, and zeros."""
    stored = net.constant(net.rng.integers(*SEVEN_BITS, shape).astype(np.int8))
    size = float(np.prod(shape[1:])) ** 0.5 * 35
    scales = net.constant((net.rng.uniform(0.5, 1.5, shape[0]) / size).astype(np.float32))
    return stored, scales, net.constant(np.zeros(shape[0], np.int8))


def convolution(net: NetworkWriter, x: Value) -> Value | None:
    """A convolution between QuantizeLinear and DequantizeLinear, with a bias of 32 bits."""
    if not is_image(x):
        return None
    x = round_trip(net, x) or x
    outputs, kernel = int(net.rng.choice([1, 4, 8])), int(net.rng.choice([1, 3]))
    stored, scales, zeros = _weights(net, outputs, x.shape[1], kernel, kernel)
    weights = net.add("DequantizeLinear", [stored, scales, zeros], axis=0)
    bias_scale = net.constant((net.initializers[scales.name] * STEP).astype(np.float32))
    stored_bias = net.constant(net.rng.integers(-500, 500, outputs).astype(np.int32))
    bias = net.add("DequantizeLinear", [stored_bias, bias_scale], axis=0)
    y = net.add("Conv", [x, weights, bias], pads=[kernel // 2] * 4)
    if net.rng.random() < 0.5:
        y = net.add("Relu", [y])
    y = round_trip(net, y)
    assert y is not None
    if y.shape == x.shape and net.rng.random() < 0.6:
        return round_trip(net, net.add("Add", [x, y]))
    return y


def product(net: NetworkWriter, x: Value) -> Value | None:
    """A dense layer between QuantizeLinear and DequantizeLinear."""
    if x.dtype != np.float32 or len(x.shape) < 2:
        return None
    x = round_trip(net, x) or x
    width = int(net.rng.choice([1, 5, 8]))
    stored = net.constant(net.rng.integers(*SEVEN_BITS, (x.shape[-1], width)).astype(np.int8))
    scale = net.constant(_scale(1 / (35 * x.shape[-1] ** 0.5)))
    zero = net.constant(np.array(0, np.int8))
    y = net.add("MatMul", [x, net.add("DequantizeLinear", [stored, scale, zero])])
    return round_trip(net, y)


def bytes_convolution(net: NetworkWriter, x: Value) -> Value | None:
    """QLinearConv."""
    if not is_image(x):
        return None
    outputs, kernel = int(net.rng.choice([2, 8])), int(net.rng.choice([1, 3]))
    stored, scales, zeros = _weights(net, outputs, x.shape[1], kernel, kernel)
    scale, zero = net.constant(_scale(STEP)), _zero_point(net, is_signed=False)
    quantised = net.add("QuantizeLinear", [x, scale, zero])
    bias = net.constant(net.rng.integers(-500, 500, outputs).astype(np.int32))
    out_scale, out_zero = net.constant(_scale(STEP)), _zero_point(net, is_signed=False)
    inputs = [quantised, scale, zero, stored, scales, zeros, out_scale, out_zero, bias]
    y = net.add("QLinearConv", inputs, pads=[kernel // 2] * 4)
    return net.add("DequantizeLinear", [y, out_scale, out_zero])


def dynamic_product(net: NetworkWriter, x: Value) -> Value | None:
    """A product whose left operand is quantised by its own range."""
    if x.dtype != np.float32 or len(x.shape) < 2:
        return None
    quantised, scale, zero = net.add_many("DynamicQuantizeLinear", [x], 3)
    width = int(net.rng.choice([1, 5, 8]))
    stored = net.constant(net.rng.integers(*SEVEN_BITS, (x.shape[-1], width)).astype(np.int8))
    y = net.add("MatMulInteger", [quantised, stored, zero])
    y = net.add("Mul", [net.add("Cast", [y], to=1), scale])
    return net.add("Mul", [y, net.constant(_scale(1 / (35 * x.shape[-1] ** 0.5)))])


def pool(net: NetworkWriter, x: Value) -> Value | None:
    if not is_image(x) or min(x.shape[2:]) < 2:
        return None
    y = round_trip(net, x)
    assert y is not None
    operator = str(net.rng.choice(["MaxPool", "AveragePool"]))
    return round_trip(net, net.add(operator, [y], kernel_shape=[2, 2], strides=[2, 2]))


QUANTISED: tuple[Block, ...] = (
    convolution,
    convolution,
    product,
    bytes_convolution,
    dynamic_product,
    pool,
)
