"""Nodes whose inputs are all constants are computed once and for all."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.errors import FaultError, LanguageError
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.node_values import node_values
from ansorc.ir.aligned import Array

_LARGEST_GROWTH, _SMALL_BYTES = 2, 1 << 16
"""A constant that would be larger than its inputs by this factor stays a node, unless small."""


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes that read nothing but constants by their results, as a kernel has them.

    A node stays whose definition meets a fault in them, as an index out of range: a call raises it.
    """
    constants, kept = dict(graph.constants), list[GraphNode]()
    for node in graph.nodes:
        results = None
        if all(name in constants for name in node.inputs) and not _grows(graph, node):
            results = _compute(graph, node, [constants[name] for name in node.inputs])
        if results is None:
            kept.append(node)
        else:
            constants.update(zip(node.outputs, results, strict=True))
    return graph.with_nodes(tuple(kept), constants)


def _compute(graph: Graph, node: GraphNode, values: Sequence[Array]) -> Sequence[Array] | None:
    """Return the results of a node of known values; None where a call would meet a fault."""
    try:
        return node_values(node, graph.types, values)
    except (FaultError, LanguageError):
        return None


def _grows(graph: Graph, node: GraphNode) -> bool:
    if node.builtin == "dequantize_constant":  # floats when it was imported
        return False
    before = sum(graph.types[name].bytes for name in node.inputs)
    after = sum(graph.types[name].bytes for name in node.outputs)
    return after > max(_LARGEST_GROWTH * before, _SMALL_BYTES)
