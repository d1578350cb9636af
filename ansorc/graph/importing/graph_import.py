"""`GraphImport`: the graph of an imported network in the making."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ansorc.errors import AnsorcError, GraphError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.importing.values import HALF_FLOATS, Value, widen
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import DType, dtype


class GraphImport:
    """The graph in the making, whose inputs and outputs have the names and dtypes of the source."""

    def __init__(self, name: str, outputs: Iterable[str]) -> None:
        self.builder = GraphBuilder(name)
        self.builder.reserve(outputs)

    def add_input(self, name: str, kind: TensorType) -> Value:
        """Add an input of the network; one without elements is known, and none of the graph's."""
        if not kind.elements:
            return widen(np.zeros(kind.shape, kind.dtype.numpy))
        tensor = self.builder.input(name, kind)
        if kind.dtype.name in HALF_FLOATS:
            wide = self.builder.add("cast", [tensor], dtype="float32")
            self.builder.keep_as(wide, kind.dtype.name)
            return wide
        return tensor

    def finish(self, outputs: Sequence[tuple[str, Value]], narrow: Mapping[str, str]) -> Graph:
        """Return the graph of all that was added, each output under its name in the source.

        `narrow` are the dtypes of those outputs that the graph computes in float32.
        """
        renamed: dict[str, str] = {}
        for name, value in outputs:
            if name not in self.builder.types:  # else an input
                self._name_output(name, value, narrow.get(name, ""), renamed)
        return self.builder.graph([name for name, _ in outputs])

    def _name_output(self, name: str, value: Value, narrow: str, renamed: dict[str, str]) -> None:
        """Give the output `name` its name; `renamed` are tensors that have names of outputs."""
        builder = self.builder
        if not isinstance(value, str):
            builder.constant(value.astype(dtype(narrow).numpy) if narrow else value, name)
        elif narrow:
            builder.add("cast", [renamed.get(value, value)], name, dtype=narrow)
        elif value in renamed or builder.rename(value, name) != name:  # it has another name
            current = renamed.get(value, value)
            builder.add("reshape", [current], name, shape=builder.type(current).shape)
        else:
            renamed[value] = name


def input_dtype(name: str, given: str) -> DType:
    """Return the dtype of the input `name`; raise GraphError if ansorc has none like it."""
    try:
        return dtype(given)
    except AnsorcError as error:
        raise GraphError(f"the input '{name}': {error}") from error
