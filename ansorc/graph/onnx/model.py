"""ONNX models as plain values, and what single nodes compute; the only module that knows `onnx`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ansorc.errors import GraphError
from ansorc.ir.aligned import Array

Attribute = Any
"""An int, a float, text, an array, an `OnnxGraph`, or a list of one kind of them."""


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

    def __str__(self) -> str:
        return f"{self.operator} '{self.name or self.outputs[0]}' (opset {self.opset})"


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A graph of a model, or of an attribute of a node."""

    name: str
    inputs: tuple[OnnxInput, ...]
    """Initializers are no inputs, even where an old file lists them as such, too."""
    outputs: tuple[str, ...]
    initializers: Mapping[str, Array]
    nodes: tuple[OnnxNode, ...]


OnnxSource: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto"
"""A file, or a model in memory."""


def load_onnx(source: OnnxSource) -> OnnxGraph:
    """Return the graph of an ONNX file, or of a model; raise GraphError if it cannot be read."""
    if isinstance(source, onnx.ModelProto):
        return _graph(source.graph, _opsets(source))
    path = Path(source)
    try:
        model = onnx.load(str(path))  # pyright: ignore[reportUnknownMemberType]
    except FileNotFoundError:
        raise GraphError(f"there is no file '{path}'; give the path of an ONNX file") from None
    except Exception as error:
        raise GraphError(f"'{path}' is no ONNX file that can be read: {error}") from error
    return _graph(model.graph, _opsets(model))


def compute_node(node: OnnxNode, inputs: Mapping[str, Array]) -> Sequence[Array]:
    """Return the outputs of `node` for known inputs, as ONNX's reference implementation has them.

    Raise GraphError where it cannot.
    """
    given = [helper.make_value_info(name, onnx.TypeProto()) for name in inputs]
    wanted = [helper.make_value_info(name, onnx.TypeProto()) for name in node.outputs if name]
    graph = helper.make_graph([node.proto], "fold", given, wanted)
    domain = node.proto.domain
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, node.opset)])
    try:
        with np.errstate(all="ignore"):
            evaluator: Any = ReferenceEvaluator(model)
            found = evaluator.run(None, dict(inputs))
    except Exception as error:
        raise GraphError(f"{node} cannot be computed at import: {error}") from error
    results = iter(found)
    return [np.asarray(next(results)) if name else np.zeros(0) for name in node.outputs]


def numpy_name(element_type: int) -> str:
    """Return NumPy's name of an ONNX element type; raise GraphError if ansorc has no such."""
    try:
        return str(helper.tensor_dtype_to_np_dtype(element_type).name)
    except KeyError:
        raise GraphError(f"there is no element type {element_type} in ONNX") from None


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    return {
        one.domain if one.domain != "ai.onnx" else "": one.version for one in model.opset_import
    }


def _graph(proto: onnx.GraphProto, opsets: Mapping[str, int]) -> OnnxGraph:
    initializers = {one.name: _array(one) for one in proto.initializer}
    return OnnxGraph(
        proto.name,
        tuple(_input(one) for one in proto.input if one.name not in initializers),
        tuple(one.name for one in proto.output),
        initializers,
        tuple(_node(one, opsets) for one in proto.node),
    )


def _array(proto: onnx.TensorProto) -> Array:
    try:
        return numpy_helper.to_array(proto)
    except Exception as error:
        raise GraphError(f"the initializer '{proto.name}' cannot be read: {error}") from error


def _input(proto: onnx.ValueInfoProto) -> OnnxInput:
    kind = proto.type.tensor_type
    if proto.type.WhichOneof("value") not in ("tensor_type", None):
        raise GraphError(f"the input '{proto.name}' is no tensor; ansorc has tensors alone")
    dims = None
    if kind.HasField("shape"):
        dims = tuple(
            one.dim_value if one.HasField("dim_value") else one.dim_param for one in kind.shape.dim
        )
    return OnnxInput(proto.name, numpy_name(kind.elem_type) if kind.elem_type else "", dims)


def _node(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> OnnxNode:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    if domain not in opsets:
        raise GraphError(f"node '{proto.name}' ({proto.op_type}): no opset of '{domain}' is given")
    return OnnxNode(
        f"{domain}::{proto.op_type}" if domain else proto.op_type,
        proto.name,
        opsets[domain],
        tuple(proto.input),
        tuple(proto.output),
        {one.name: _attribute(one, opsets) for one in proto.attribute},
        proto,
    )


def _attribute(proto: onnx.AttributeProto, opsets: Mapping[str, int]) -> Attribute:
    value: Any = helper.get_attribute_value(proto)
    if isinstance(value, onnx.TensorProto):
        return _array(value)
    if isinstance(value, onnx.GraphProto):
        return _graph(value, opsets)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (int, float, str)) or value is None:
        return value
    return [one.decode(errors="replace") if isinstance(one, bytes) else one for one in value]
