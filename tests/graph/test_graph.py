"""Graphs: built node by node, typed by definitions, run in float64."""

import numpy as np
import pytest

from ansorc.errors import GraphError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32


def small_graph() -> Graph:
    rng = np.random.default_rng(0)
    builder = GraphBuilder("small")
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    w = builder.constant(rng.random((3, 4)).astype(np.float32), "w")
    y = builder.add("matmul", [x, w])
    y = builder.add("relu", [y])
    return builder.graph([builder.add("multiply", [y, builder.scalar(2.0, y)], "y")])


def test_types_follow_from_the_definitions() -> None:
    graph = small_graph()
    assert str(graph.types["y"]) == "float32[2, 4]"
    assert graph.flops == 2 * 2 * 3 * 4 + 2 * 8


def test_a_graph_runs_in_float64() -> None:
    graph = small_graph()
    x = np.random.default_rng(1).random((2, 3))
    found = run_reference(graph, {"x": x})["y"]
    expected = 2 * np.maximum(x @ graph.constants["w"].astype(np.float64), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_missing_input_is_named() -> None:
    with pytest.raises(GraphError, match="needs the input 'x'"):
        run_reference(small_graph(), {})


def test_a_node_that_does_not_fit_is_named() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    builder.source = "MatMul 'm' (opset 13)"
    with pytest.raises(GraphError, match=r"\(MatMul 'm' \(opset 13\)\): matmul of .* columns"):
        builder.add("matmul", [x, x])


def test_tensors_have_one_name_each() -> None:
    builder = GraphBuilder()
    builder.input("x", TensorType(FLOAT32, (2, 3)))
    with pytest.raises(GraphError, match="two tensors of 'network' are called 'x'"):
        builder.constant(np.zeros(2, np.float32), "x")


def test_an_unknown_operator_is_refused() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    with pytest.raises(GraphError, match="no operator 'frobnicate'"):
        builder.add("frobnicate", [x])
