"""Passes keep what a node computes, whatever it is: random nodes of every operator among others.

    x' -> Transpose -> x -> node -> y, 0.5 * y, transposed y, y reduced over its last dimension

All of these are outputs, and so are the node's other results.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ansorc.errors import GraphError
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.onnx.importer import from_onnx
from ansorc.ir.aligned import Array
from tests.graph.onnx.random_nodes import CASES, RandomNode, random_node

NARROW = ("uint16", "uint32", "uint64", "int16", "bool")
"""What ONNX has neither products nor sums of in all versions."""


@pytest.mark.parametrize("operator", list(CASES)[::4])
def test_passes_keep_a_node_among_others(operator: str) -> None:
    assert_kept(random_node(operator, 1000))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("operator", CASES)
def test_passes_keep_many_nodes_among_others(operator: str) -> None:
    for seed in range(2000, 2020):
        assert_kept(random_node(operator, seed))


def assert_kept(node: RandomNode) -> None:
    """The rewritten graph of a node among others computes what the imported one does."""
    model, inputs = surrounded(node)
    try:
        graph = from_onnx(model)
    except GraphError:  # other tests say what is refused
        return
    given = {name: inputs[name] for name in graph.inputs}
    wanted = run_reference(graph, given)
    rewritten = Network.of(graph).graph
    found = run_reference(rewritten, given)
    for old, new in zip(graph.outputs, rewritten.outputs, strict=True):
        one, other = wanted[old].astype(np.float64), found[new].astype(np.float64)
        size = float(np.abs(one[np.isfinite(one)]).max(initial=1.0))
        where = f"{node.operator} of opset {node.opset} {dict(node.case.attributes)}: {old}"
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=2e-5 * min(size, 1e6), err_msg=where)


def surrounded(node: RandomNode) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a model of the node among others, and its inputs."""
    model, inputs = node.model(folded=False)
    graph, moved = model.graph, dict[str, Array]()
    before: list[onnx.NodeProto] = []
    for value in graph.input:
        array = inputs[value.name]
        if array.ndim < 2:
            moved[value.name] = array
            continue
        order = list(range(array.ndim))[::-1]
        before.append(helper.make_node("Transpose", [f"{value.name}t"], [value.name], perm=order))
        moved[f"{value.name}t"] = np.ascontiguousarray(array.transpose(order))
    del graph.input[:]
    for name, array in moved.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    after = _readers(model, from_shape(model, moved, before))
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return model, moved


def from_shape(
    model: onnx.ModelProto, moved: dict[str, Array], before: list[onnx.NodeProto]
) -> Graph | None:
    """The graph of the node behind its transpositions, for the type of its result."""
    alone = onnx.ModelProto()
    alone.CopyFrom(model)
    nodes = [*before, *alone.graph.node]
    del alone.graph.node[:]
    alone.graph.node.extend(nodes)
    try:
        return from_onnx(alone)
    except GraphError:
        return None


def _readers(model: onnx.ModelProto, alone: Graph | None) -> list[onnx.NodeProto]:
    """Nodes that read the first result, whose outputs are outputs of the model as well."""
    if alone is None:
        return []
    kind, first = alone.types[alone.outputs[0]], str(model.graph.output[0].name)
    rank, found = len(kind.shape), list[onnx.NodeProto]()
    if rank:
        order = list(range(rank))[::-1]
        found.append(helper.make_node("Transpose", [first], ["turned"], perm=order))
    if str(kind.dtype) not in (*NARROW, "int8", "uint8"):
        half = np.asarray(0.5 if kind.dtype.is_float else 3, kind.dtype.numpy)
        model.graph.initializer.append(numpy_helper.from_array(half, "half"))
        found.append(helper.make_node("Mul", [first, "half"], ["scaled"]))
        if rank:
            found.append(helper.make_node("ReduceMax", ["scaled"], ["peak"], keepdims=0))
    for one in found:
        model.graph.output.append(helper.make_empty_tensor_value_info(str(one.output[0])))
    return found
