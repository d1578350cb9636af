"""Scales and shifts of channels after a product go into its weights and its bias."""

from __future__ import annotations

from typing import cast

import numpy as np

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.rewriter import Rewriter
from ansorc.ir.aligned import Array

_TRANSPOSED = {f"conv{rank}d_transpose": 1 for rank in (1, 2, 3)}
_WEIGHT_CHANNELS = {"conv1d": 0, "conv2d": 0, "conv3d": 0, **_TRANSPOSED, "matmul": -1}
"""Which dimension of the weight of a product (channels first) is that of the result's channels."""
_AFFINE = ("batch_norm", "bias_add")


def fold_affine(graph: Graph) -> Graph:
    """Multiply the scales of `batch_norm` into constant weights of the product before it.

    conv -> (bias_add | batch_norm)* becomes a convolution of other weights and one bias_add.
    """
    rewriter, taken = Rewriter(graph), set[str]()
    for node in graph.nodes:
        chain = _chain(graph, node)
        if node.name in taken:
            continue
        if not chain or all(str(one.operator) == "bias_add" for one in chain):
            rewriter.copy(node)
            continue
        taken.update(one.name for one in chain)
        _replace(rewriter, node, chain)
    return rewriter.graph()


def _chain(graph: Graph, node: GraphNode) -> list[GraphNode]:
    """The affine nodes with constant vectors after a product, each the only reader of the last."""
    found: list[GraphNode] = []
    place = _WEIGHT_CHANNELS.get(str(node.operator))
    if place is None or node.inputs[1] not in graph.constants:
        return found
    attributes = dict(node.attributes)
    is_product = str(node.operator) == "matmul"
    if not is_product and not str(attributes.get("layout", "")).startswith("NC"):
        return found
    if place == 1 and attributes.get("groups", 1) != 1:
        return found
    current, rank = node.name, len(graph.types[node.name].shape)
    channels = rank - 1 if is_product else 1
    while graph.is_used_once(current):
        (reader,) = graph.readers[current]
        axis = cast(int, dict(reader.attributes).get("axis", -1)) % rank
        fits = str(reader.operator) in _AFFINE and reader.inputs[0] == current and axis == channels
        if not fits or any(name not in graph.constants for name in reader.inputs[1:]):
            break
        found.append(reader)
        current = reader.name
    return found


def _replace(rewriter: Rewriter, node: GraphNode, chain: list[GraphNode]) -> None:
    """Add the product with scaled weights, and its bias."""
    constants, last = rewriter.old.constants, chain[-1]
    scale, shift = np.float64(1), np.float64(0)
    for one in chain:
        vectors = [constants[name].astype(np.float64) for name in one.inputs[1:]]
        if str(one.operator) == "batch_norm":
            scale, shift = scale * vectors[0], shift * vectors[0] + vectors[1]
        else:
            shift = shift + vectors[0]
    weight = constants[node.inputs[1]]
    place = _WEIGHT_CHANNELS[str(node.operator)]
    shape = [1] * weight.ndim
    shape[place] = -1
    scaled = (weight * np.reshape(scale, shape)).astype(weight.dtype)
    rewriter.source(node)
    inputs = [rewriter.new(node.inputs[0]), rewriter.constant(scaled)]
    product = rewriter.add(node.operator, inputs, "", **dict(node.attributes))
    bias = rewriter.constant(_vector(shift, last, rewriter).astype(weight.dtype))
    axis = dict(last.attributes).get("axis", -1)
    result = rewriter.add("bias_add", [product, bias], last.name, axis=axis)
    rewriter.replace(last.name, result)


def _vector(shift: Array | np.float64, last: GraphNode, rewriter: Rewriter) -> Array:
    extent = rewriter.old.types[last.inputs[1]].shape
    return np.broadcast_to(shift, extent).copy()
