"""Nodes whose inputs are all constants are computed once and for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.passes.move_views import VIEWS
from ansorc.ir.aligned import Array
from ansorc.lang.reference import evaluate

_LARGEST_GROWTH, _SMALL_BYTES = 2, 1 << 16
"""A constant that would be larger than its inputs by this factor stays a node, unless small."""


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes that read nothing but constants by their results, computed in float64."""
    constants, kept = dict(graph.constants), list[GraphNode]()
    for node in graph.nodes:
        if all(name in constants for name in node.inputs) and not _grows(graph, node):
            values = [constants[name] for name in node.inputs]
            constants.update(zip(node.outputs, _computed(graph, node, values), strict=True))
        else:
            kept.append(node)
    return graph.with_nodes(tuple(kept), constants)


def _grows(graph: Graph, node: GraphNode) -> bool:
    before = sum(graph.types[name].bytes for name in node.inputs)
    after = sum(graph.types[name].bytes for name in node.outputs)
    return after > max(_LARGEST_GROWTH * before, _SMALL_BYTES)


def _computed(graph: Graph, node: GraphNode, values: list[Array]) -> list[Array]:
    """Return the outputs, in the dtypes that the graph has them in."""
    if node.builtin in VIEWS:  # what moves elements only is not widened: weights are large
        return [values[0].reshape(graph.types[node.name].shape)]
    if node.builtin == "transpose":
        order = cast("Sequence[int]", dict(node.attributes)["order"])
        return [np.ascontiguousarray(values[0].transpose(order))]
    results = evaluate(node.dag(graph.types), values)
    kinds = [graph.types[name].dtype.numpy for name in node.outputs]
    return [result.astype(kind) for result, kind in zip(results, kinds, strict=True)]
