"""Compute graph nodes of known values, by the definitions from which kernels are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.scattered_values import scatter_known_elements, scatter_known_slices
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate

_Movement: TypeAlias = Callable[[Sequence[Array], TensorType, Mapping[str, Any]], Array]


def node_values(
    node: GraphNode, types: Mapping[str, TensorType], inputs: Sequence[Array]
) -> list[Array]:
    """Return the outputs of a node, as a kernel has them, in their own dtypes.

    `types` has the types of its inputs and outputs. Raise FaultError or LanguageError where a call
    would meet a fault, as an index out of range.
    """
    movement = _MOVEMENTS.get(node.builtin)
    if movement is not None:  # weights are large, and nothing is computed of them
        moved = movement(inputs, types[node.name], dict(node.attributes))
        return [np.ascontiguousarray(moved).reshape(types[node.name].shape)]
    dag, scatter = node.dag(types), _SCATTERS.get(node.builtin)
    if scatter is not None:
        return [scatter(dag, inputs, dict(node.attributes))]
    return evaluate(dag, inputs, None)


def constant_values(graph: Graph) -> list[Array]:
    """Return the outputs of a graph without inputs; raise as `node_values` does."""
    left = Counter(name for node in graph.nodes for name in node.inputs)
    left.update(graph.outputs)
    values: dict[str, Array] = dict(graph.constants)
    for node in graph.nodes:
        results = node_values(node, graph.types, [values[name] for name in node.inputs])
        values.update(zip(node.outputs, results, strict=True))
        left.subtract(node.inputs)
        for name in node.inputs:  # what is not read again is freed
            if not left[name]:
                values.pop(name, None)
    return [values[name] for name in graph.outputs]


def _reshape(inputs: Sequence[Array], kind: TensorType, _: Mapping[str, Any]) -> Array:
    return inputs[0].reshape(kind.shape)


def _slice(inputs: Sequence[Array], _: TensorType, given: Mapping[str, Any]) -> Array:
    (data,) = inputs
    steps = given.get("stride") or (1,) * data.ndim
    places = zip(given["begin"], given["end"], steps, strict=True)
    return data[tuple(slice(begin, end, step) for begin, end, step in places)]


_MOVEMENTS: Mapping[str, _Movement] = {
    "reshape": _reshape,
    "flatten": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "copy": lambda inputs, _, __: inputs[0],
    "transpose": lambda inputs, _, given: inputs[0].transpose(given["order"]),
    "broadcast_to": lambda inputs, kind, _: np.broadcast_to(inputs[0], kind.shape),
    "concat": lambda inputs, _, given: np.concatenate(inputs, given.get("axis", 0)),
    "stack": lambda inputs, _, given: np.stack(inputs, given.get("axis", 0)),
    "slice": _slice,
}
"""NumPy's functions for operators that only move elements, by the operators' names."""
_SCATTERS: Mapping[str, Callable[[ComputeDAG, Sequence[Array], Mapping[str, Any]], Array]] = {
    "scatter_elements": scatter_known_elements,
    "scatter_nd": scatter_known_slices,
}
"""Direct functions for operators whose definitions look at all updates for each element."""
