"""`Rewriter`: copies a graph node by node, while a pass replaces some of them."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.graph_operator import GraphOperator
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array


class Rewriter:
    """The new graph in the making, and which of its tensors stands for which of the old one."""

    def __init__(self, graph: Graph) -> None:
        self.old = graph
        self._builder = GraphBuilder(graph.name)
        self._builder.reserve(graph.types)
        self._new: dict[str, str] = {}
        for name, kind in graph.inputs.items():
            self._new[name] = self._builder.input(name, kind)
        for name, array in graph.constants.items():
            self._new[name] = self._builder.constant(array, name)

    def new(self, name: str) -> str:
        """Return the tensor of the new graph that stands for an old one."""
        return self._new[name]

    def replace(self, old: str, new: str) -> None:
        """Let the readers of the tensor `old` of the old graph read `new`, of the new graph."""
        self._new[old] = new

    def copy(self, node: GraphNode) -> None:
        """Add a node of the old graph as it is, its inputs replaced."""
        self._builder.source = node.source
        given = dict(node.attributes)
        inputs = [self._new[name] for name in node.inputs]
        outputs = self._builder.add_many(node.operator, inputs, node.outputs, **given)
        self._new.update(zip(node.outputs, outputs, strict=True))

    def add(
        self, operator: str | GraphOperator, inputs: Sequence[str], name: str = "", **given: object
    ) -> str:
        """Add a node that reads tensors of the new graph, and return the name of its output."""
        return self._builder.add(operator, inputs, name, **given)

    def constant(self, value: ArrayLike) -> str:
        """Add a constant of the new graph."""
        return self._builder.constant(value)

    def number(self, value: float, like: str) -> str:
        """Add one number of the dtype of a tensor of the new graph."""
        return self._builder.scalar(value, like)

    def type(self, name: str) -> TensorType:
        """Return the type of a tensor of the new graph."""
        return self._builder.type(name)

    def value(self, name: str) -> Array | None:
        """Return the values of a constant of the new graph."""
        return self._builder.value(name)

    def source(self, node: GraphNode) -> None:
        """Say that the nodes added from now on stand for `node`."""
        self._builder.source = node.source

    def graph(self) -> Graph:
        """Return the new graph, its outputs under the names that they had."""
        outputs = [self._named(name) for name in self.old.outputs]
        return self._builder.graph(outputs)

    def _named(self, name: str) -> str:
        """The output `name`: the tensor that stands for it, renamed if that can be."""
        found = self._new[name]
        return found if found == name else self._builder.renamed(found, name)
