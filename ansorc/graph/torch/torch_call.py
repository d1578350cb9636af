"""`TorchCall`: one call of an ATen operator as a converter sees it, and what it adds."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.importing.converter_call import ConverterCall
from ansorc.graph.importing.values import Value
from ansorc.graph.tensor_type import TensorType
from ansorc.graph.torch.model import NARROW_FLOATS, TorchNode, TorchRef
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import DType, dtype

TorchConverter: TypeAlias = "Callable[[TorchCall], Value | Sequence[Value]]"
"""Adds what a node means to the graph, and returns the node's results."""


def dtype_in_graph(name: str) -> DType:
    """Return what the graph computes a dtype in: floats of 16 or 8 bits in float32."""
    return dtype("float32" if name in NARROW_FLOATS else name)


class TorchCall(ConverterCall):
    """One node, the tensors that it reads resolved; arguments by the names of ATen's schema."""

    def __init__(
        self,
        node: TorchNode,
        values: Mapping[TorchRef, Value],
        builder: GraphBuilder,
        numbers: Container[TorchRef] = (),
    ) -> None:
        """Begin with the tensors known so far; `numbers` are those that are numbers of Python."""
        super().__init__(f"{node} ({node.where})" if node.where else str(node), builder)
        self.node = node
        self._values = values
        self._numbers = numbers

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument as it is given; `default` where it is None, or not in the schema."""
        argument = self.node.arguments.get(name)
        return default if argument is None else argument

    def has(self, name: str) -> bool:
        """Return whether an optional argument is given."""
        return self.node.arguments.get(name) is not None

    def input(self, name: str, kind: DType | None = None) -> str:
        """Return an argument as a tensor of the graph, converted to `kind` if that is given.

        A number becomes a tensor of shape ().
        """
        return self.tensor(self.get(name), kind)

    def inputs(self, name: str, kind: DType | None = None) -> list[str]:
        """Return a list of tensors, those without elements left out."""
        given = cast("list[object]", self.get(name, []))
        return [self.tensor(tensor, kind) for tensor in given if self.type_of(tensor).elements]

    def tensor(self, given: object, kind: DType | None = None) -> str:
        """Return a reference or a number as a tensor of the graph, of the dtype `kind`."""
        if not isinstance(given, TorchRef):
            if not isinstance(given, (bool, int, float)):
                self.refuse(f"it reads {given!r}, which is no tensor")
            value = np.asarray(given) if kind is None else np.asarray(given).astype(kind.numpy)
            return self.builder.constant(value)
        known = self._values[given]
        if isinstance(known, str):
            return known if kind is None else self.convert(known, kind)
        if kind is not None and known.dtype != kind.numpy:
            return self.builder.constant(known.astype(kind.numpy))
        return self.name_value(known, given.name)

    def value(self, name: str) -> Array | None:
        """Return the values of an argument; None if they are not known at import, or not given."""
        argument = self.get(name)
        if not isinstance(argument, TorchRef):
            return None if argument is None else np.asarray(argument)
        return self.find_values(self._values[argument])

    def is_number(self, name: str) -> bool:
        """Return whether an argument is a number of Python, now or in each call."""
        given = self.get(name)
        return not isinstance(given, TorchRef) or given in self._numbers

    def type(self, name: str) -> TensorType:
        """Return the type of a tensor that it reads; 16-bit floats are float32 within a graph."""
        return self.type_of(self.get(name))

    def type_of(self, given: object) -> TensorType:
        """Return the type of a reference, or of a number."""
        if not isinstance(given, TorchRef):
            return TensorType.of_array(np.asarray(given))
        return self.type_of_value(self._values[given])

    @property
    def result(self) -> TensorType:
        """The type of the first result."""
        first = self.node.results[0]
        if first is None:
            self.refuse("its first result is no tensor")
        shape = [extent for extent in first.shape if isinstance(extent, int)]
        if len(shape) != len(first.shape):
            self.refuse(
                f"its result is {list(first.shape)}, a shape that depends on the values of a "
                "tensor; ansorc's shapes are fixed: use a mask and torch.where instead"
            )
        return TensorType(dtype_in_graph(first.dtype), tuple(shape))

    @property
    def narrow_result(self) -> str:
        """The first result's dtype as PyTorch has it, if that is of narrow floats; else ""."""
        first = self.node.results[0]
        return first.dtype if first and first.dtype in NARROW_FLOATS else ""

    def axis(self, given: int, rank: int) -> int:
        """Return `given` counted from the front; 0 for a single number."""
        return super().axis(given, max(rank, 1))

    def axes(self, name: str, rank: int) -> list[int] | None:
        """Return axes counted from the front; None for all."""
        given = self.get(name)
        listed = [given] if isinstance(given, int) else cast("list[int]", given or [])
        return [self.axis(axis, rank) for axis in listed] or None

    def each(self, name: str, rank: int, default: Sequence[int] = ()) -> list[int]:
        """Return an argument that has a number for each of `rank` dimensions, or one for all."""
        given = self.get(name)
        listed = [given] if isinstance(given, int) else list(given or default)
        if len(listed) not in (1, rank):
            self.refuse(f"{name} is {listed}; its input needs {rank} numbers")
        return listed * rank if len(listed) == 1 else listed

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Return a tensor in another shape."""
        if tuple(shape) == self.builder.type(name).shape:
            return name
        return self.add("reshape", [name], shape=list(shape))
