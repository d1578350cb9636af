"""Which products of dequantised tensors are computed in integers, and which results stay so."""

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


def builtins_of(graph: Graph) -> set[str]:
    """Return the operators of the rewritten network, whose results are those of the given one.

    "integer matmul" is one of bytes.
    """
    made = multiply_integers(graph)
    given = {"x": RNG.integers(0, 256, (5, 3)).astype(np.uint8)}
    (expected,), (computed,) = (run_reference(g, given).values() for g in (graph, made))
    np.testing.assert_allclose(computed, expected, rtol=1e-5)
    (rewritten,) = run_reference(Network.of(graph).graph, given).values()
    np.testing.assert_allclose(rewritten, expected, rtol=1e-5)
    return {
        f"integer {node.builtin}"
        if node.inputs and all(made.types[name].dtype.bits == 8 for name in node.inputs)
        else node.builtin
        for node in made.nodes
    }


def becomes_bytes(graph: Graph) -> bool:
    """Return whether the sums of a product of integers become bytes, without floats between."""
    made = builtins_of(graph)
    return "integer matmul" in made and "requantize" in made


def becomes_floats(graph: Graph) -> bool:
    """Return whether the sums of a product of integers become floats."""
    made = builtins_of(graph)
    return "integer matmul" in made and "requantize" not in made and "multiply" in made


def test_a_layer() -> None:
    layer = Layer()
    assert becomes_bytes(layer.quantized(layer.sum))


@pytest.mark.parametrize(("low", "expected"), [(0, True), (9, False)])
def test_what_is_below_zero_is_cut_off_by_the_bytes(low: int, *, expected: bool) -> None:
    layer = Layer(low=low)
    positive = layer.builder.add("relu", [layer.sum])
    graph = layer.quantized(positive)
    assert becomes_bytes(graph) is expected
    assert becomes_floats(graph) is not expected


def test_scales_along_the_sums_stay() -> None:
    layer = Layer(scales=SCALES[:3], axis=0)
    assert "integer matmul" not in builtins_of(layer.quantized(layer.product))


def test_a_bias_of_another_scale_is_added_to_floats() -> None:
    layer = Layer(bias_scales=DATA_SCALE * SCALES * np.float32(1.01))
    assert becomes_floats(layer.quantized(layer.sum))


def test_a_result_that_is_read_twice_becomes_floats() -> None:
    layer = Layer()
    layer.builder.add("relu", [layer.product])
    assert becomes_floats(layer.quantized(layer.sum))


def test_sums_that_nothing_quantises_become_floats() -> None:
    layer = Layer()
    assert becomes_floats(layer.builder.graph([layer.sum]))


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
