"""`ConverterCall`: a node of an imported network as its converter sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from numpy.typing import ArrayLike

from ansorc.errors import GraphError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph_operator import GraphOperator
from ansorc.graph.importing.values import Value
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import DType


class ConverterCall:
    """One node of an imported network, and what its converter adds to the graph.

    All methods raise GraphError, with where the node is, where it asks for something that there is
    not.
    """

    def __init__(self, where: str, builder: GraphBuilder) -> None:
        """Begin with `where`, the node for people: its operator, its name, the user's line."""
        self.where = where
        self.builder = builder

    def add(self, operator: str | GraphOperator, inputs: Sequence[str], **given: object) -> str:
        """Add a node with one output and return its name."""
        return self.builder.add(operator, inputs, "", **given)

    def constant(self, value: ArrayLike) -> str:
        """Add known values to the graph."""
        return self.builder.constant(value)

    def scalar(self, value: float, like: str) -> str:
        """Add one number of the dtype of the tensor `like`."""
        return self.builder.scalar(value, like)

    def convert(self, name: str, kind: DType) -> str:
        """Return a tensor, converted to `kind` if it is not of it."""
        if self.builder.type(name).dtype == kind:
            return name
        return self.add("cast", [name], dtype=str(kind))

    def axis(self, given: int, rank: int) -> int:
        """Return `given` counted from the front."""
        if not -rank <= given < rank:
            self.refuse(f"there is no axis {given} in {rank} dimensions")
        return given % rank

    def refuse(self, why: str) -> NoReturn:
        """Raise GraphError: this node cannot be imported."""
        raise GraphError(f"{self.where}: {why}")

    def type_of_value(self, value: Value) -> TensorType:
        """Return the type of a tensor, or of known values."""
        return self.builder.type(value) if isinstance(value, str) else TensorType.of_array(value)

    def find_values(self, value: Value) -> Array | None:
        """Return the values of a tensor; None if they are not known at import."""
        return self.builder.value(value) if isinstance(value, str) else value

    def name_value(self, value: Value, name: str = "") -> str:
        """Return a tensor of the graph; known values are added once, as `name` if that is free."""
        return value if isinstance(value, str) else self.builder.tensor(value, name)


def inputs_text(types: Mapping[str, TensorType]) -> str:
    """Return the inputs of a node for a report."""
    return ", ".join(f"'{name}' of {kind}" for name, kind in types.items()) or "none"
