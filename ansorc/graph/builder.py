"""`GraphBuilder`: makes a graph node by node, each typed and checked as it comes."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ansorc.errors import EmptyTensorError, GraphError
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.graph_operator import GraphOperator, attributes_of
from ansorc.graph.operators import operator_named
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array

MAX_EXTENT = 2**31 - 1
MAX_ELEMENTS = 2**40
"""No machine holds more elements, and no index counts them."""

_PLACES: Mapping[str, int] = {
    "embedding": 1, "gather": 1, "gather_nd": 1, "max_unpool": 1, "negative_log_likelihood": 1,
    "roi_align": 2, "roi_align_by_size": 2, "rotary_embedding": 3,
    "scatter_elements": 1, "scatter_nd": 1, "take": 1,
}  # fmt: skip
"""The input of an operator that holds the indices at which another input is read or written."""
_DIVISORS: Mapping[str, int] = {
    "floor_divide": 1, "floor_mod": 1, "remainder": 1, "truncated_divide": 1, "truncated_mod": 1,
}  # fmt: skip
"""The input of an operator that must not be 0 if it holds integers."""


@dataclass(frozen=True, eq=False)
class _Deferred:
    """Known values that become a node of other known values."""

    value: Array
    operator: str
    parts: tuple[tuple[str, Array], ...]
    attributes: Mapping[str, object]


class GraphBuilder:
    """A graph in the making; what is added may be used at once, by name."""

    def __init__(self, name: str = "network") -> None:
        self.name = name
        self.source = ""
        """The origin of the nodes that are added, for messages."""
        self._inputs: dict[str, TensorType] = {}
        self._constants: dict[str, Array] = {}
        self._types: dict[str, TensorType] = {}
        self._nodes: list[GraphNode] = []
        self._reserved: set[str] = set()
        self._conditions: list[str] = []
        self._deferred: dict[int, _Deferred] = {}
        """By the identity of their values."""
        self._computed: dict[str, Array] = {}
        """The values of nodes that stand for known ones."""
        self._storage: dict[str, str] = {}
        """The narrow floats that tensors are kept in between kernels."""

    def input(self, name: str, kind: TensorType) -> str:
        """Add an input of the network and return its name; raise GraphError if it is taken."""
        self._inputs[name] = self._declare(name, kind)
        return name

    def constant(self, value: ArrayLike, name: str = "") -> str:
        """Add an array of known values and return its name, made up if none is given."""
        deferred = self._deferred.get(id(value))
        if deferred is not None:
            parts = [self.tensor(array, part) for part, array in deferred.parts]
            node = self.add(deferred.operator, parts, name, **deferred.attributes)
            self._computed[node] = deferred.value
            return node
        array = np.asarray(value)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        chosen = name or self._fresh("constant")
        self._declare(chosen, TensorType.of_array(array))
        self._constants[chosen] = array
        return chosen

    def tensor(self, value: Array, name: str = "") -> str:
        """Return a tensor of known values, which is added once: as `name` if that is free."""
        if self.value(name) is value:
            return name
        return self.constant(value, name if self.is_free(name) else "")

    def defer(
        self, value: Array, operator: str, parts: Sequence[tuple[str, Array]], **given: object
    ) -> None:
        """Let known values, where they become a tensor, be a node of other known values.

        `parts` are the node's inputs with their names, `given` its attributes. A pass may then see
        what `value` was computed from.
        """
        self._deferred[id(value)] = _Deferred(value, operator, tuple(parts), given)

    def scalar(self, value: float, like: str) -> str:
        """Add one number of the dtype of the tensor `like`, of shape ()."""
        return self.constant(np.asarray(value).astype(self.type(like).dtype.numpy))

    def add(
        self, operator: str | GraphOperator, inputs: Sequence[str], name: str = "", **given: object
    ) -> str:
        """Add a node with one output, called `name`, and return the output's name.

        `given` are attributes. Raise GraphError where operator, inputs and attributes do not fit.
        """
        (output,) = self.add_many(operator, inputs, (name,), **given)
        return output

    @contextmanager
    def under(self, condition: str) -> Generator[None]:
        """Add nodes whose results count only where `condition`, one bool, holds in a run.

        They are computed in any case; where it does not hold, places that they read at are 0, and
        integers that they divide by are 1, so that a call fails by no place that nobody asks for.
        """
        outer = self._conditions
        both = self.add("logical_and", [outer[-1], condition]) if outer else condition
        self._conditions = [*outer, both]
        try:
            yield
        finally:
            self._conditions = outer

    def _guard(self, operator: str, inputs: Sequence[str]) -> list[str]:
        """Return the inputs of an operator, made harmless where the condition does not hold."""
        guarded = list(inputs)
        position, harmless = _PLACES.get(operator), 0
        if position is None:
            position, harmless = _DIVISORS.get(operator), 1
        if not self._conditions or position is None or position >= len(guarded):
            return guarded
        name = guarded[position]
        if self.type(name).dtype.is_integer and self.value(name) is None:
            filler = self.scalar(harmless, name)
            guarded[position] = self.add("where", [self._conditions[-1], name, filler])
        return guarded

    def add_many(
        self,
        operator: str | GraphOperator,
        inputs: Sequence[str],
        names: Sequence[str],
        **given: object,
    ) -> tuple[str, ...]:
        """Add a node with as many outputs as `names` and return their names; "" is made up."""
        definition = operator_named(operator) if isinstance(operator, str) else operator
        inputs = self._guard(definition.name, inputs)
        outputs: list[str] = []
        for name in names:
            outputs.append(name or self._fresh(definition.name, outputs))
        for name in inputs:
            self.type(name)
        node = GraphNode(
            definition, tuple(inputs), tuple(outputs), attributes_of(given), self.source
        )
        types = node.types(self._types)
        if len(types) != len(outputs):
            raise GraphError(f"{definition} has {len(types)} outputs, not {len(outputs)}")
        for name, kind in zip(outputs, types, strict=True):
            self._declare(name, kind)
        self._nodes.append(node)
        return tuple(outputs)

    def type(self, name: str) -> TensorType:
        """Return the type of a tensor; raise GraphError if there is none of that name."""
        if name not in self._types:
            raise GraphError(f"there is no tensor '{name}' yet in '{self.name}'")
        return self._types[name]

    def storage(self, name: str) -> str:
        """Return the narrow float that a float32 tensor is kept in between kernels, or ""."""
        return self._storage.get(name, "")

    def keep_as(self, name: str, storage: str) -> None:
        """Say which narrow float a float32 tensor is kept in between kernels; "": none."""
        if storage:
            self._storage[name] = storage
        else:
            self._storage.pop(name, None)

    def is_free(self, name: str) -> bool:
        """Return whether no tensor has that name yet, and none is to have it."""
        return name not in self._types and name not in self._reserved

    def value(self, name: str) -> Array | None:
        """Return the values of a constant; None for what is computed in a run."""
        return self._constants.get(name, self._computed.get(name))

    @property
    def types(self) -> Mapping[str, TensorType]:
        """The types of all tensors so far."""
        return self._types

    def reserve(self, names: Iterable[str]) -> None:
        """Make up none of `names` for tensors that get no name."""
        self._reserved.update(names)

    def rename(self, old: str, new: str) -> str:
        """Give the result `old` of a node another name and return it; `new` must be free.

        Inputs and constants, and results that are called `new` already for another purpose, keep
        their names.
        """
        if new in self._types or not any(old in node.outputs for node in self._nodes):
            return old
        self._types = {new if name == old else name: kind for name, kind in self._types.items()}
        self._nodes = [_rename(node, old, new) for node in self._nodes]
        self.keep_as(new, self._storage.pop(old, ""))
        return new

    def graph(self, outputs: Sequence[str]) -> Graph:
        """Return the graph that computes `outputs`; raise GraphError where one is unknown."""
        kept = [replace(node, storage=self.storage(node.name)) for node in self._nodes]
        constants = dict(self._constants)
        return Graph(self.name, dict(self._inputs), tuple(outputs), constants, tuple(kept))

    def _declare(self, name: str, kind: TensorType) -> TensorType:
        """Note the type of a new tensor and return it; raise GraphError where it cannot be."""
        if name in self._types:
            raise GraphError(f"two tensors of '{self.name}' are called '{name}'")
        if min(kind.shape, default=1) < 1:
            raise EmptyTensorError(f"the tensor '{name}' is empty, {kind}; extents are 1 or more")
        if max(kind.shape, default=1) > MAX_EXTENT or kind.elements > MAX_ELEMENTS:
            raise GraphError(f"the tensor '{name}' is too large, {kind}")
        self._types[name] = kind
        return kind

    def _fresh(self, stem: str, taken: Sequence[str] = ()) -> str:
        """Return a name that begins with `stem` and that no tensor has."""
        number, known = len(self._types), {*taken, *self._reserved}
        while (name := f"{stem}_{number}") in self._types or name in known:
            number += 1
        return name


def _rename(node: GraphNode, old: str, new: str) -> GraphNode:
    """Return `node` with the tensor `old` called `new`."""
    inputs = tuple(new if name == old else name for name in node.inputs)
    return replace(node, inputs=inputs, outputs=tuple(new if n == old else n for n in node.outputs))
