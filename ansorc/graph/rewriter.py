"""`Rewriter`: copies a graph node by node, while a pass replaces some of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from numpy.typing import ArrayLike

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.graph_operator import GraphOperator
from ansorc.graph.tensor_type import TensorType


class Rewriter:
    """The new graph in the making, and which of its tensors stands for which of the old one."""

    def __init__(self, graph: Graph) -> None:
        self.old = graph
        self._builder = GraphBuilder(graph.name)
        self._builder.reserve(graph.types)
        self._new: dict[str, str] = {}
        self._storage = ""
        for name, kind in graph.inputs.items():
            self._new[name] = self._builder.input(name, kind)
        for name, array in graph.constants.items():
            self._new[name] = self._builder.constant(array, name)

    @property
    def builder(self) -> GraphBuilder:
        """The new graph in the making."""
        return self._builder

    def new(self, name: str) -> str:
        """Return the tensor of the new graph that stands for an old one."""
        return self._new[name]

    def replace(self, old: str, new: str) -> None:
        """Let the readers of the tensor `old` of the old graph read `new`, of the new graph."""
        self._new[old] = new

    def copy(self, node: GraphNode, inputs: Sequence[str] | None = None) -> None:
        """Add a node of the old graph as it is, its inputs replaced, by `inputs` if given."""
        self.source(node)
        given = dict(node.attributes)
        inputs = [self._new[name] for name in node.inputs] if inputs is None else inputs
        outputs = self._builder.add_many(node.operator, inputs, node.outputs, **given)
        self._builder.keep_as(outputs[0], node.storage)
        self._new.update(zip(node.outputs, outputs, strict=True))

    def add(
        self, operator: str | GraphOperator, inputs: Sequence[str], name: str = "", **given: object
    ) -> str:
        """Add a node that reads tensors of the new graph, and return the name of its output.

        A tensor of the old graph's name is kept between kernels as that one was, any other one as
        the node that it stands for.
        """
        output = self._builder.add(operator, inputs, name, **given)
        old = self.old.producers.get(name)
        self._builder.keep_as(output, self._storage if old is None else old.storage)
        return output

    def constant(self, value: ArrayLike) -> str:
        """Add a constant of the new graph."""
        return self._builder.constant(value)

    def number(self, value: float, like: str) -> str:
        """Add one number of the dtype of a tensor of the new graph."""
        return self._builder.scalar(value, like)

    def type(self, name: str) -> TensorType:
        """Return the type of a tensor of the new graph."""
        return self._builder.type(name)

    def source(self, node: GraphNode) -> None:
        """Say that the nodes added from now on stand for `node`."""
        self._builder.source, self._storage = node.source, node.storage

    def graph(self) -> Graph:
        """Return the new graph, its outputs under the names that they had.

        A tensor that stands for several outputs has the name of one; the others are copies.
        """
        names = self.old.outputs
        taken = {name: name for name in names if self._new[name] == name}
        for name in names:
            if name not in taken.values():
                self._name_output(name, taken)
        return self._builder.graph(names)

    def _name_output(self, name: str, taken: dict[str, str]) -> None:
        """Give the tensor that stands for the output `name` its name; copy it if it has another.

        `taken` has the outputs so far, by the tensors that stood for them.
        """
        current = self._new[name]
        if current in taken or self._builder.rename(current, name) != name:
            self._builder.add("copy", [taken.get(current, current)], name)
        else:
            taken[current] = name


class LazyRewriting(ABC):
    """A pass that only notes what some tensors are, and makes those that another node reads."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rewriter = Rewriter(graph)

    def run(self) -> Graph:
        """Return the rewritten graph."""
        for node in self.graph.nodes:
            self.rewriter.source(node)
            if not self.rewrite(node):
                for name in node.inputs:
                    self.materialize(name)
                self.rewriter.copy(node)
        for name in self.graph.outputs:
            self.materialize(name)
        return self.rewriter.graph()

    @abstractmethod
    def rewrite(self, node: GraphNode) -> bool:
        """Add what a node means to the new graph, or note it; False: it is to be copied."""

    @abstractmethod
    def materialize(self, name: str) -> None:
        """Make the tensor `name` of the old graph, if there is only a note of it."""
