"""Nodes that nobody needs, and nodes that compute the same."""

from __future__ import annotations

from dataclasses import replace

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.passes.move_views import VIEWS
from ansorc.graph.rewriter import Rewriter


def remove_dead_nodes(graph: Graph) -> Graph:
    """Leave out what no output needs: nodes and constants."""
    needed, kept = set(graph.outputs), list[GraphNode]()
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    constants = {name: array for name, array in graph.constants.items() if name in needed}
    return graph.with_nodes(tuple(reversed(kept)), constants)


def merge_equal_nodes(graph: Graph) -> Graph:
    """Let the readers of equal nodes, or of equal constants, read one of them."""
    same: dict[str, str] = {}
    known: dict[object, tuple[str, ...]] = {}
    for name, array in graph.constants.items():
        key = (array.dtype.str, array.shape, array.tobytes()) if array.nbytes <= 1024 else name
        same[name] = known.setdefault(key, (name,))[0]
    kept: list[GraphNode] = []
    for node in graph.nodes:
        inputs = tuple(same.get(name, name) for name in node.inputs)
        first = known.setdefault((node.operator, inputs, node.attributes), node.outputs)
        if first is not node.outputs and not set(node.outputs) & set(graph.outputs):
            same.update(zip(node.outputs, first, strict=True))
        else:
            kept.append(replace(node, inputs=inputs))
    return graph.with_nodes(tuple(kept))


def copy_outputs(graph: Graph) -> Graph:
    """Let each output have memory of its own: inputs, constants and views of outputs are copied."""
    rewriter, taken = Rewriter(graph), {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        rewriter.copy(node)
    outputs: list[str] = []
    for name in graph.outputs:
        root = _root(graph, name)
        outputs.append(rewriter.add("copy", [name]) if root in taken else name)
        taken.add(root)
    return replace(rewriter.graph(), outputs=tuple(outputs))


def _root(graph: Graph, name: str) -> str:
    """The tensor whose memory `name` is a view of."""
    while (node := graph.producers.get(name)) is not None and str(node.operator) in VIEWS:
        name = node.inputs[0]
    return name
