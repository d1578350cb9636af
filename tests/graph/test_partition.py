"""Which nodes become one kernel, and where tensors lie between them."""

import numpy as np
import pytest

from ansorc.graph.arena import place_in_arena
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.partition import Lifetime, least_bytes, lifetimes, partition
from ansorc.graph.passes.pipeline import optimize_graph
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from ansorc.lang.reference import evaluate
from tests.graph.small_networks import NETWORKS, inputs_of


def titles(graph: Graph) -> list[str]:
    return [group.title for group in partition(graph).groups]


def test_what_is_done_to_a_product_is_done_in_its_kernel() -> None:
    assert titles(optimize_graph(NETWORKS["residual"]())) == [
        "transpose + conv2d + bias_add + relu",
        "transpose + conv2d + bias_add + add + relu",
        "global_avg_pool",
        "matmul + add",
    ]


def test_gelu_of_parts_is_one_epilogue() -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType(FLOAT32, (32, 64)))
    y = b.add("matmul", [x, b.constant(np.ones((64, 64), np.float32))])
    half = b.add("multiply", [y, b.scalar(0.5, y)])
    inner = b.add("erf", [b.add("multiply", [y, b.scalar(0.7, y)])])
    z = b.add("multiply", [half, b.add("add", [inner, b.scalar(1, y)])])
    assert len(titles(b.graph([z]))) == 1


def test_a_result_that_others_need_ends_a_kernel() -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType(FLOAT32, (32, 64)))
    w = b.constant(np.ones((64, 64), np.float32))
    y = b.add("relu", [b.add("matmul", [x, w])])
    z = b.add("add", [b.add("matmul", [y, w]), y])
    assert titles(b.graph([z])) == ["matmul + relu", "matmul + add"]


def test_elementwise_nodes_join_the_reduction_behind_them() -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType(FLOAT32, (32, 64)))
    y = b.add("softmax", [b.add("multiply", [x, b.scalar(2.0, x)])], axis=-1)
    assert titles(b.graph([y])) == ["multiply + softmax"]


def test_what_follows_a_product_computes_what_only_it_reads() -> None:
    """Each element of it is read once; what the product itself reads is not computed there."""
    b = GraphBuilder()
    x, r = (b.input(name, TensorType(FLOAT32, (64, 64))) for name in "xr")
    w = b.constant(np.ones((64, 64), np.float32))
    wide, factor = b.add("exp", [r]), b.add("tanh", [x])
    z = b.add("add", [b.add("matmul", [factor, w]), wide])
    assert titles(b.graph([z])) == ["tanh", "exp + matmul + add"]
    y = b.add("multiply", [z, wide])
    assert titles(b.graph([b.add("copy", [z]), y]))[:2] == ["exp", "tanh"]


def test_numbers_become_wide_in_the_kernel_that_adds_them() -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType(FLOAT32, (64, 64)))
    w, one = b.constant(np.ones((64, 64), np.float32)), b.constant(np.float32(1))
    sums = [b.add("quantize", [b.add("matmul", [x, w]), one]) for _ in range(2)]
    z = b.add("add", [b.add("dequantize", [each, one]) for each in sums])
    assert titles(b.graph([z])) == [
        "matmul + quantize", "matmul + quantize + dequantize + dequantize + add",
    ]  # fmt: skip


def test_a_movement_of_elements_is_done_by_each_reader() -> None:
    graph = optimize_graph(NETWORKS["attention"]())
    assert "transpose + transpose + matmul + multiply + add" in titles(graph)
    assert "transpose + matmul + transpose" in titles(graph)


def test_movements_in_a_row_are_done_by_all_readers() -> None:
    b = GraphBuilder()
    x = b.input("x", TensorType(FLOAT32, (64, 32)))
    turned = b.add("transpose", [x], order=[1, 0])
    turned = b.add("flip", [turned], axis=[0])
    w = b.constant(np.ones((64, 64), np.float32))
    one = b.add("exp", [b.add("matmul", [turned, w])])
    other = b.add("matmul", [turned, b.add("exp", [w])])
    graph = b.graph([one, other])
    parts = partition(graph)
    assert [group.inputs[0] for group in parts.groups if "matmul" in group.title] == ["x", "x"]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_kernels_compute_the_network(name: str) -> None:
    graph = optimize_graph(NETWORKS[name]())
    parts, inputs = partition(graph), inputs_of(graph)
    values = {**inputs, **graph.constants}
    for group in parts.groups:
        given = [values[parts.root(n)].reshape(graph.types[n].shape) for n in group.inputs]
        values.update(zip(group.outputs, evaluate(group.dag(graph), given), strict=True))
    for output, expected in run_reference(graph, inputs).items():
        found = values[parts.root(output)].reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_arena_is_hardly_larger_than_it_must_be(name: str) -> None:
    graph = optimize_graph(NETWORKS[name]())
    parts = partition(graph)
    _, size = place_in_arena(lifetimes(graph, parts))
    lives = lifetimes(graph, parts)
    rounding = 64 * len(lives)
    assert least_bytes(graph, parts) <= size <= 1.1 * least_bytes(graph, parts) + rounding


def test_tensors_that_live_at_one_time_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        firsts = rng.integers(0, 20, 15)
        lives = [
            Lifetime(
                f"t{n}", int(rng.integers(1, 5000)), int(first), int(first + rng.integers(0, 6))
            )
            for n, first in enumerate(firsts)
        ]
        offsets, size = place_in_arena(lives)
        for one in lives:
            assert offsets[one.name] % 64 == 0
            assert offsets[one.name] + one.bytes <= size
            for other in lives:
                if one is other or one.first > other.last or other.first > one.last:
                    continue
                begin, end = offsets[one.name], offsets[one.name] + one.bytes
                assert end <= offsets[other.name] or offsets[other.name] + other.bytes <= begin
