"""A graph pass of one's own: from graph to graph, held against float64 before and after."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.passes.cleanup import remove_dead_nodes
from ansorc.graph.passes.pipeline import NETWORK_PASSES, optimize_graph
from ansorc.graph.rewriter import Rewriter
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from tests.graph.small_networks import NETWORKS, inputs_of


def cancel_negations(graph: Graph) -> Graph:
    """Let the readers of -(-x) read x."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        inner = graph.producers.get(node.inputs[0]) if _is_negation(node) else None
        if inner is not None and _is_negation(inner):
            rewriter.replace(node.name, rewriter.new(inner.inputs[0]))
        else:
            rewriter.copy(node)
    return rewriter.graph()


def _is_negation(node: GraphNode) -> bool:
    return str(node.operator) == "negative"


def twice_negated() -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    y = builder.add("negative", [builder.add("negative", [builder.add("exp", [x])])])
    return builder.graph([builder.add("relu", [y], "y")])


def test_it_changes_what_it_is_for() -> None:
    after = remove_dead_nodes(cancel_negations(twice_negated()))
    assert [str(node.operator) for node in after.nodes] == ["exp", "relu"]
    assert after.outputs == ("y",)


@pytest.mark.parametrize("make", [twice_negated, *NETWORKS.values()])
def test_it_keeps_what_is_computed_also_among_the_others(make: Callable[[], Graph]) -> None:
    graph = make()
    inputs = inputs_of(graph)
    before = run_reference(graph, inputs)
    passes = (("cancel_negations", cancel_negations), *NETWORK_PASSES)
    after = optimize_graph(graph, passes)
    assert after.outputs == graph.outputs
    for name, values in run_reference(after, inputs).items():
        np.testing.assert_allclose(values, before[name], rtol=2e-5, atol=2e-6)
