"""Nodes that nobody needs, and nodes that compute the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.graph_operator import exact_key
from ansorc.graph.node_kind import VIEWS
from ansorc.graph.operators import operator_named


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
        key = (array.dtype.name, array.shape, array.tobytes()) if array.nbytes <= 1024 else name
        same[name] = known.setdefault(key, (name,))[0]
    kept: list[GraphNode] = []
    for node in graph.nodes:
        inputs = tuple(same.get(name, name) for name in node.inputs)
        key = node.operator, inputs, exact_key(node.attributes), node.storage
        first = known.setdefault(key, node.outputs)
        if first is not node.outputs and not set(node.outputs) & set(graph.outputs):
            same.update(zip(node.outputs, first, strict=True))
        else:
            kept.append(replace(node, inputs=inputs))
    return graph.with_nodes(tuple(kept))


def copy_outputs(graph: Graph) -> Graph:
    """Let each output have memory of its own: inputs, constants and views of outputs are copied.

    An output that is an input, or that is returned twice, gets another name; others keep theirs.
    """
    taken = {*graph.inputs, *graph.constants}
    copies: dict[str, str] = {}
    """The tensors that are copied to outputs, by the outputs."""
    outputs: list[str] = []
    for name in graph.outputs:
        root = _root(graph, name)
        if root in taken:
            new = _free_name(graph, copies)
            keeps_name = name not in graph.inputs and name not in outputs
            output, source = (name, new) if keeps_name else (new, name)
            copies[output] = source
            outputs.append(output)
        else:
            outputs.append(name)
        taken.add(root)
    moved = {name: source for name, source in copies.items() if name in graph.types}
    return _with_copies(graph, moved, copies, tuple(outputs))


def _with_copies(
    graph: Graph, moved: Mapping[str, str], copies: Mapping[str, str], outputs: tuple[str, ...]
) -> Graph:
    """Return the graph with the tensors that `moved` renames, and with `copies`, by their names."""

    def rename(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(moved.get(name, name) for name in names)

    nodes = [
        replace(node, inputs=rename(node.inputs), outputs=rename(node.outputs))
        for node in graph.nodes
    ]
    for output, source in copies.items():
        nodes.append(GraphNode(operator_named("copy"), rename((source,)), (output,)))
    constants = {moved.get(name, name): array for name, array in graph.constants.items()}
    return replace(graph, outputs=outputs, nodes=tuple(nodes), constants=constants)


def _free_name(graph: Graph, taken: Mapping[str, str]) -> str:
    number = len(graph.types)
    names = {*taken, *taken.values()}
    while (name := f"copy_{number}") in graph.types or name in names:
        number += 1
    return name


def _root(graph: Graph, name: str) -> str:
    """Return the tensor whose memory `name` is a view of."""
    while (node := graph.producers.get(name)) is not None and node.builtin in VIEWS:
        name = node.inputs[0]
    return name
