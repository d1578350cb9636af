"""`Graph`: a network as an immutable value of named tensors and nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ansorc.errors import GraphError, LanguageError
from ansorc.graph.graph_operator import Attributes, GraphOperator
from ansorc.graph.graph_text import GraphText, NodeText, digest_of, parse_graph_text
from ansorc.graph.node_kind import NodeKind
from ansorc.graph.operators import OPERATORS, operator_named
from ansorc.graph.tensor_type import TensorType
from ansorc.ir import notebook
from ansorc.ir.aligned import Array
from ansorc.lang.dag import ComputeDAG


@dataclass(frozen=True)
class GraphNode:
    """One call of an operator: `outputs = operator(inputs, attributes)`, all tensors by name."""

    operator: GraphOperator
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes = ()
    source: str = ""
    """The node's type, name and version in the file that it comes from, for messages."""
    storage: str = ""
    """The narrow float, by name, that float32 results are kept in between kernels; "": float32."""

    @property
    def name(self) -> str:
        """The node's own name: that of its first output."""
        return self.outputs[0]

    @property
    def builtin(self) -> str:
        """The operator's name if it is one of ansorc's own, whose attributes are known; or ""."""
        name = self.operator.name
        return name if OPERATORS.get(name) == self.operator else ""

    def types(self, types: Mapping[str, TensorType]) -> tuple[TensorType, ...]:
        """Return the types of the outputs; `types` has those of the inputs. Raise GraphError."""
        try:
            given = tuple(types[name] for name in self.inputs)
            return self.operator.types(given, self.attributes)
        except (LanguageError, TypeError) as error:
            where = f" ({self.source})" if self.source else ""
            words = str(error) if isinstance(error, LanguageError) else f"bad attributes: {error}"
            raise GraphError(f"node '{self.name}'{where}: {words}") from error

    def dag(self, types: Mapping[str, TensorType]) -> ComputeDAG:
        """Return the node's computation, where `types` has the inputs."""
        return self.operator.dag(tuple(types[name] for name in self.inputs), self.attributes)

    def kind(self, types: Mapping[str, TensorType]) -> NodeKind:
        """Return how the outputs depend on the inputs, which `types` has."""
        return self.operator.kind(tuple(types[name] for name in self.inputs), self.attributes)


@dataclass(frozen=True, eq=False)
class Graph:
    """A network. `nodes` come in an order in which they can be computed.

    Tensors are named; the values of `constants` (weights) are arrays that nobody changes. An output
    may be a constant or an input. Raise GraphError where that has no meaning.
    """

    name: str
    inputs: Mapping[str, TensorType]
    """In call order."""
    outputs: tuple[str, ...]
    """In call order."""
    constants: Mapping[str, Array]
    nodes: tuple[GraphNode, ...]
    unquantized: Graph | None = None
    """The network that this one computes in integers of 8 bits, if `ac.quantize` made it."""

    def __post_init__(self) -> None:
        for name in self.outputs:
            if name not in self.types:
                raise GraphError(f"nothing computes the output '{name}' of '{self.name}'")
        if not self.outputs:
            raise GraphError(f"the network '{self.name}' has no outputs")

    @cached_property
    def types(self) -> Mapping[str, TensorType]:
        """The types of all tensors: inputs, constants, then in the order of the nodes."""
        known = dict(self.inputs)
        for name, array in self.constants.items():
            if name in known:
                raise GraphError(f"'{name}' is both an input and a constant")
            known[name] = TensorType.of_array(array)
        for node in self.nodes:
            for name in node.inputs:
                if name not in known:
                    raise GraphError(f"node '{node.name}' reads '{name}' before it is computed")
            types = node.types(known)
            if len(types) != len(node.outputs):
                words = f"{node.operator} has {len(types)} outputs, not {len(node.outputs)}"
                raise GraphError(f"node '{node.name}': {words}")
            for name, kind in zip(node.outputs, types, strict=True):
                if name in known:
                    raise GraphError(f"'{name}' is computed twice")
                known[name] = kind
        return known

    @cached_property
    def producers(self) -> Mapping[str, GraphNode]:
        """The node that computes each tensor, inputs and constants left out."""
        return {name: node for node in self.nodes for name in node.outputs}

    @cached_property
    def readers(self) -> Mapping[str, tuple[GraphNode, ...]]:
        """The nodes that read each tensor, in their order; those of outputs are not counted."""
        readers: dict[str, dict[str, GraphNode]] = {name: {} for name in self.types}
        for node in self.nodes:
            for name in node.inputs:
                readers[name][node.name] = node
        return {name: tuple(nodes.values()) for name, nodes in readers.items()}

    @cached_property
    def flops(self) -> float:
        """The operations of one run (reference: `lang.flops`)."""
        return sum(node.dag(self.types).flops for node in self.nodes)

    def to_text(self) -> str:
        """Return the graph as text, one line a node, which `from_text` reads back."""
        constants = {
            name: (TensorType.of_array(array), digest_of(array))
            for name, array in self.constants.items()
        }
        nodes = tuple(
            NodeText(
                node.operator.name, node.inputs, node.outputs, node.attributes, node.source,
                node.storage,
            )
            for node in self.nodes
        )  # fmt: skip
        return str(GraphText(self.name, self.inputs, constants, nodes, self.outputs))

    @staticmethod
    def from_text(
        text: str,
        constants: Mapping[str, Array],
        operators: Mapping[str, GraphOperator] | None = None,
    ) -> Graph:
        """Return the graph that `to_text` wrote, with the values of its constants.

        `operators` are others than those of networks, by name. Raise ParseError for other text,
        and GraphError for other constants, operators that are not known, and what does not fit.
        """
        parsed = parse_graph_text(text)
        values: dict[str, Array] = {}
        for name, (kind, digest) in parsed.constants.items():
            if name not in constants:
                raise GraphError(f"the values of the constant '{name}' are missing")
            values[name] = np.ascontiguousarray(constants[name]).reshape(np.shape(constants[name]))
            given = TensorType.of_array(values[name])
            if given != kind or digest_of(values[name]) != digest:
                raise GraphError(f"the constant '{name}' has other values, {given}, not {kind}")
        known = operators or {}
        nodes = tuple(
            GraphNode(
                known.get(node.operator) or operator_named(node.operator),
                node.inputs, node.outputs, node.attributes, node.source, node.storage,
            )
            for node in parsed.nodes
        )  # fmt: skip
        return Graph(parsed.name, parsed.inputs, parsed.outputs, values, nodes)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {kind}" for name, kind in self.inputs.items())
        return f"<Graph {self.name}({inputs}): {len(self.nodes)} nodes>"

    def _repr_html_(self) -> str:
        """Return the text as HTML for a notebook; a line shows its node's source on hover."""
        sources = {node.name: node.source for node in self.nodes}
        lines = [
            (line, next((sources[w] for w in re.findall(r"[^\s:,=]+", line) if w in sources), ""))
            for line in self.to_text().splitlines()
        ]
        return notebook.frame(f"{self.name}: {len(self.nodes)} nodes", notebook.code(lines))

    def is_used_once(self, name: str) -> bool:
        """Return whether `name` is no output and exactly one node reads it."""
        return len(self.readers[name]) == 1 and name not in self.outputs

    def with_nodes(
        self, nodes: tuple[GraphNode, ...], constants: Mapping[str, Array] | None = None
    ) -> Graph:
        """Return the network with other nodes, and other constants if given."""
        return replace(
            self, nodes=nodes, constants=self.constants if constants is None else constants
        )


GraphPass = Callable[[Graph], Graph]
"""A rewrite that changes no output by more than rounding."""
