"""Residual sums of bytes are computed as matrices, in the kernel of a product."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.passes.cleanup import remove_dead_nodes
from ansorc.graph.passes.sink_reshapes import sink_reshapes
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32, INT32, UINT8

SHAPE = (1, 32, 6, 5)


def residual(*, projects: bool) -> ac.Graph:
    """Return a float network: two pointwise convolutions beside their input, or beside another."""
    rng, builder = np.random.default_rng(3), GraphBuilder("net")

    def convolve(data: str) -> str:
        weights = builder.constant(rng.normal(size=(32, 32, 1, 1)).astype(np.float32))
        return builder.add("conv2d", [data, weights], layout="NCHW")

    x = builder.input("x", TensorType(FLOAT32, SHAPE))
    first = builder.add("relu", [convolve(x)])
    left = convolve(builder.add("relu", [convolve(first)]))
    right = convolve(first) if projects else first
    total = builder.add("relu", [builder.add("add", [left, right])])
    pooled = builder.add("max_pool2d", [total], kernel=2, stride=2, layout="NCHW")
    return builder.graph([convolve(pooled)])


@pytest.mark.parametrize("projects", [False, True])
def test_a_residual_sum_is_in_the_kernel_of_a_product(*, projects: bool) -> None:
    rng = np.random.default_rng(4)
    graph, x = residual(projects=projects), rng.normal(size=(4, *SHAPE[1:])).astype(np.float32)
    quantized = ac.quantize(graph, {"x": x})
    groups = Network.of(quantized).partition.groups
    (summing,) = [group for group in groups if "add" in [node.builtin for node in group.nodes]]
    assert "matmul" in summing.name
    assert summing.name.count("dequantize") == 2
    kinds = Network.of(quantized).graph.types
    between = [kinds[name].dtype for group in groups[:-2] for name in group.outputs]
    assert between == [UINT8] * (6 if projects else 5)
    inputs = {"x": x[:1]}
    (exact,), (found,) = (run_reference(each, inputs).values() for each in (graph, quantized))
    assert np.abs(found - exact).max() < 0.06 * np.abs(exact).max()
    (out,) = ac.build(quantized).run(inputs).values()
    assert np.abs(out - found).max() < 0.02 * np.abs(found).max()


def shaped(builder: GraphBuilder) -> str:
    """Return requantised sums of a matrix as an image."""
    sums = builder.input("sums", TensorType(INT32, (30, 8)))
    factor = builder.constant(np.float32(0.25))
    data = builder.add("requantize", [sums, factor], dtype="uint8")
    return builder.add("reshape", [data], shape=(1, 6, 5, 8))


def shapes_of(graph: ac.Graph) -> list[str]:
    made = remove_dead_nodes(sink_reshapes(graph))
    inputs = {"sums": np.random.default_rng(5).integers(0, 999, (30, 8)).astype(np.int32)}
    (old,), (new,) = (run_reference(each, inputs).values() for each in (graph, made))
    np.testing.assert_array_equal(old, new)
    return [f"{node.operator} {made.types[node.name].shape}" for node in made.nodes]


def test_floats_of_bytes_are_made_by_their_reader() -> None:
    builder = GraphBuilder()
    floats = builder.add("dequantize", [shaped(builder), builder.constant(np.float32(0.5))])
    pooled = builder.add("max_pool2d", [floats], kernel=2, stride=2, layout="NHWC")
    assert shapes_of(builder.graph([pooled]))[1:] == [
        "reshape (1, 6, 5, 8)", "dequantize (1, 6, 5, 8)", "max_pool2d (1, 3, 2, 8)",
    ]  # fmt: skip


def test_a_scale_for_each_place_keeps_the_image() -> None:
    builder = GraphBuilder()
    scale = builder.constant(np.arange(1, 6, dtype=np.float32))
    graph = builder.graph([builder.add("dequantize", [shaped(builder), scale], axis=2)])
    assert shapes_of(graph)[1:] == ["reshape (1, 6, 5, 8)", "dequantize (1, 6, 5, 8)"]


def test_images_of_two_matrices_are_added_as_matrices() -> None:
    builder = GraphBuilder()
    half = builder.constant(np.float32(0.5))
    image = shaped(builder)
    parts = [builder.add("dequantize", [image, half]) for _ in range(2)]
    graph = builder.graph([builder.add("relu", [builder.add("add", parts)])])
    assert shapes_of(graph)[-3:] == ["add (30, 8)", "relu (30, 8)", "reshape (1, 6, 5, 8)"]
