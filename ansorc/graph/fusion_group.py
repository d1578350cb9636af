"""`FusionGroup`: nodes that become one kernel, and the computation that is tuned for them."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from ansorc.graph.graph import Graph, GraphNode
from ansorc.ir.expr import const
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.tensor import Tensor, placeholder


@dataclass(frozen=True)
class FusionGroup:
    """Nodes in an order in which they can be computed, and the tensors that come in and go out."""

    nodes: tuple[GraphNode, ...]
    inputs: tuple[str, ...]
    """In the kernel's call order; constants of one element are literals in the code instead."""
    outputs: tuple[str, ...]
    """Behind the inputs, in the kernel's call order."""

    @staticmethod
    def of(graph: Graph, nodes: Sequence[GraphNode], copied: Container[str] = ()) -> FusionGroup:
        """Return the group of `nodes` of `graph`; nobody else needs the results of `copied`."""
        computed = {name for node in nodes for name in node.outputs}
        names = {node.name for node in nodes}
        read = dict.fromkeys(name for node in nodes for name in node.inputs)
        inputs = [n for n in read if n not in computed and not _is_literal(graph, n)]
        outputs = [
            name
            for node in nodes
            if node.name not in copied
            for name in node.outputs
            if name in graph.outputs or any(r.name not in names for r in graph.readers[name])
        ]
        return FusionGroup(tuple(nodes), tuple(inputs), tuple(outputs))

    @property
    def title(self) -> str:
        """The operators, for people: "conv2d + bias_add + relu"."""
        return " + ".join(str(node.operator) for node in self.nodes)

    @property
    def name(self) -> str:
        """The operators as a name in C: "conv2d_bias_add_relu"."""
        return "_".join(re.sub(r"\W", "_", str(node.operator)) for node in self.nodes)

    @property
    def line(self) -> str:
        """Its operators and tensors in one line: "conv2d + relu: x, w -> y"."""
        return f"{self.title}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}"

    def dag(self, graph: Graph) -> ComputeDAG:
        """Return what the kernel computes; weights are constant inputs, names do not matter."""
        tensors: dict[str, Tensor] = {}
        for number, name in enumerate(self.inputs):
            kind, is_constant = graph.types[name], name in graph.constants
            tensors[name] = placeholder(kind.shape, f"p{number}", kind.dtype, constant=is_constant)
        given = list(tensors.values())
        for node in self.nodes:
            for name in node.inputs:
                if name not in tensors:
                    tensors[name] = _literal(graph, name)
            inputs = [tensors[name] for name in node.inputs]
            results = node.operator.apply(inputs, node.attributes)
            tensors.update(zip(node.outputs, results, strict=True))
        return ComputeDAG([*given, *(tensors[name] for name in self.outputs)])


def _is_literal(graph: Graph, name: str) -> bool:
    return name in graph.constants and graph.types[name].elements == 1


def _literal(graph: Graph, name: str) -> Tensor:
    """Return a constant of one element as a tensor that kernels have in their code."""
    kind, value = graph.types[name], graph.constants[name].reshape(-1)[0].item()
    return compute(kind.shape, lambda *_: const(value, kind.dtype), AutoName("literal"))
