"""The nodes of an ONNX graph that its outputs need, each after those that it reads."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping

from ansorc.errors import GraphError
from ansorc.graph.onnx.model import OnnxGraph, OnnxNode


def needed_nodes(graph: OnnxGraph) -> list[OnnxNode]:
    """Return the nodes that outputs need, in the file's order where that can be computed.

    Raise GraphError where two tensors have one name, and where nodes read each other.
    """
    producers = _producers(graph)
    reads = {place: _places(graph.nodes[place], producers) for place in _needed(graph, producers)}
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for place, sources in reads.items():
        for source in sources:
            readers[source].append(place)
    left = {place: len(sources) for place, sources in reads.items()}
    ready = [place for place, count in left.items() if not count]
    heapq.heapify(ready)
    found: list[OnnxNode] = []
    while ready:
        place = heapq.heappop(ready)
        found.append(graph.nodes[place])
        for reader in readers[place]:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    if len(found) < len(reads):
        stuck = next(place for place, count in left.items() if count)
        raise GraphError(f"{graph.nodes[stuck]} depends on its own output: the graph has a cycle")
    return found


def names_read(node: OnnxNode) -> set[str]:
    """Return the tensors that a node reads, those that its graphs take from around it included."""
    found = {name for name in node.inputs if name}
    for graph in node.graphs():
        found |= _names_from_outside(graph)
    return found


def _names_from_outside(graph: OnnxGraph) -> set[str]:
    found = set(graph.outputs).union(*map(names_read, graph.nodes))
    found -= {name for node in graph.nodes for name in node.outputs}
    return found - {*graph.initializers, *(one.name for one in graph.inputs), ""}


def _producers(graph: OnnxGraph) -> Mapping[str, int]:
    """The place of the node that computes each tensor."""
    for name, count in Counter(one.name for one in graph.inputs).items():
        if count > 1:
            raise GraphError(f"two inputs of '{graph.name}' are called '{name}'")
    found: dict[str, int] = {}
    given = {*graph.initializers, *(one.name for one in graph.inputs)}
    for place, node in enumerate(graph.nodes):
        for name in node.outputs:
            if name and (name in found or name in given):
                other = "an input or an initializer" if name in given else "an output of another"
                raise GraphError(f"{node} computes '{name}', which is the name of {other}, too")
            found[name] = place
    found.pop("", None)
    return found


def _needed(graph: OnnxGraph, producers: Mapping[str, int]) -> list[int]:
    """The places of the nodes that outputs need."""
    waiting = [producers[name] for name in graph.outputs if name in producers]
    found: set[int] = set()
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting.extend(_places(graph.nodes[place], producers))
    return sorted(found)


def _places(node: OnnxNode, producers: Mapping[str, int]) -> set[int]:
    return {producers[name] for name in names_read(node) if name in producers}
