"""Scales and shifts of channels after a product go into its weights and its bias."""

from __future__ import annotations

from typing import cast

import numpy as np

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.rewriter import Rewriter
from ansorc.ir.aligned import Array

_TRANSPOSED = {f"conv{rank}d_transpose": 1 for rank in (1, 2, 3)}
_WEIGHT_CHANNELS = {"conv1d": 0, "conv2d": 0, "conv3d": 0, **_TRANSPOSED, "matmul": -1}
"""The dimension of a product's weight (channels first) that makes the channels of the result."""
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
        if all(affine.builtin == "bias_add" for affine in chain) or not _replace(
            rewriter, node, chain
        ):
            rewriter.copy(node)
            continue
        taken.update(affine.name for affine in chain)
    return rewriter.graph()


def _chain(graph: Graph, node: GraphNode) -> list[GraphNode]:
    """Return the affine nodes with constant vectors after a product.

    Each is the only reader of the node before it.
    """
    chain: list[GraphNode] = []
    dimension = _WEIGHT_CHANNELS.get(node.builtin)
    if dimension is None or node.inputs[1] not in graph.constants:
        return chain
    weight, result = graph.types[node.inputs[1]], graph.types[node.name]
    if not weight.dtype.is_float or weight.dtype != result.dtype:
        return chain
    attributes = dict(node.attributes)
    is_product = node.builtin == "matmul"
    if not is_product and not str(attributes.get("layout", "")).startswith("NC"):
        return chain
    if dimension == 1 and attributes.get("groups", 1) != 1:
        return chain
    current, rank = node.name, len(graph.types[node.name].shape)
    channels = rank - 1 if is_product else 1
    while graph.is_used_once(current):
        (reader,) = graph.readers[current]
        if reader.builtin not in _AFFINE or reader.inputs[0] != current:
            break
        axis = cast(int, dict(reader.attributes).get("axis", -1)) % rank
        if axis != channels or any(name not in graph.constants for name in reader.inputs[1:]):
            break
        chain.append(reader)
        current = reader.name
    return chain


def _replace(rewriter: Rewriter, node: GraphNode, chain: list[GraphNode]) -> bool:
    """Add the product with scaled weights, and its bias; return False if these are not finite."""
    constants, last = rewriter.old.constants, chain[-1]
    scale, shift = np.float64(1), np.float64(0)
    with np.errstate(over="ignore", invalid="ignore"):
        for affine in chain:
            vectors = [constants[name].astype(np.float64) for name in affine.inputs[1:]]
            if affine.builtin == "batch_norm":
                scale, shift = scale * vectors[0], shift * vectors[0] + vectors[1]
            else:
                shift = shift + vectors[0]
    weight = constants[node.inputs[1]]
    dimension = _WEIGHT_CHANNELS[node.builtin]
    shape = [1] * weight.ndim
    shape[dimension] = -1
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (weight * np.reshape(scale, shape)).astype(weight.dtype)
        bias = _vector(shift, last, rewriter).astype(weight.dtype)
    if not (np.isfinite(scaled).all() and np.isfinite(bias).all()):
        return False  # 0 * inf would be NaN before the sums
    rewriter.source(node)
    inputs = [rewriter.new(node.inputs[0]), rewriter.constant(scaled)]
    product = rewriter.add(node.operator, inputs, "", **dict(node.attributes))
    axis = dict(last.attributes).get("axis", -1)
    result = rewriter.add("bias_add", [product, rewriter.constant(bias)], last.name, axis=axis)
    rewriter.replace(last.name, result)
    return True


def _vector(shift: Array | np.float64, last: GraphNode, rewriter: Rewriter) -> Array:
    extent = rewriter.old.types[last.inputs[1]].shape
    return np.broadcast_to(shift, extent).copy()
