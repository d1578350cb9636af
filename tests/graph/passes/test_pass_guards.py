"""Passes read attributes only of nodes that they know, and keep every output where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ansorc as ac
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_operator import GraphOperator
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from tests.graph.small_networks import inputs_of

NUMBERS = np.random.default_rng(0)


def assert_kept(graph: Graph) -> Graph:
    """All passes keep what `graph` computes; return what they make of it."""
    inputs = inputs_of(graph)
    wanted = run_reference(graph, inputs)
    rewritten = Network.of(graph).graph
    found = run_reference(rewritten, inputs)
    for new, old in zip(rewritten.outputs, graph.outputs, strict=True):
        np.testing.assert_allclose(found[new], wanted[old], rtol=2e-5, atol=2e-6)
    return rewritten


def transposed(builder: GraphBuilder, shape: tuple[int, ...], kind: Any = FLOAT32) -> str:
    """A transposition of an input, of the given shape."""
    x = builder.input("x", TensorType(kind, shape[::-1]))
    return builder.add("transpose", [x], order=list(range(len(shape)))[::-1])


def own(name: str, define: Callable[..., Any]) -> GraphOperator:
    return GraphOperator(name, define)


@pytest.mark.parametrize(
    "name", ["transpose", "concat", "pad", "softmax", "sum", "bias_add", "reshape", "conv2d"]
)
def test_an_operator_of_a_users_own_may_be_called_like_one_of_ansorc(name: str) -> None:
    """Its attributes and its inputs are others."""

    def twice(x: ac.Tensor, axis: str = "any", layout: str = "NCHW") -> ac.Tensor:
        assert axis == "any"
        return ac.compute(x.shape, lambda *i: x[i] * 2.0, name="twice")

    builder = GraphBuilder()
    y = transposed(builder, (1, 4, 3))
    y = builder.add(own(name, twice), [builder.add("exp", [y])], axis="any", layout="NCHW")
    graph = builder.graph(
        [builder.add("matmul", [y, builder.constant(np.ones((3, 3)).astype("f"))])]
    )
    x = inputs_of(graph)["x"]
    (found,) = run_reference(assert_kept(graph), {"x": x}).values()
    wanted = (2 * np.exp(x.astype(float)).transpose(2, 1, 0)) @ np.ones((3, 3))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_an_operator_may_return_its_input(count: int) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (4,)))
    e = builder.add("exp", [x])

    def same(one: ac.Tensor) -> list[ac.Tensor]:
        return [one] * count

    names = builder.add_many(own("my::Same", same), [e], ["a", "b"][:count])
    graph = builder.graph([*names, e])
    data = {"x": np.arange(4, dtype=np.float32)}
    for found in ac.build(graph).run(data).values():
        np.testing.assert_allclose(found, np.exp(data["x"]), rtol=1e-6)


def test_attributes_that_are_equal_may_differ() -> None:
    """0.0 and -0.0, 1 and 1.0 and True have one hash."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2,)))
    names = [
        builder.add("pad", [x], before=[1], after=[0], value=value) for value in (0.0, -0.0, 0.0)
    ]
    graph = builder.graph([builder.add("concat", names, "y")])
    for one in (graph, Network.of(graph).graph):
        (found,) = run_reference(one, {"x": np.ones(2, np.float32)}).values()
        signs = np.signbit(found.reshape(3, 3)[:, 0])
        assert signs.tolist() == [False, True, False]


def test_a_fault_in_constants_is_one_of_the_call() -> None:
    def no_zeros(x: ac.Tensor) -> ac.Tensor:
        return ac.compute(x.shape, lambda i: ac.checked(x[i], x[i] > 0.0, "no zeros, please"))

    builder = GraphBuilder()
    c = builder.constant(np.array([1, 0], np.float32))
    y = builder.add(own("my::NoZeros", no_zeros), [c])
    x = builder.input("x", TensorType(FLOAT32, (2,)))
    module = ac.build(builder.graph([builder.add("add", [x, y], "y")]))
    with pytest.raises(AssertionError, match="no zeros, please"):
        module.run({"x": np.zeros(2, np.float32)})


def aliases() -> Graph:
    """Outputs that are an input, a constant, each other, and views of one another."""
    builder = GraphBuilder("aliases")
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    c = builder.constant(np.ones((2, 3), np.float32), "c")
    r = builder.add("relu", [x], "r")
    same = builder.add("reshape", [r], "same", shape=[2, 3])
    flat = builder.add("reshape", [r], "flat", shape=[6])
    there = builder.add("transpose", [r], order=[1, 0])
    back = builder.add("transpose", [there], "back", order=[1, 0])
    again = builder.add("reshape", [x], "again", shape=[2, 3])
    fixed = builder.add("exp", [c], "fixed")
    return builder.graph([flat, x, c, same, r, back, again, fixed, r, x])


def test_every_output_keeps_its_name_and_its_place() -> None:
    graph = aliases()
    assert_kept(graph)
    x = inputs_of(graph)["x"]
    network = Network.of(graph)
    assert network.output_names == graph.outputs
    given = {*graph.inputs}
    for place, (new, old) in enumerate(zip(network.graph.outputs, graph.outputs, strict=True)):
        if old not in given:
            assert new == old, place
        given.add(old)
    builder = GraphBuilder("few")  # a call returns each name once
    r = builder.add("relu", [builder.input("x", TensorType(FLOAT32, (2, 3)))], "r")
    few = builder.graph([builder.add("reshape", [r], "same", shape=[2, 3]), r, "x"])
    found = ac.build(few).run({"x": x})
    assert list(found) == ["same", "r", "x"]
    for name, values in found.items():
        np.testing.assert_array_equal(values, x if name == "x" else np.maximum(x, 0))


def half_twice() -> onnx.ModelProto:
    """One result as float32, and twice as float16."""
    nodes = [
        helper.make_node("Relu", ["x"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Identity", ["half"], ["again"]),
    ]
    value = helper.make_tensor_value_info
    outputs = [
        value("wide", TensorProto.FLOAT, (3,)), value("half", TensorProto.FLOAT16, (3,)),
        value("again", TensorProto.FLOAT16, (3,)),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "net", [value("x", TensorProto.FLOAT, (3,))], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_one_result_may_be_returned_in_two_dtypes() -> None:
    x = np.array([-1, 0.1, 3], np.float32)
    found = ac.build(ac.from_onnx(half_twice())).run({"x": x})
    np.testing.assert_array_equal(found["wide"], np.maximum(x, 0))
    for name in ("half", "again"):
        assert found[name].dtype == np.float16
        np.testing.assert_array_equal(found[name], np.maximum(x, 0).astype(np.float16))
