"""Which products between dequantised tensors are computed in integers, and which stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.passes.multiply_integers import multiply_integers
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import UINT8

RNG = np.random.default_rng(0)
UNITS = 4
DATA_SCALE, SCALES = np.float32(0.04), np.linspace(0.01, 0.02, UNITS, dtype=np.float32)
WEIGHT = RNG.integers(-127, 128, (3, UNITS)).astype(np.int8)
BIAS = RNG.integers(-99, 99, UNITS).astype(np.int32)


class Layer:
    """quantize(maybe relu(dequantize(x) @ dequantize_constant(weight) + bias)), as given."""

    def __init__(
        self,
        scales: Array = SCALES,
        axis: int = 1,
        bias_scales: Array = DATA_SCALE * SCALES,
        low: int = 0,
    ) -> None:
        self.builder = GraphBuilder()
        x = self.builder.input("x", TensorType(UINT8, (5, 3)))
        data = self.dequantize("dequantize", x, DATA_SCALE, np.uint8(120), -1)
        weight = self.dequantize(
            "dequantize_constant", self.builder.constant(WEIGHT), scales,
            np.zeros(scales.shape, np.int8), axis,
        )  # fmt: skip
        bias = self.dequantize(
            "dequantize_constant", self.builder.constant(BIAS), bias_scales,
            np.zeros(UNITS, np.int32), 0,
        )  # fmt: skip
        self.product = self.builder.add("matmul", [data, weight])
        self.sum = self.builder.add("add", [self.product, bias])
        self.low = np.uint8(low)

    def dequantize(self, operator: str, name: str, scale: Any, zero: Any, axis: int) -> str:
        parts = [name, self.builder.constant(scale), self.builder.constant(zero)]
        return self.builder.add(operator, parts, axis=axis)

    def quantized(self, name: str) -> Graph:
        parts = [name, *map(self.builder.constant, (np.float32(0.2), self.low))]
        output = self.builder.add("quantize", parts, dtype="uint8", axis=-1)
        return self.builder.graph([output])


def is_of_integers(graph: Graph) -> bool:
    """Return whether the product is one of integers; in any case the result is the same."""
    made = multiply_integers(graph)
    given = {"x": RNG.integers(0, 256, (5, 3)).astype(np.uint8)}
    (expected,), (computed,) = (run_reference(g, given).values() for g in (graph, made))
    np.testing.assert_allclose(computed, expected, rtol=1e-5)
    (rewritten,) = run_reference(Network.of(graph).graph, given).values()
    np.testing.assert_allclose(rewritten, expected, rtol=1e-5)
    return any(
        node.builtin == "matmul" and all(made.types[name].dtype.bits == 8 for name in node.inputs)
        for node in made.nodes
    )


def test_a_layer() -> None:
    layer = Layer()
    assert is_of_integers(layer.quantized(layer.sum))


@pytest.mark.parametrize(("low", "expected"), [(0, True), (9, False)])
def test_what_is_below_zero_is_cut_off_by_the_bytes(low: int, *, expected: bool) -> None:
    layer = Layer(low=low)
    positive = layer.builder.add("relu", [layer.sum])
    assert is_of_integers(layer.quantized(positive)) is expected


def test_scales_along_the_sums_stay() -> None:
    layer = Layer(scales=SCALES[:3], axis=0)
    assert not is_of_integers(layer.quantized(layer.product))


def test_a_bias_of_another_scale_stays() -> None:
    layer = Layer(bias_scales=DATA_SCALE * SCALES * np.float32(1.01))
    assert not is_of_integers(layer.quantized(layer.sum))


def test_a_result_that_is_read_twice_stays() -> None:
    layer = Layer()
    layer.builder.add("relu", [layer.product])
    assert not is_of_integers(layer.quantized(layer.sum))


def test_floats_that_nothing_quantises_stay() -> None:
    layer = Layer()
    assert not is_of_integers(layer.builder.graph([layer.sum]))


def test_known_values_become_a_node_of_the_parts_that_they_were_computed_from() -> None:
    builder, parts = GraphBuilder(), [("w", WEIGHT), ("", SCALES), ("", np.zeros(UNITS, np.int8))]
    value = WEIGHT.astype(np.float32) * SCALES
    builder.defer(value, "dequantize_constant", parts, axis=1)
    name = builder.tensor(value, "floats")
    assert builder.value(name) is value
    assert builder.tensor(value, "floats") == name == "floats"
    graph = builder.graph([name])
    assert [node.operator.name for node in graph.nodes] == ["dequantize_constant"]
    assert graph.constants["w"] is WEIGHT
    assert [array.tolist() for array in Network.of(graph).graph.constants.values()] == [
        value.tolist()
    ]
