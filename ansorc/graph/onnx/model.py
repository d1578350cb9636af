"""ONNX models as plain values, and what single nodes compute; the only module that knows `onnx`."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import onnx
from onnx import checker, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from ansorc.errors import GraphError
from ansorc.graph.onnx.external_data import ExternalData
from ansorc.ir.aligned import Array, in_own_pages

MIN_OPSET, MAX_OPSET = 7, 26
"""The versions of ONNX's own operators that converters are written for."""
MIN_IR_VERSION = 3
"""The first with operator sets."""
MAX_PROTOBUF_BYTES = 2**31 - 1
MAX_DEPTH = 32
"""How deep graphs lie in attributes of nodes of graphs."""
MAX_SHAPE_ELEMENTS = 4096
"""A known tensor with more elements is not what a shape is made of."""

_ONLY_VERSIONS: Mapping[str, int] = {"com.microsoft": 1}
"""Domains of one version: files need not say it, and models that ONNX Runtime's optimiser for
transformers has just made do not."""
_FIRST_COMPUTED = {"DequantizeLinear": 19, "QuantizeLinear": 19}
"""The first versions that the reference implementation has; earlier ones mean the same."""

Attribute = Any
"""An int, a float, text, an array, an `OnnxGraph`, or a list of one kind of them."""

ElementsAndShape: TypeAlias = "tuple[np.dtype[Any], Sequence[int]]"


@dataclass(frozen=True)
class OnnxInput:
    """A tensor that a graph is given: its element type, and what the file says of its shape."""

    name: str
    dtype: str
    """As NumPy calls it; "" where the file does not say."""
    dims: tuple[int | str, ...] | None
    """A number, or the name of an extent that is not known; None: not even the rank is."""


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """One node: inputs and outputs by name, "" for those left out."""

    operator: str
    """With its domain in front, unless that is ONNX's own: "Conv", "com.microsoft::Gelu"."""
    name: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    proto: onnx.NodeProto

    def graphs(self) -> Iterator[OnnxGraph]:
        """Yield the graphs among its attributes."""
        for value in self.attributes.values():
            for part in cast("list[object]", value) if isinstance(value, list) else [value]:
                if isinstance(part, OnnxGraph):
                    yield part

    def __str__(self) -> str:
        name = self.name or next(filter(None, self.outputs), "")
        return f"{self.operator} '{name}' (opset {self.opset})"


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A graph of a model, of an attribute of a node, or of a function."""

    name: str
    inputs: tuple[OnnxInput, ...]
    """Initializers are no inputs, even where an old file lists them as such, too."""
    outputs: tuple[str, ...]
    initializers: Mapping[str, Array]
    nodes: tuple[OnnxNode, ...]
    output_dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    """As NumPy calls them, of the outputs of which the file says it."""


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A model: its graph, and the functions that its nodes may call."""

    graph: OnnxGraph
    functions: Mapping[str, onnx.FunctionProto]
    """By the operator of the nodes that call them."""

    def find_function(self, node: OnnxNode) -> OnnxGraph | None:
        """Return the graph of the function that `node` calls; None if it calls none."""
        function = self.functions.get(node.operator)
        return None if function is None else _function_graph(function, node)


OnnxSource: TypeAlias = str | os.PathLike[str] | onnx.ModelProto
"""A file, or a model in memory."""


def load_onnx(source: OnnxSource) -> OnnxModel:
    """Return the model of an ONNX file, or of a ModelProto; raise GraphError if it has no meaning.

    Weights that lie in other files are mapped into memory, not read.
    """
    if isinstance(source, onnx.ModelProto):
        return _model(source, ExternalData(None))
    path = Path(source)
    try:
        if path.stat().st_size > MAX_PROTOBUF_BYTES:
            raise GraphError(
                f"'{path}' has more than 2 GiB, which no ONNX file can; "
                "save the model with its weights as external data"
            )
        proto = onnx.ModelProto.FromString(path.read_bytes())
    except FileNotFoundError:
        raise GraphError(f"there is no file '{path}'; give the path of an ONNX file") from None
    except GraphError:
        raise
    except Exception as error:
        raise GraphError(f"'{path}' is no ONNX file that can be read: {error}") from error
    return _model(proto, ExternalData(path.parent))


def compute_node(node: OnnxNode, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs of `node` for known inputs, as ONNX's reference implementation has them.

    Raise GraphError where it cannot.
    """
    given = [helper.make_value_info(name, onnx.TypeProto()) for name in inputs]
    wanted = [helper.make_value_info(name, onnx.TypeProto()) for name in node.outputs if name]
    try:
        with np.errstate(all="ignore"):
            evaluator: Any = ReferenceEvaluator(_alone(node, given, wanted))
            outputs = evaluator.run(None, dict(inputs))
    except Exception as error:
        raise GraphError(f"{node} cannot be computed at import: {error}") from error
    results = iter(outputs)
    arrays = [next(results) if name else np.zeros(0) for name in node.outputs]
    if not all(isinstance(array, (np.ndarray, np.generic)) for array in arrays):
        raise GraphError(f"{node} makes no tensors, but sequences; ansorc has tensors alone")
    return [np.asarray(array) for array in arrays]


def is_onnx_operator(node: OnnxNode) -> bool:
    """Return whether the node's operator is one of ONNX's own."""
    domain = _domain(node.proto.domain)
    return onnx.defs.has(node.proto.op_type, max_inclusive_version=node.opset, domain=domain)


def schema_attributes(node: OnnxNode) -> Collection[str]:
    """Return what attributes ONNX's schema of the node's operator has; none for other operators."""
    if not is_onnx_operator(node):
        return ()
    domain = _domain(node.proto.domain)
    return list(onnx.defs.get_schema(node.proto.op_type, node.opset, domain).attributes)


def bytes_computed(node: OnnxNode, inputs: Mapping[str, Array]) -> int | None:
    """Return the size of the outputs of `node` for known inputs, none of them computed.

    None where ONNX's rules of shapes do not say it.
    """
    wanted = [helper.make_value_info(name, onnx.TypeProto()) for name in node.outputs if name]
    try:
        kinds = {name: (array.dtype, array.shape) for name, array in inputs.items()}
        inferred = shape_inference.infer_shapes(_make_model(node, kinds, inputs, wanted))
    except Exception:  # noqa: BLE001 - whatever it is, nothing is known
        return None
    return _sum_of_bytes(inferred.graph.output)


def refusal_by_onnx(
    node: OnnxNode, kinds: Mapping[str, ElementsAndShape], known: Mapping[str, Array]
) -> str:
    """Return what ONNX's own rules say against a node with inputs of `kinds`; "" for nothing.

    `known` are the values of inputs. Only for an operator of ONNX's own.
    """
    try:
        model = _make_model(node, kinds, known, ())
        cast(Any, checker).check_model(model)
        shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # noqa: BLE001 - its own classes, and those of what it calls
        return next(filter(None, str(error).splitlines()), type(error).__name__)
    return ""


def describe(node: OnnxNode) -> str:
    """Return a node on one line: its attributes too, but of tensors the names alone."""
    return str(helper.printable_node(node.proto))


def _make_model(
    node: OnnxNode,
    kinds: Mapping[str, ElementsAndShape],
    values: Mapping[str, Array],
    wanted: Sequence[onnx.ValueInfoProto],
) -> onnx.ModelProto:
    """A model of one node, whose inputs have types, and values that shapes are made of."""
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)
        for name, (kind, shape) in kinds.items()
    ]
    model = _alone(node, given, wanted)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in values.items()
        if array.size <= MAX_SHAPE_ELEMENTS
    )
    return model


def numpy_name(element_type: int) -> str:
    """Return NumPy's name of an ONNX element type; raise GraphError if ansorc has no such."""
    return _numpy_dtype(element_type).name


def _alone(
    node: OnnxNode, given: Sequence[onnx.ValueInfoProto], wanted: Sequence[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    """A model of one node."""
    graph = helper.make_graph([node.proto], "fold", given, wanted)
    version = max(node.opset, _FIRST_COMPUTED.get(node.operator, 0))
    opset = helper.make_opsetid(node.proto.domain, version)
    return helper.make_model(graph, opset_imports=[opset])


def _sum_of_bytes(outputs: Sequence[onnx.ValueInfoProto]) -> int | None:
    total = 0
    for output in outputs:
        kind = output.type.tensor_type
        dims = [
            dimension.dim_value for dimension in kind.shape.dim if dimension.HasField("dim_value")
        ]
        is_known = kind.HasField("shape") and len(dims) == len(kind.shape.dim)
        if not is_known or min(dims, default=0) < 0:
            return None
        total += math.prod(dims) * _numpy_dtype(kind.elem_type).itemsize
    return total


def _numpy_dtype(element_type: int) -> np.dtype[Any]:
    if element_type == onnx.TensorProto.STRING:
        raise GraphError("it holds text; ansorc has numbers and bools alone")
    try:
        return helper.tensor_dtype_to_np_dtype(element_type)
    except (KeyError, ValueError):
        raise GraphError(f"there is no element type {element_type} in ONNX") from None


def _model(proto: onnx.ModelProto, data: ExternalData) -> OnnxModel:
    if not MIN_IR_VERSION <= proto.ir_version <= onnx.IR_VERSION:
        raise GraphError(
            f"the file has version {proto.ir_version} of ONNX's format; {MIN_IR_VERSION} to "
            f"{onnx.IR_VERSION} can be read (a newer one by a newer package 'onnx')"
        )
    if not proto.graph.output:
        raise GraphError("the file has no network: its graph has no outputs")
    outputs = Counter(one.name for one in proto.graph.output)
    if twice := [name for name, count in outputs.items() if count > 1]:
        raise GraphError(f"two outputs of '{proto.graph.name}' are called '{twice[0]}'")
    functions = {_operator(one.domain, one.name): one for one in proto.functions}
    opsets = _opsets(proto.opset_import)
    return OnnxModel(_ProtoReader(opsets, data).graph(proto.graph), functions)


def _opsets(given: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    versions: dict[str, int] = {}
    for opset in given:
        domain = _domain(opset.domain)
        if versions.setdefault(domain, opset.version) != opset.version:
            raise GraphError(f"the file gives two versions of the operators of '{domain}'")
        if not domain and not MIN_OPSET <= opset.version <= MAX_OPSET:
            raise GraphError(
                f"the file is made of the operators of opset {opset.version}; {MIN_OPSET} to "
                f"{MAX_OPSET} are known: convert it by onnx.version_converter"
            )
    return versions


def _text(value: str) -> str:
    """Return a name of a model; raise GraphError if it is bytes, as what is no UTF-8 is."""
    if not isinstance(cast("object", value), str):
        raise GraphError(f"the name {value!r} is no text")
    return value


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_text, values))


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else _text(name)


def _operator(domain: str, name: str) -> str:
    return f"{domain}::{_text(name)}" if _domain(domain) else _text(name)


def _function_graph(function: onnx.FunctionProto, node: OnnxNode) -> OnnxGraph:
    """The body of a function with the attributes of a node that calls it."""
    if len(node.inputs) > len(function.input) or len(node.outputs) > len(function.output):
        raise GraphError(f"{node} has more inputs or outputs than the function that it calls")
    given = {entry.name: entry for entry in (*function.attribute_proto, *node.proto.attribute)}
    nodes = [_with_attributes(entry, given) for entry in function.node]
    reader = _ProtoReader(_opsets(function.opset_import), ExternalData(None))
    return OnnxGraph(
        function.name,
        tuple(OnnxInput(name, "", None) for name in _texts(function.input)),
        _texts(function.output),
        {},
        tuple(reader.node(entry, 0) for entry in nodes),
    )


def _with_attributes(
    node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]
) -> onnx.NodeProto:
    """The node with the attributes that its function takes, those that are not given left out."""
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    del copied.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in given:
                value = copied.attribute.add()
                value.CopyFrom(given[attribute.ref_attr_name])
                value.name = attribute.name
            continue
        copy = copied.attribute.add()
        copy.CopyFrom(attribute)
        for graph in (copy.g, *copy.graphs) if copy.HasField("g") else copy.graphs:
            inner = [_with_attributes(each, given) for each in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return copied


class _ProtoReader:
    """Reads graphs of operators of some versions, whose weights may lie in other files."""

    def __init__(self, opsets: Mapping[str, int], data: ExternalData) -> None:
        self._opsets = opsets
        self._data = data

    def graph(self, proto: onnx.GraphProto, depth: int = 0) -> OnnxGraph:
        """Read a graph."""
        if depth > MAX_DEPTH:
            raise GraphError(f"its graphs lie in one another, more than {MAX_DEPTH} deep")
        if proto.sparse_initializer:
            name = proto.sparse_initializer[0].values.name
            raise GraphError(f"the initializer '{name}' is sparse; store it as a dense one")
        initializers: dict[str, Array] = {}
        for proto_part in proto.initializer:
            if _text(proto_part.name) in initializers:
                raise GraphError(
                    f"two initializers of '{proto.name}' are called '{proto_part.name}'"
                )
            initializers[proto_part.name] = self._array(proto_part)
        return OnnxGraph(
            _text(proto.name),
            tuple(
                _input(proto_part, depth)
                for proto_part in proto.input
                if proto_part.name not in initializers
            ),
            _texts(proto_part.name for proto_part in proto.output),
            initializers,
            tuple(self.node(proto_part, depth) for proto_part in proto.node),
            {
                proto_part.name: numpy_name(proto_part.type.tensor_type.elem_type)
                for proto_part in proto.output
                if proto_part.type.tensor_type.elem_type
            },
        )

    def node(self, proto: onnx.NodeProto, depth: int) -> OnnxNode:
        """Read a node of a graph that lies `depth` deep in others."""
        domain, operator = _domain(proto.domain), _operator(proto.domain, proto.op_type)
        opset = self._opsets.get(domain, _ONLY_VERSIONS.get(domain))
        if opset is None:
            raise GraphError(
                f"the file does not say of which version the operators of '{domain or 'ai.onnx'}' "
                f"are, as of {operator} '{proto.name}'"
            )
        try:
            attributes = {
                _text(attribute.name): self._attribute(attribute, depth)
                for attribute in proto.attribute
            }
        except GraphError as error:
            raise GraphError(f"{operator} '{proto.name}': {error}") from error
        inputs, outputs = _texts(proto.input), _texts(proto.output)
        return OnnxNode(operator, _text(proto.name), opset, inputs, outputs, attributes, proto)

    def _attribute(self, proto: onnx.AttributeProto, depth: int) -> Attribute:
        try:
            value: Any = helper.get_attribute_value(proto)
        except ValueError as error:
            raise GraphError(f"the attribute '{proto.name}' has no meaning: {error}") from None
        is_many = not isinstance(value, (bytes, str)) and hasattr(value, "__iter__")
        values = [self._value(proto.name, item, depth) for item in (value if is_many else [value])]
        return values if is_many else values[0]

    def _value(self, name: str, value: Any, depth: int) -> Attribute:
        if isinstance(value, onnx.TensorProto):
            return self._array(value)
        if isinstance(value, onnx.GraphProto):
            return self.graph(value, depth + 1)
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        if isinstance(value, (int, float, str)):
            return value
        raise GraphError(f"the attribute '{name}' is neither numbers, text, tensors nor graphs")

    def _array(self, proto: onnx.TensorProto) -> Array:
        """Read a tensor, whose number of elements is checked first."""
        try:
            if proto.data_type == onnx.TensorProto.STRING:  # what may be folded away
                return numpy_helper.to_array(proto)
            return self._numbers(proto, _numpy_dtype(proto.data_type))
        except Exception as error:
            raise GraphError(f"the tensor '{proto.name}' cannot be read: {error}") from error

    def _numbers(self, proto: onnx.TensorProto, kind: np.dtype[Any]) -> Array:
        shape = tuple(proto.dims)
        if min(shape, default=1) < 0:
            raise GraphError(f"its shape is {list(shape)}")
        if proto.HasField("segment"):
            raise GraphError("it is a segment of another tensor, which nobody uses")
        bits = _PACKED_BITS.get(proto.data_type, 8 * kind.itemsize)
        size = -(-math.prod(shape) * bits // 8)
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: _text(entry.value) for entry in proto.external_data}
            contents = self._data.bytes_of(proto.name, entries, size)
            if proto.data_type not in _PACKED_BITS:
                array = contents.view(np.ndarray).view(kind).reshape(shape)
                return array if array.flags.aligned else array.copy()
            packed = onnx.TensorProto(data_type=proto.data_type, dims=shape)
            packed.raw_data = contents.tobytes()
            return numpy_helper.to_array(packed)
        if proto.HasField("raw_data") and len(proto.raw_data) != size:
            raise GraphError(f"its shape is {list(shape)}, but it has {len(proto.raw_data)} bytes")
        return in_own_pages(numpy_helper.to_array(proto))


_PACKED_BITS: Mapping[int, int] = {
    getattr(onnx.TensorProto, name): bits
    for name, bits in {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}.items()
    if hasattr(onnx.TensorProto, name)
}
"""Element types of which several share a byte."""


def _input(proto: onnx.ValueInfoProto, depth: int) -> OnnxInput:
    """An input of a graph that lies `depth` deep in others; inner ones may be sequences."""
    kind = proto.type.tensor_type
    if proto.type.WhichOneof("value") not in ("tensor_type", None):
        if depth:
            return OnnxInput(_text(proto.name), "", None)
        raise GraphError(f"the input '{proto.name}' is no tensor; ansorc has tensors alone")
    dims = None
    if kind.HasField("shape"):
        dims = tuple(
            extent.dim_value if extent.HasField("dim_value") else _text(extent.dim_param)
            for extent in kind.shape.dim
        )
    try:
        name = numpy_name(kind.elem_type) if kind.elem_type else ""
    except GraphError as error:
        raise GraphError(f"the input '{proto.name}': {error}") from None
    return OnnxInput(_text(proto.name), name, dims)
