"""Import an ONNX graph: shapes are folded, every other node is converted to operators of graphs."""

from __future__ import annotations

import operator
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast, overload

import numpy as np

from ansorc.errors import GraphError
from ansorc.graph.graph import Graph
from ansorc.graph.graph_variants import GraphVariants, Shape, ShapeChoice, shape_combinations
from ansorc.graph.importing.graph_import import GraphImport, input_dtype
from ansorc.graph.importing.values import HALF_FLOATS, Value, as_list
from ansorc.graph.onnx.control_flow import FLOW
from ansorc.graph.onnx.converters import CONVERTERS
from ansorc.graph.onnx.converters.quantized import defer_dequantizing
from ansorc.graph.onnx.converters.sequences import SEQUENCES
from ansorc.graph.onnx.folding import Folding
from ansorc.graph.onnx.guarding import convert_node
from ansorc.graph.onnx.ignored import refuse_ignored
from ansorc.graph.onnx.model import (
    MAX_DEPTH,
    OnnxGraph,
    OnnxInput,
    OnnxModel,
    OnnxNode,
    OnnxSource,
    load_onnx,
)
from ansorc.graph.onnx.narrow_types import NarrowTypes
from ansorc.graph.onnx.node_call import NodeCall, OnnxItem, OnnxSequence
from ansorc.graph.onnx.ordering import order_nodes
from ansorc.graph.onnx.user_operator import user_outputs
from ansorc.graph.operators.registered import find_registered
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import DType
from ansorc.lang.arguments import check_arguments

MAX_NODES = 100_000
"""The most nodes of a network, with all copies from its functions and loops."""

_KnownTensors: TypeAlias = "ChainMap[str, OnnxItem | None]"
"""The tensors of a graph and of the graphs around it; None: left out by a caller."""


@overload
def from_onnx(
    source: OnnxSource,
    inputs: Mapping[str, Shape] | None = None,
    constants: Mapping[str, object] | None = None,
    name: str = "",
) -> Graph: ...
@overload
def from_onnx(
    source: OnnxSource,
    inputs: Mapping[str, Sequence[Shape]],
    constants: Mapping[str, object] | None = None,
    name: str = "",
) -> GraphVariants: ...
@overload
def from_onnx(
    source: OnnxSource,
    inputs: Mapping[str, ShapeChoice],
    constants: Mapping[str, object] | None = None,
    name: str = "",
) -> Graph | GraphVariants: ...
@check_arguments
def from_onnx(
    source: OnnxSource,
    inputs: Mapping[str, ShapeChoice] | None = None,
    constants: Mapping[str, object] | None = None,
    name: str = "",
) -> Graph | GraphVariants:
    """Return the network in an ONNX file (or ModelProto), for one shape of each input.

    `inputs` gives shapes, by name; those that the file fixes may be left out. A list of shapes asks
    for as many graphs, and lists of several inputs go together. `constants` gives inputs that
    always have the same values. Floats of 16 bits are computed in float32, and kept in memory in
    16 bits; `ac.build(graph, precision="f32")` keeps them in float32. Raise GraphError for a file
    that cannot be read, an operator that is not known, and whatever has a shape that depends on
    data.
    """
    model = load_onnx(source)
    chosen, always = name or model.graph.name or "network", constants or {}
    combinations = shape_combinations(inputs or {})
    if combinations is None:
        return _Import(model, chosen).run(cast("Mapping[str, Shape]", inputs or {}), always)
    return GraphVariants(
        tuple(_Import(model, chosen).run(shapes, always) for shapes in combinations)
    )


class _Import:
    """The import of one model, with its graph in the making."""

    def __init__(self, model: OnnxModel, name: str) -> None:
        self._model, self._main = model, model.graph
        self._import = GraphImport(name, self._main.outputs)
        self._builder = self._import.builder
        self._narrow = NarrowTypes(self._builder)
        weights = self._main.initializers.values()
        self._folding = Folding(sum(array.nbytes for array in weights))
        self._nodes = 0

    def run(self, shapes: Mapping[str, Sequence[int]], constants: Mapping[str, object]) -> Graph:
        """Return the graph."""
        self._refuse_unknown([*shapes, *constants])
        known: _KnownTensors = ChainMap()
        for given in self._main.inputs:
            if given.name in constants:
                known[given.name] = self._narrow.widen(_constant(given, constants[given.name]))
            else:
                kind = TensorType(_dtype(given), _shape(given, shapes.get(given.name)))
                known[given.name] = self._import.add_input(given.name, kind)
        return self._finish(self._graph(self._main, known, 0))

    def _refuse_unknown(self, names: Sequence[str]) -> None:
        known = [given.name for given in self._main.inputs]
        for name in names:
            if name not in known:
                words = ", ".join(f"'{known_name}'" for known_name in known) or "none"
                raise GraphError(f"'{self._main.name}' has no input '{name}'; it has {words}")

    def _finish(self, values: Sequence[OnnxItem]) -> Graph:
        """Return the graph, whose outputs have the names and dtypes that the file has for them."""
        outputs: list[tuple[str, Value]] = []
        for name, value in zip(self._main.outputs, values, strict=True):
            if isinstance(value, OnnxSequence):
                raise GraphError(
                    f"the output '{name}' is a sequence; ansorc's networks return tensors: name "
                    "each of them by SequenceAt, or join them by ConcatFromSequence"
                )
            if isinstance(value, np.ndarray):
                _require_numbers(value, f"the output '{name}'")
            outputs.append((name, value))
        kinds = self._main.output_dtypes
        narrow = {name: kind for name, kind in kinds.items() if kind in HALF_FLOATS}
        return self._import.finish(outputs, narrow)

    def _graph(self, graph: OnnxGraph, known: _KnownTensors, depth: int) -> list[OnnxItem]:
        """Add the nodes of a graph, whose inputs are `known`; return its outputs."""
        if depth > MAX_DEPTH:
            raise GraphError(
                f"its functions and graphs lie in one another, more than {MAX_DEPTH} deep"
            )
        weights = graph.initializers
        known.update({name: self._narrow.widen(array) for name, array in weights.items()})
        for node in order_nodes(graph):
            missing = [name for name in node.inputs if name and name not in known]
            if missing:
                raise GraphError(f"{node} reads '{missing[0]}', which nothing computes")
            results = self._convert(node, known, depth)
            if len(results) < len(node.outputs) and any(node.outputs[len(results) :]):
                raise GraphError(f"{node} has {len(node.outputs)} outputs, not {len(results)}")
            known.update(zip(filter(None, node.outputs), _select_named(node, results), strict=True))
        missing = [name for name in graph.outputs if known.get(name) is None]
        if missing:
            raise GraphError(f"nothing computes the output '{missing[0]}' of '{graph.name}'")
        values = [known[name] for name in graph.outputs]
        return [value for value in values if value is not None]

    def _convert(self, node: OnnxNode, known: _KnownTensors, depth: int) -> Sequence[OnnxItem]:
        """Return the outputs of a node: computed now if all inputs are known, else in the graph."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise GraphError(f"with its functions and loops it has more than {MAX_NODES:,} nodes")
        inputs = [known[name] if name else None for name in node.inputs]
        call = NodeCall(node, inputs, self._builder)
        self._builder.source = str(node)
        if node.operator in FLOW:

            def run(graph: OnnxGraph, values: Sequence[OnnxItem]) -> list[OnnxItem]:
                return self._inner(node, graph, values, known, depth)

            results = convert_node(call, lambda: FLOW[node.operator](call, run))
            refuse_ignored(call)
            return results
        user, called = find_registered(node.operator), self._model.find_function(node)
        if user is None and called is not None:
            return self._inner(node, called, inputs, ChainMap(), depth)
        arrays = [value if isinstance(value, np.ndarray) else None for value in inputs]
        is_known = not any(isinstance(value, (str, OnnxSequence)) for value in inputs)
        is_known = is_known and node.operator not in SEQUENCES
        if user is None and is_known and self._folding.can(node):
            folded = convert_node(call, lambda: self._folding.outputs(node, arrays))
            results = [self._narrow.widen(value) for value in folded]
            if node.operator == "DequantizeLinear":
                defer_dequantizing(call, results[0])
            return results
        for name, value in zip(node.inputs, arrays, strict=True):
            if value is not None:
                _require_numbers(value, f"{node}: '{name}'")
        if user is not None:
            made = convert_node(call, lambda: user_outputs(call, user), is_users=True)
            return self._narrow.note(node, inputs, made)
        converter = CONVERTERS.get(node.operator)
        if converter is None:
            raise GraphError(
                f"{node}: ansorc does not know this operator; define it in the DSL with "
                f"ac.register_onnx_op('{node.operator}', ...)"
            )
        results = as_list(convert_node(call, lambda: converter(call)))
        refuse_ignored(call)
        return self._narrow.note(node, inputs, results)

    def _inner(
        self,
        node: OnnxNode,
        graph: OnnxGraph,
        values: Sequence[OnnxItem | None],
        known: _KnownTensors,
        depth: int,
    ) -> list[OnnxItem]:
        """Add a graph that `node` runs, for values of its inputs; return its outputs."""
        names = [given.name for given in graph.inputs]
        if len(values) > len(names):
            raise GraphError(f"{node}: its graph '{graph.name}' has {len(names)} inputs")
        left_out = [None] * (len(names) - len(values))
        inside = known.new_child(dict(zip(names, [*values, *left_out], strict=True)))
        return self._graph(graph, inside, depth + 1)


def _select_named(node: OnnxNode, results: Sequence[OnnxItem]) -> list[OnnxItem]:
    """Return the outputs of a node that have names."""
    return [value for name, value in zip(node.outputs, results, strict=False) if name]


def _require_numbers(value: Array, what: str) -> None:
    """Raise GraphError if known values are text."""
    if value.dtype.kind in "OSU":
        raise GraphError(f"{what} holds text; ansorc has numbers and bools alone")


def _dtype(given: OnnxInput) -> DType:
    return input_dtype(given.name, given.dtype or "float32")


def _constant(given: OnnxInput, value: object) -> Array:
    """Return the values of an input that is always the same."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise TypeError(f"{array.dtype} has no counterpart here")
        array = array.astype(_dtype(given).numpy) if given.dtype else array
    except (TypeError, ValueError) as error:
        raise GraphError(f"the values of the input '{given.name}': {error}") from error
    _shape(given, array.shape)
    return array


def _shape(given: OnnxInput, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Return the extents of an input: those that the caller gives, else those of the file."""
    if shape is not None:
        try:
            extents = tuple(operator.index(extent) for extent in shape)
        except TypeError:
            raise GraphError(
                f"the shape of the input '{given.name}' is {shape!r}, not integers"
            ) from None
        dims: Sequence[Any] = given.dims if given.dims is not None else extents
        fits = len(dims) == len(extents) and all(
            isinstance(dim, str) or dim < 1 or dim == extent
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
