"""Import an ONNX graph: shapes are folded, every other node is converted to operators of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ansorc.errors import AnsorcError, GraphError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.onnx.converters import CONVERTERS
from ansorc.graph.onnx.model import (
    OnnxGraph,
    OnnxInput,
    OnnxNode,
    OnnxSource,
    compute_node,
    load_onnx,
)
from ansorc.graph.onnx.node_call import NodeCall, OnnxValue
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import dtype

_COMPUTED_IN_FLOAT32 = ("float16", "bfloat16")


def from_onnx(
    source: OnnxSource,
    inputs: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, object] | None = None,
    name: str = "",
) -> Graph:
    """Return the network in an ONNX file (or ModelProto), for one shape of each input.

    `inputs` gives shapes, by name; those that the file fixes may be left out. `constants` gives
    inputs that always have the same values. Floats of 16 bits are computed in float32. Raise
    GraphError for a file that cannot be read, an operator that is not known, and whatever has a
    shape that depends on data.
    """
    model = load_onnx(source)
    return _Import(model, name or model.name or "network").run(inputs or {}, constants or {})


class _Import:
    """The import of one graph: what each of its tensors is."""

    def __init__(self, model: OnnxGraph, name: str) -> None:
        self._model = model
        self._builder = GraphBuilder(name)
        self._known: dict[str, OnnxValue] = {}

    def run(self, shapes: Mapping[str, Sequence[int]], constants: Mapping[str, object]) -> Graph:
        """Return the graph."""
        self._refuse_unknown([*shapes, *constants])
        self._known.update({name: _computed(a) for name, a in self._model.initializers.items()})
        for given in self._model.inputs:
            if given.name in constants:
                self._known[given.name] = np.asarray(constants[given.name])
            else:
                self._known[given.name] = self._input(given, shapes.get(given.name))
        self._nodes(self._model.nodes)
        return self._builder.graph([self._output(name) for name in self._model.outputs])

    def _refuse_unknown(self, names: Sequence[str]) -> None:
        known = [one.name for one in self._model.inputs]
        for name in names:
            if name not in known:
                words = ", ".join(f"'{one}'" for one in known) or "none"
                raise GraphError(f"'{self._model.name}' has no input '{name}'; it has {words}")

    def _input(self, given: OnnxInput, shape: Sequence[int] | None) -> str:
        """Add an input of the network."""
        kind = TensorType(dtype(given.dtype or "float32"), _shape(given, shape))
        name = self._builder.input(given.name, kind)
        if kind.dtype.name in _COMPUTED_IN_FLOAT32:
            return self._builder.add("cast", [name], dtype="float32")
        return name

    def _output(self, name: str) -> str:
        """Return the tensor of the graph that is the output `name`, under that name if possible."""
        found = self._known.get(name)
        if found is None:
            raise GraphError(f"nothing computes the output '{name}' of '{self._model.name}'")
        if not isinstance(found, str):
            return self._builder.constant(found, name if name not in self._builder.types else "")
        return found

    def _nodes(self, nodes: Sequence[OnnxNode]) -> None:
        for node in nodes:
            missing = [name for name in node.inputs if name and name not in self._known]
            if missing:
                raise GraphError(f"{node} reads '{missing[0]}', which nothing computes before it")
            for name, value in zip(node.outputs, self._converted(node), strict=False):
                if name:
                    self._known[name] = value

    def _converted(self, node: OnnxNode) -> Sequence[OnnxValue]:
        """Return the outputs of a node: computed now if all inputs are known, else in the graph."""
        inputs = [self._known[name] if name else None for name in node.inputs]
        values = {
            name: value
            for name, value in zip(node.inputs, inputs, strict=True)
            if value is not None and not isinstance(value, str)
        }
        if len(values) == len({name for name in node.inputs if name}):
            return [_computed(value) for value in compute_node(node, values)]
        converter = CONVERTERS.get(node.operator)
        if converter is None:
            raise GraphError(
                f"{node}: ansorc does not know this operator; define it in the DSL with "
                f"ac.register_onnx_op('{node.operator}', ...)"
            )
        self._builder.source = str(node)
        try:
            found = converter(NodeCall(node, inputs, self._builder))
        except GraphError:
            raise
        except AnsorcError as error:
            raise GraphError(f"{node}: {error}") from error
        return [found] if isinstance(found, (str, np.ndarray)) else list(found)


def _shape(given: OnnxInput, shape: Sequence[int] | None) -> tuple[int, ...]:
    """The extents of an input: those that the caller gives, else those of the file."""
    if shape is not None:
        extents = tuple(int(extent) for extent in shape)
        dims: Sequence[Any] = given.dims if given.dims is not None else extents
        fits = len(dims) == len(extents) and all(
            isinstance(dim, str) or not dim or dim == extent
            for dim, extent in zip(dims, extents, strict=True)
        )
        if not fits:
            raise GraphError(f"the input '{given.name}' is {list(dims)}, not {list(extents)}")
        return extents
    if given.dims is None:
        raise GraphError(
            f"the file does not say what shape the input '{given.name}' has; "
            f"give it: inputs={{'{given.name}': (...)}}"
        )
    open_dims = [dim for dim in given.dims if isinstance(dim, str) or dim < 1]
    if open_dims:
        example = tuple(dim if isinstance(dim, int) and dim > 0 else 1 for dim in given.dims)
        words = ", ".join(f"'{dim}'" for dim in open_dims)
        raise GraphError(
            f"the extents {words} of the input '{given.name}' are not fixed in the file; "
            f"choose them, e.g. inputs={{'{given.name}': {example}}}"
        )
    return tuple(int(dim) for dim in given.dims)


def _computed(array: Array) -> Array:
    """Return known values as the graph computes with them."""
    return array.astype(np.float32) if array.dtype.name in _COMPUTED_IN_FLOAT32 else array
