"""`NodeCall`: one ONNX node as a converter sees it, and what it adds to the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ansorc.errors import AnsorcError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.importing.converter_call import ConverterCall
from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.model import OnnxNode
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array

Converter: TypeAlias = "Callable[[NodeCall], OnnxItem | Sequence[OnnxItem]]"
"""Adds the nodes that compute an ONNX node to the graph, and returns its outputs."""


@dataclass(frozen=True, eq=False)
class OnnxSequence:
    """Tensors one behind the other; how many they are is known at import, none of it at a run."""

    items: tuple[Value, ...]


OnnxItem: TypeAlias = "str | Array | OnnxSequence"
"""An input or output of a node: a tensor, or a sequence of some."""


class NodeCall(ConverterCall):
    """One ONNX node, its inputs resolved.

    An input is a tensor of the graph, or an array that is known at import: what shapes are made of
    never gets into the graph.
    """

    def __init__(self, node: OnnxNode, inputs: Sequence[OnnxItem | None], builder: GraphBuilder):
        super().__init__(str(node), builder)
        self.node = node
        self._inputs = tuple(inputs)
        self._read_attributes: set[str] = set()
        self._read_inputs: set[int] = set()

    @property
    def ignored_attributes(self) -> list[str]:
        """The attributes of the node that nobody has asked for."""
        return [name for name in self.node.attributes if name not in self._read_attributes]

    @property
    def ignored_inputs(self) -> list[int]:
        """The positions of given inputs that nobody has asked for."""
        given = [position for position, item in enumerate(self._inputs) if item is not None]
        return [position for position in given if position not in self._read_inputs]

    @property
    def opset(self) -> int:
        """The version of the operator set that the file was made for."""
        return self.node.opset

    @property
    def count(self) -> int:
        """How many inputs are given, those left out at the end not counted."""
        return len(self._inputs)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute; `default` where it is not given."""
        self._read_attributes.add(name)
        return self.node.attributes.get(name, default)

    def has(self, index: int) -> bool:
        """Return whether an optional input is given."""
        self._read_inputs.add(index)
        return index < len(self._inputs) and self._inputs[index] is not None

    def input(self, index: int) -> str:
        """Return an input as a tensor of the graph."""
        return self.name_value(self._require_value(index), self.node.inputs[index])

    def inputs(self) -> list[str]:
        """Return all inputs as tensors of the graph."""
        return [self.input(position) for position in range(len(self._inputs))]

    def value(self, index: int) -> Array | None:
        """Return the values of an input; None if they are not known at import, or not given."""
        item = self._ask(index)
        if isinstance(item, OnnxSequence):
            self.refuse(f"its input {index} is a sequence, and it takes a tensor")
        return None if item is None else self.find_values(item)

    def item(self, index: int) -> OnnxItem:
        """Return an input as it is, known values with their values."""
        item = self._ask(index)
        if isinstance(item, OnnxSequence):
            return item
        value = self.value(index)
        return self.input(index) if value is None else value

    def sequence(self, index: int) -> tuple[Value, ...]:
        """Return the tensors of an input that is a sequence."""
        item = self._ask(index)
        if not isinstance(item, OnnxSequence):
            self.refuse(f"its input {index} is no sequence")
        return item.items

    def require_known(self, index: int, what: str) -> Array:
        """Return the values of an input that must be known at import; `what` it is, for people."""
        self._require_value(index)
        values = self.value(index)
        if values is None:
            name = self.node.inputs[index]
            self.refuse(
                f"{what} ('{name}') depends on the network's input, so that shapes are not known; "
                f"if it is always the same, give it by constants={{'{name}': ...}}"
            )
        return values

    def ints(self, index: int, what: str) -> list[int]:
        """Return the values of an input that must be known at import, as a list of integers."""
        return [int(number) for number in np.atleast_1d(self.require_known(index, what))]

    def type(self, index: int) -> TensorType:
        """Return the type of an input; float16 and bfloat16 are float32 within a graph."""
        return self.type_of_value(self._require_value(index))

    def types(self) -> dict[str, TensorType]:
        """Return the types of all inputs that are tensors of a type that ansorc has, by name."""
        types: dict[str, TensorType] = {}
        for name, item in zip(self.node.inputs, self._inputs, strict=False):
            if isinstance(item, str):
                types[name] = self.builder.type(item)
            elif isinstance(item, np.ndarray):
                with suppress(AnsorcError):  # text, and floats of 8 bits
                    types[name] = TensorType.of_array(item)
        return types

    def rank(self, index: int) -> int:
        """Return the number of dimensions of an input."""
        return len(self.type(index).shape)

    def _ask(self, position: int) -> OnnxItem | None:
        """Return an input, and note that it was asked for; None if it is not given."""
        self._read_inputs.add(position)
        return self._inputs[position] if position < len(self._inputs) else None

    def _require_value(self, position: int) -> Value:
        item = self._ask(position)
        if item is None:
            self.refuse(f"its input {position} is missing")
        if isinstance(item, OnnxSequence):
            self.refuse(f"its input {position} is a sequence, and it takes a tensor")
        return item
