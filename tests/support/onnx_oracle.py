"""Single ONNX nodes, imported and held against ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.onnx.importer import from_onnx
from ansorc.ir.aligned import Array


def node_model(
    operator: str,
    inputs: Sequence[Array | None],
    *,
    known: Sequence[int] = (),
    outputs: int = 1,
    opset: int = 22,
    domain: str = "",
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a model of one node, and its inputs by name; those at `known` are initializers."""
    given = {f"x{n}": array for n, array in enumerate(inputs) if array is not None}
    names = [f"x{n}" if array is not None else "" for n, array in enumerate(inputs)]
    results = [f"y{n}" for n in range(outputs)]
    weights = {f"x{n}" for n in known}
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in given.items()}
    node = helper.make_node(operator, names, results, name="node", domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "net",
        [
            helper.make_tensor_value_info(name, types[name], array.shape)
            for name, array in given.items()
            if name not in weights
        ],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(given[name], name) for name in sorted(weights)],
    )
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(graph, opset_imports=opsets)
    return model, {name: array for name, array in given.items() if name not in weights}


def run_node(model: onnx.ModelProto, given: dict[str, Array]) -> tuple[Graph, list[Array]]:
    """Return the graph of a model, and its outputs in float64."""
    graph = from_onnx(model)
    results = run_reference(graph, given)
    return graph, [results[name] for name in graph.outputs]


def assert_as_onnx(operator: str, inputs: Sequence[Array | None], **options: Any) -> Graph:
    """Hold a node (see `node_model`) against ONNX's reference; return its graph."""
    model, given = node_model(operator, inputs, **options)
    graph, found = run_node(model, given)
    evaluator: Any = ReferenceEvaluator(model)
    for mine, theirs in zip(found, evaluator.run(None, given), strict=True):
        assert mine.shape == np.shape(theirs)
        assert mine.dtype.kind == np.asarray(theirs).dtype.kind
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    return graph


def random(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers around 0."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
