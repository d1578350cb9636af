"""Nodes whose inputs are all constants are computed once and for all."""

from __future__ import annotations

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.node_values import node_values

_LARGEST_GROWTH, _SMALL_BYTES = 2, 1 << 16
"""A constant that would be larger than its inputs by this factor stays a node, unless small."""


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes that read nothing but constants by their results, as a kernel has them."""
    constants, kept = dict(graph.constants), list[GraphNode]()
    for node in graph.nodes:
        if all(name in constants for name in node.inputs) and not _grows(graph, node):
            results = node_values(node, graph.types, [constants[name] for name in node.inputs])
            constants.update(zip(node.outputs, results, strict=True))
        else:
            kept.append(node)
    return graph.with_nodes(tuple(kept), constants)


def _grows(graph: Graph, node: GraphNode) -> bool:
    before = sum(graph.types[name].bytes for name in node.inputs)
    after = sum(graph.types[name].bytes for name in node.outputs)
    return after > max(_LARGEST_GROWTH * before, _SMALL_BYTES)
