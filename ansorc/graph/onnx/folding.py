"""What is computed at import: nodes whose inputs are known, as long as the results are small."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.errors import GraphError
from ansorc.graph.onnx.model import OnnxNode, bytes_computed, compute_node
from ansorc.ir.aligned import Array

MAX_BYTES = 256 * 2**20
"""Of all results, beyond what the weights allow."""
TIMES_WEIGHTS = 4
"""Weights may be transposed, and become floats of what were bytes."""

_CONSTANTS: Mapping[str, type | str] = {
    "value": "", "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
    "value_ints": np.int64, "value_string": np.object_, "value_strings": np.object_,
}  # fmt: skip
_UP_TO_ALL = ("Compress", "NonZero", "Unique")
"""Their results have no more elements than their inputs, up to the rank."""
_RANDOM = (
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
)  # fmt: skip


class Folding:
    """Computes nodes, and counts the bytes of their results before it does."""

    def __init__(self, weight_bytes: int) -> None:
        self._left = MAX_BYTES + TIMES_WEIGHTS * weight_bytes

    def outputs(self, node: OnnxNode, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Return what `node` computes of known inputs; raise GraphError where it is too much."""
        if node.operator == "Constant":
            return [_constant(node)]
        if node.operator == "Identity" and len(inputs) == 1:
            return list(inputs.values())
        if node.operator in _RANDOM:
            raise GraphError(f"{node} is random; ansorc computes the same in every run")
        self._count(node, inputs)
        return compute_node(node, inputs)

    def _count(self, node: OnnxNode, inputs: Mapping[str, Array]) -> None:
        size = bytes_computed(node, inputs)
        if size is None and node.operator in _UP_TO_ALL:
            size = sum(8 * max(1, one.ndim) * one.size for one in inputs.values())
        if size is None and node.operator == "Range":
            size = _bytes_of_range([inputs[name] for name in node.inputs])
        if size is None:
            raise GraphError(
                f"{node} cannot be computed at import: its inputs do not fit it, or nothing says "
                "how large its outputs are"
            )
        if size > self._left:
            raise GraphError(
                f"{node} would make {size:,} bytes of known values at import, of which "
                f"{self._left:,} are left; store them as initializers, which may lie in a file"
            )
        self._left -= size


def _bytes_of_range(given: Sequence[Array]) -> int | None:
    if len(given) != 3 or any(one.size != 1 for one in given) or not given[2].item():
        return None
    start, limit, step = (float(one.item()) for one in given)
    count = (limit - start) / step
    return max(0, math.ceil(count)) * given[0].itemsize if math.isfinite(count) else None


def _constant(node: OnnxNode) -> Array:
    for name, kind in _CONSTANTS.items():
        if name in node.attributes:
            value = node.attributes[name]
            return np.asarray(value, kind) if kind else np.asarray(value)
    raise GraphError(f"{node} has no values, or sparse ones; store dense ones")
