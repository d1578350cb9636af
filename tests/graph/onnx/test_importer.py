"""ONNX graphs become graphs of ansorc; what cannot is refused in words."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ansorc.errors import GraphError
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.onnx.importer import from_onnx
from ansorc.ir.aligned import Array


def model(nodes: list[onnx.NodeProto], shape: list[int | str], **weights: Array) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_shapes_are_folded() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "i"], ["n"], axis=0),
        helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    proto = model(nodes, ["batch", 4, 3], i=np.array([0]), rest=np.array([-1]))
    graph = from_onnx(proto, inputs={"x": (2, 4, 3)})
    assert [str(node.operator) for node in graph.nodes] == ["reshape"]
    assert graph.types[graph.outputs[0]].shape == (2, 12)


def test_an_open_extent_is_named() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], ["batch", 4])
    with pytest.raises(GraphError, match=r"'batch' of the input 'x'.*inputs=\{'x': \(1, 4\)\}"):
        from_onnx(proto)


def test_an_unknown_operator_says_what_to_do() -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="f")
    with pytest.raises(GraphError, match=r"Frobnicate 'f' \(opset 17\): .*register_onnx_op"):
        from_onnx(model([node], [2]))


def test_a_convolution_means_what_onnx_says() -> None:
    rng = np.random.default_rng(0)
    weight = rng.random((4, 3, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])
    bias = rng.random(4).astype(np.float32)
    proto = model([node], [1, 3, 7, 6], w=weight, b=bias)
    x = rng.random((1, 3, 7, 6)).astype(np.float32)
    (found,) = run_reference(from_onnx(proto), {"x": x}).values()
    evaluator: Any = ReferenceEvaluator(proto)
    (expected,) = evaluator.run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_float16_is_computed_in_float32_and_given_back() -> None:
    half = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, [3]) for name in ("x", "y", "z")
    ]
    nodes = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Exp", ["y"], ["z"])]
    proto = helper.make_graph(nodes, "net", half[:1], half[1:])
    graph = from_onnx(helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)]))
    assert [str(graph.types[name].dtype) for name in graph.outputs] == ["float16", "float16"]
    x = np.array([0.1, 1.0, 2.0], np.float16)
    assert str(graph.types[graph.nodes[1].name].dtype) == "float32"
    (y, z) = run_reference(graph, {"x": x}).values()
    np.testing.assert_allclose(y, 2 * x.astype(np.float64))
    np.testing.assert_allclose(z, np.exp(2 * x.astype(np.float64)))


def test_an_input_without_elements_is_known() -> None:
    axes = np.array([1])
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    graph = from_onnx(model([node], [2, "n"], axes=axes), {"x": (2, 0)})
    assert not graph.inputs
    np.testing.assert_array_equal(run_reference(graph, {})["y"], np.zeros(2))


def test_a_gather_of_one_place_is_a_slice() -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=1)
    graph = from_onnx(model([node], [2, 5, 3], i=np.array(-1)))
    assert [str(node.operator) for node in graph.nodes] == ["slice", "reshape"]
    x = np.random.default_rng(0).random((2, 5, 3))
    (found,) = run_reference(graph, {"x": x}).values()
    np.testing.assert_array_equal(found, x[:, -1])


def test_a_shape_that_depends_on_data_says_which_input_to_give() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["s"], to=TensorProto.INT64),
        helper.make_node("Expand", ["w", "s"], ["y"]),
    ]
    with pytest.raises(GraphError, match=r"the new shape \('s'\) .*constants=\{'s': ...\}"):
        from_onnx(model(nodes, [2], w=np.zeros((1, 1), np.float32)))
