"""The nodes of an ONNX graph that its outputs need, each after those that it reads."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping

from ansorc.errors import GraphError
from ansorc.graph.onnx.model import OnnxGraph, OnnxNode


def order_nodes(graph: OnnxGraph) -> list[OnnxNode]:
    """Return the nodes that outputs need, in the file's order where that can be computed.

    Raise GraphError where two tensors have one name, and where nodes read each other.
    """
    producers = _producers(graph)
    reads = {
        number: _places(graph.nodes[number], producers) for number in _find_needed(graph, producers)
    }
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for number, sources in reads.items():
        for source in sources:
            readers[source].append(number)
    left = {number: len(sources) for number, sources in reads.items()}
    ready = [number for number, count in left.items() if not count]
    heapq.heapify(ready)
    ordered: list[OnnxNode] = []
    while ready:
        number = heapq.heappop(ready)
        ordered.append(graph.nodes[number])
        for reader in readers[number]:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    if len(ordered) < len(reads):
        stuck = next(number for number, count in left.items() if count)
        raise GraphError(f"{graph.nodes[stuck]} depends on its own output: the graph has a cycle")
    return ordered


def names_read(node: OnnxNode) -> set[str]:
    """Return the tensors that a node reads, those that its graphs take from around it included."""
    names = {name for name in node.inputs if name}
    for graph in node.graphs():
        names |= _names_from_outside(graph)
    return names


def _names_from_outside(graph: OnnxGraph) -> set[str]:
    names = set(graph.outputs).union(*map(names_read, graph.nodes))
    names -= {name for node in graph.nodes for name in node.outputs}
    return names - {*graph.initializers, *(given.name for given in graph.inputs), ""}


def _producers(graph: OnnxGraph) -> Mapping[str, int]:
    """Return the number of the node that computes each tensor."""
    for name, count in Counter(source.name for source in graph.inputs).items():
        if count > 1:
            raise GraphError(f"two inputs of '{graph.name}' are called '{name}'")
    producers: dict[str, int] = {}
    given = {*graph.initializers, *(source.name for source in graph.inputs)}
    for number, node in enumerate(graph.nodes):
        for name in node.outputs:
            if name and (name in producers or name in given):
                other = "an input or an initializer" if name in given else "an output of another"
                raise GraphError(f"{node} computes '{name}', which is the name of {other}, too")
            producers[name] = number
    producers.pop("", None)
    return producers


def _find_needed(graph: OnnxGraph, producers: Mapping[str, int]) -> list[int]:
    """Return the numbers of the nodes that outputs need."""
    waiting = [producers[name] for name in graph.outputs if name in producers]
    needed: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed.add(number)
            waiting.extend(_places(graph.nodes[number], producers))
    return sorted(needed)


def _places(node: OnnxNode, producers: Mapping[str, int]) -> set[int]:
    return {producers[name] for name in names_read(node) if name in producers}
