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
