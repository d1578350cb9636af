"""Constant folding at import: nodes whose inputs are known, as long as the results are small.

A node is computed by what it means in a network, its converter and the definitions of its
operators, so that constants give what inputs would. ONNX's reference implementation computes what
no kernel can:

* operators whose results have a shape that depends on values, or values of text (`_ALONE`);
* nodes that read or make elements of a type that kernels do not have: text, 4 bits, floats of 8;
* nodes that read a tensor without elements, or make one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from ansorc.errors import AnsorcError, EmptyTensorError, GraphError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.importing.values import Value, as_list
from ansorc.graph.node_values import constant_values
from ansorc.graph.onnx.converters import CONVERTERS
from ansorc.graph.onnx.ignored import refuse_ignored
from ansorc.graph.onnx.model import (
    OnnxNode,
    bytes_computed,
    compute_node,
    is_onnx_operator,
    numpy_name,
)
from ansorc.graph.onnx.node_call import NodeCall, OnnxItem, OnnxSequence
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import dtype

MAX_BYTES = 256 * 2**20
"""The most bytes of all results, beyond what the weights allow."""
TIMES_WEIGHTS = 4
"""Weights may be transposed, and become floats of what were bytes."""

_CONSTANTS: Mapping[str, type | str] = {
    "value": "", "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
    "value_ints": np.int64, "value_string": np.object_, "value_strings": np.object_,
}  # fmt: skip
_ALONE = (
    "BitCast", "BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow",
    "MelWeightMatrix", "NonZero", "RegexFullMatch", "StringConcat", "StringNormalizer",
    "StringSplit", "TfIdfVectorizer",
)  # fmt: skip
"""Operators of ONNX that ansorc has no definition of, because kernels could not run it."""
_TABLED = ("AffineGrid", "Col2Im", "DFT", "Resize", "STFT", "Upsample")
"""Operators whose converters make tables that are as long as values of their inputs say."""
_TYPES = ("dtype", "output_dtype", "to")
"""Attributes that name the element type of a result."""
_UP_TO_ALL = ("Compress", "NonZero")
"""Their results have no more elements than their inputs, up to the rank."""
_RANDOM = (
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
)  # fmt: skip


_Results: TypeAlias = Callable[[], "list[Array]"]
_Rule: TypeAlias = Callable[[OnnxNode, Sequence["Array | None"]], tuple[_Results, int]]


class Folding:
    """Computes nodes, and counts the bytes of their results before it does."""

    def __init__(self, weight_bytes: int) -> None:
        self._left = MAX_BYTES + TIMES_WEIGHTS * weight_bytes

    def can(self, node: OnnxNode) -> bool:
        """Return whether there is a way to compute `node`."""
        return node.operator in CONVERTERS or is_onnx_operator(node)

    def outputs(self, node: OnnxNode, inputs: Sequence[Array | None]) -> Sequence[Array]:
        """Return what `node` computes of known inputs; raise GraphError where it is too much."""
        if node.operator == "Constant":
            return [_constant(node)]
        if node.operator == "Identity" and inputs and inputs[0] is not None:
            return [inputs[0]]
        if node.operator in _RANDOM:
            raise GraphError(f"{node} is random; ansorc computes the same in every run")
        if node.operator in _OWN:
            results, size = _OWN[node.operator](node, inputs)
            self._count(node, size)
            return results()
        if not _is_for_reference(node, inputs):
            try:
                return self._by_definition(node, inputs)
            except EmptyTensorError:
                pass
        return self._by_reference(node, inputs)

    def _by_reference(self, node: OnnxNode, inputs: Sequence[Array | None]) -> Sequence[Array]:
        """Return what ONNX's reference implementation computes; see the top of this file."""
        given = _by_name(node, inputs)
        self._count(node, _bytes_of_results(node, given))
        return compute_node(node, given)

    def _by_definition(self, node: OnnxNode, inputs: Sequence[Array | None]) -> Sequence[Array]:
        """Return what the definitions of a node's operators compute of known inputs."""
        if node.operator in _TABLED:
            self._refuse_wide(node, bytes_computed(node, _by_name(node, inputs)) or 0)
        builder = GraphBuilder(node.name or node.operator)
        builder.source = str(node)
        call = NodeCall(node, inputs, builder)
        items = as_list(CONVERTERS[node.operator](call))
        refuse_ignored(call)
        results = [_tensor(node, item) for item in items]
        wanted = [
            result
            for name, result in zip(node.outputs, results, strict=False)
            if name and isinstance(result, str)
        ]
        values: dict[str, Array] = {}
        if wanted:
            graph = builder.graph(wanted)
            computed = [graph.types[name].bytes for name in graph.producers]
            self._refuse_wide(node, max(computed, default=0))
            self._count(node, sum(graph.types[name].bytes for name in set(wanted)))
            values.update(zip(wanted, constant_values(graph), strict=True))
        return [values.get(r, _UNREAD) if isinstance(r, str) else r for r in results]

    def _count(self, node: OnnxNode, size: int) -> None:
        self._refuse_wide(node, size)
        self._left -= size

    def _refuse_wide(self, node: OnnxNode, size: int) -> None:
        if size > self._left:
            raise GraphError(
                f"{node} would make {size:,} bytes of known values at import, of which "
                f"{self._left:,} are left; store them as initializers, which may lie in a file"
            )


_UNREAD: Array = np.zeros(0)
"""The value of an output that has no name."""


def _tensor(node: OnnxNode, result: OnnxItem) -> Value:
    if isinstance(result, OnnxSequence):
        raise GraphError(f"{node} makes a sequence of tensors, which is not known at import")
    return result


def _by_name(node: OnnxNode, inputs: Sequence[Array | None]) -> Mapping[str, Array]:
    """Return the inputs that are given, by name."""
    pairs = zip(node.inputs, inputs, strict=True)
    return {name: array for name, array in pairs if array is not None}


def _is_for_reference(node: OnnxNode, inputs: Sequence[Array | None]) -> bool:
    """Return whether ONNX's reference implementation computes a node; see the top of this file."""
    if node.operator in _ALONE or node.operator not in CONVERTERS:
        return True
    if any(array is not None and not _is_known_type(array) for array in inputs):
        return True
    named = [node.attributes[name] for name in _TYPES if name in node.attributes]
    return any(isinstance(kind, int) and kind and not _is_known_name(kind) for kind in named)


def _is_known_type(array: Array) -> bool:
    try:
        TensorType.of_array(array)
    except AnsorcError:
        return False
    return True


def _is_known_name(element_type: int) -> bool:
    try:
        dtype(numpy_name(element_type))
    except AnsorcError:
        return False
    return True


def _bytes_of_results(node: OnnxNode, inputs: Mapping[str, Array]) -> int:
    """Return the bytes of what ONNX's reference implementation is to compute; raise GraphError."""
    size = bytes_computed(node, inputs)
    if size is None and node.operator in _UP_TO_ALL:
        size = sum(8 * max(1, array.ndim) * array.size for array in inputs.values())
    if size is None:
        raise GraphError(
            f"{node} cannot be computed at import: its inputs do not fit it, or nothing says "
            "how large its outputs are"
        )
    return size


def _range(node: OnnxNode, inputs: Sequence[Array | None]) -> tuple[_Results, int]:
    """Return how the numbers from a start to a limit are made, and how many bytes they take."""
    given = [array for array in inputs if array is not None]
    if len(given) != 3 or any(array.size != 1 for array in given) or not given[2].item():
        raise GraphError(f"{node} needs a start, a limit and a step that is not 0")
    start, limit, step = (array.reshape(()) for array in given)
    kind = np.result_type(start, limit, step)
    if kind.kind == "f":
        count = (float(limit) - float(start)) / float(step)
    else:
        count = Fraction(int(limit) - int(start), int(step))
    if not math.isfinite(count):
        raise GraphError(f"{node} has a start, a limit or a step that is no number")
    size = max(0, math.ceil(count))

    def results() -> list[Array]:
        with np.errstate(all="ignore"):
            return [start.astype(kind) + np.arange(size).astype(kind) * step.astype(kind)]

    return results, size * kind.itemsize


def _unique(node: OnnxNode, inputs: Sequence[Array | None]) -> tuple[_Results, int]:
    """Return how different elements, or rows along an axis, are found; and the bytes at most."""
    (data,) = (array for array in inputs if array is not None)
    axis, is_sorted = node.attributes.get("axis"), bool(node.attributes.get("sorted", 1))

    def results() -> list[Array]:
        values, first, inverse, counts = np.unique(
            data, return_index=True, return_inverse=True, return_counts=True, axis=axis
        )
        inverse = inverse.reshape(-1)
        if not is_sorted:  # as they come
            order = np.argsort(first)
            places = np.argsort(order)
            values = np.take(values, order, 0 if axis is None else axis)
            first, inverse, counts = first[order], places[inverse], counts[order]
        return [values, *(array.astype(np.int64) for array in (first, inverse, counts))]

    return results, data.nbytes + 3 * 8 * data.size


_OWN: Mapping[str, _Rule] = {"Range": _range, "Unique": _unique}


def _constant(node: OnnxNode) -> Array:
    for name, kind in _CONSTANTS.items():
        if name in node.attributes:
            value = node.attributes[name]
            return np.asarray(value, kind) if kind else np.asarray(value)
    raise GraphError(f"{node} has no values, or sparse ones; store dense ones")
