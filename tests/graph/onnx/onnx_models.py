"""Small ONNX models for tests, and what ONNX's reference implementation computes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.ir.aligned import Array

node = helper.make_node


def tensor_info(name: str, shape: Sequence[int | str] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def graph_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str] | None],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
) -> onnx.GraphProto:
    return helper.make_graph(
        list(nodes),
        "net",
        [tensor_info(name, shape) for name, shape in inputs.items()],
        [tensor_info(name, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str] | None],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    graph = graph_of(nodes, inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def bare_graph(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.GraphProto:
    """A graph for an attribute, which says nothing of its types."""
    bare = onnx.TypeProto()
    return helper.make_graph(
        list(nodes),
        "inner",
        [helper.make_value_info(name, bare) for name in inputs],
        [helper.make_value_info(name, bare) for name in outputs],
    )


def random_inputs(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        name: rng.random(kind.shape).astype(kind.dtype.numpy) for name, kind in graph.inputs.items()
    }


def assert_as_onnx(graph: Graph, proto: onnx.ModelProto, **others: Array) -> None:
    """Assert that the outputs are those of ONNX; `others` are inputs that the graph has not."""
    inputs = random_inputs(graph)
    found = run_reference(graph, inputs)
    evaluator: Any = ReferenceEvaluator(proto)
    expected = evaluator.run(None, {**inputs, **others})
    assert list(found) == [one.name for one in proto.graph.output]
    for one, wanted in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)
