"""Rewrites of graphs: what they keep, and what they make."""

import gc
import weakref
from collections.abc import Mapping

import numpy as np
import pytest

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.passes.channels_last import channels_last
from ansorc.graph.passes.cleanup import copy_outputs, merge_equal_nodes, remove_dead_nodes
from ansorc.graph.passes.fold_affine import fold_affine
from ansorc.graph.passes.fold_constants import fold_constants
from ansorc.graph.passes.move_views import cancel_views, sink_transposes
from ansorc.graph.passes.pipeline import optimize_graph
from ansorc.graph.passes.sink_scales import sink_scales
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from tests.graph.small_networks import NETWORKS, inputs_of


def operators(graph: Graph) -> list[str]:
    return [str(node.operator) for node in graph.nodes]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_pass_keeps_the_results(name: str) -> None:
    graph = NETWORKS[name]()
    inputs = inputs_of(graph)
    expected = run_reference(graph, inputs)

    def check(name: str, result: Graph) -> None:
        found = run_reference(result, inputs)
        assert len(found) == len(expected), name
        for one, other in zip(found.values(), expected.values(), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6, err_msg=name)

    final = optimize_graph(graph, trace=check)
    assert final.outputs == graph.outputs


def test_no_pass_holds_the_weights_of_a_graph_that_it_rewrote() -> None:
    """Without the collector of cycles: a build needs three times the weights at most."""
    gc.disable()
    try:
        graphs = list[weakref.ref[Graph]]()
        final = optimize_graph(
            NETWORKS["residual"](), trace=lambda _, each: graphs.append(weakref.ref(each))
        )
        assert {each() for each in graphs} == {final, None}
    finally:
        gc.enable()


def test_a_batch_norm_disappears_in_the_weights() -> None:
    graph = remove_dead_nodes(fold_affine(NETWORKS["residual"]()))
    assert "batch_norm" not in operators(graph)
    assert operators(graph).count("bias_add") == 2


def test_one_transposition_is_left_at_the_input() -> None:
    graph = optimize_graph(NETWORKS["residual"]())
    assert operators(graph) == [
        "transpose", "conv2d", "bias_add", "relu", "conv2d", "bias_add", "add", "relu",
        "global_avg_pool", "matmul", "add",
    ]  # fmt: skip


def chain(*steps: tuple[str, Mapping[str, object]]) -> Graph:
    builder = GraphBuilder()
    name = builder.input("x", TensorType(FLOAT32, (2, 3, 1, 4)))
    for operator, given in steps:
        name = builder.add(operator, [name], "", **given)
    return builder.graph([name])


def test_transpositions_cancel() -> None:
    there, back = {"order": [0, 2, 3, 1]}, {"order": [0, 3, 1, 2]}
    graph = sink_transposes(chain(("transpose", there), ("relu", {}), ("transpose", back)))
    assert operators(graph) == ["relu"]


def test_a_reduction_without_its_dimensions_keeps_the_order_of_the_others() -> None:
    graph = chain(("transpose", {"order": [3, 0, 1, 2]}), ("sum", {"axis": [1]}))
    x = inputs_of(graph)["x"]
    (found,) = run_reference(sink_transposes(graph), {"x": x}).values()
    np.testing.assert_allclose(found, x.transpose(3, 0, 1, 2).sum(1), rtol=1e-5, atol=1e-6)


def test_moving_extents_of_one_is_a_reshape() -> None:
    graph = cancel_views(
        chain(("transpose", {"order": [2, 0, 1, 3]}), ("reshape", {"shape": [24]}))
    )
    assert operators(remove_dead_nodes(graph)) == ["reshape"]


def test_equal_nodes_are_computed_once() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (4,)))
    one, other = builder.add("exp", [x]), builder.add("exp", [x])
    graph = merge_equal_nodes(builder.graph([builder.add("multiply", [one, other])]))
    assert operators(graph) == ["exp", "multiply"]


def test_constants_are_computed_once_and_for_all() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (4,)))
    c = builder.constant(np.arange(4, dtype=np.float32))
    y = builder.add("add", [x, builder.add("exp", [c])], "y")
    graph = fold_constants(builder.graph([y]))
    assert operators(graph) == ["add"]
    np.testing.assert_allclose(run_reference(graph, {"x": np.zeros(4)})["y"], np.exp(np.arange(4)))


def test_a_constant_that_would_be_large_stays_a_node() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (1024, 1024)))
    c = builder.constant(np.ones((1,), np.float32))
    wide = builder.add("broadcast_to", [c], shape=[1024, 1024])
    graph = fold_constants(builder.graph([builder.add("add", [x, wide])]))
    assert operators(graph) == ["broadcast_to", "add"]


def test_a_convolution_of_single_channels_becomes_depthwise() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (1, 4, 6, 6)))
    w = builder.constant(np.random.default_rng(0).random((4, 1, 3, 3)).astype(np.float32))
    graph = builder.graph([builder.add("conv2d", [x, w], "y", groups=4, padding=1, layout="NCHW")])
    last = channels_last(graph)
    assert "depthwise_conv2d" in operators(last)
    inputs = inputs_of(graph)
    expected = run_reference(graph, inputs)["y"]
    np.testing.assert_allclose(run_reference(last, inputs)["y"], expected, rtol=1e-12)


def test_outputs_have_memory_of_their_own() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (4,)))
    y = builder.add("exp", [x])
    view = builder.add("reshape", [y], shape=[2, 2])
    graph = copy_outputs(builder.graph([x, y, view]))
    assert operators(graph) == ["exp", "reshape", "copy", "copy"]


def test_what_has_a_number_for_each_dimension_stays_behind_a_transposition() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 4, 1)))
    y = builder.add("transpose", [x], order=[1, 2, 0])
    ends = builder.add("slice", [y], begin=[0, 0, 0], end=[3, 1, 2])
    wide = builder.add("broadcast_to", [y], shape=[4, 5, 2])
    graph = builder.graph([builder.add("exp", [ends]), builder.add("exp", [wide])])
    data = {"x": np.random.default_rng(0).random((2, 4, 1))}
    found = run_reference(sink_transposes(graph), data)
    for name, values in run_reference(graph, data).items():
        np.testing.assert_array_equal(found[name], values)


def test_a_scale_moves_behind_the_product() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 3, 4)))
    w = builder.input("w", TensorType(FLOAT32, (2, 3, 4)))
    scaled = builder.add("divide", [x, builder.scalar(8.0, x)])
    turned = builder.add("transpose", [scaled], order=[0, 2, 1])
    graph = builder.graph([builder.add("matmul", [turned, w], "y")])
    sunk = sink_scales(graph)
    assert operators(sunk) == ["transpose", "matmul", "multiply"]
    inputs = inputs_of(graph)
    expected = run_reference(graph, inputs)["y"]
    np.testing.assert_allclose(run_reference(sunk, inputs)["y"], expected, rtol=1e-12)


def test_a_scale_that_others_read_stays() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (3, 3)))
    scaled = builder.add("multiply", [x, builder.scalar(2.0, x)])
    product = builder.add("matmul", [scaled, x])
    graph = sink_scales(builder.graph([builder.add("add", [product, scaled])]))
    assert operators(graph) == ["multiply", "matmul", "add"]
