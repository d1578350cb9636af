"""Nodes between dequantised inputs and a quantised result become one on the integers themselves.

    DequantizeLinear(x), DequantizeLinear(w), DequantizeLinear(b)
    Conv, maybe Relu                                                  ->  QLinearConv
    QuantizeLinear

What is written so (QDQ) means the same: sums of integers, times a product of scales.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ansorc.graph.onnx.model import OnnxGraph, OnnxNode, with_operator
from ansorc.graph.onnx.ordering import names_read
from ansorc.ir.aligned import Array

_OPERATORS = {"Conv": "QLinearConv", "MatMul": "QLinearMatMul", "Gemm": "com.microsoft::QGemm"}
_BYTES = ("int8", "uint8")
"""The dtypes of factors; sums of wider numbers may leave int32."""


def with_integers(graph: OnnxGraph) -> OnnxGraph:
    """Return `graph` with products of dequantised tensors, quantised again, on the integers."""
    if not any(node.operator == "QuantizeLinear" for node in graph.nodes):
        return graph
    joining = _Joining(graph)
    return replace(graph, nodes=tuple(joining.joined(node) for node in graph.nodes))


class _Joining:
    """Looks for such nodes in one graph."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._makers: Mapping[str, OnnxNode] = {
            name: node for node in graph.nodes for name in node.outputs
        }
        self._reads = Counter(name for node in graph.nodes for name in names_read(node))
        self._reads.update(graph.outputs)

    def joined(self, node: OnnxNode) -> OnnxNode:
        """Return what takes the place of `node`: itself, unless it quantises a product."""
        if node.operator != "QuantizeLinear" or len(node.inputs) < 3 or _has_blocks(node):
            return node
        product = self._alone(node.inputs[0])
        if product is not None and product.operator == "Relu" and self._starts_low(node):
            product = self._alone(product.inputs[0])
        if product is None or product.operator not in _OPERATORS:
            return node
        given, scale = self._integers(product), self._known(node.inputs[1])
        if given is None or scale is None or scale.size != 1:
            return node
        left, right, bias = given
        inputs = (*left, *right, *bias, *node.inputs[1:3])
        if product.operator == "Conv":
            inputs = (*left, *right, *node.inputs[1:3], *bias)
        elif product.operator == "Gemm" and not bias:
            inputs = (*left, *right, "", *node.inputs[1:3])
        return with_operator(product, _OPERATORS[product.operator], inputs, node.outputs)

    def _alone(self, name: str) -> OnnxNode | None:
        """Return the node that makes a tensor which one node alone reads; None if there is none."""
        return self._makers.get(name) if self._reads[name] == 1 else None

    def _starts_low(self, node: OnnxNode) -> bool:
        """Return whether numbers below zero are quantised to zero."""
        zero = self._known(node.inputs[2])
        is_integer = zero is not None and zero.dtype.kind in "iu"
        return zero is not None and is_integer and bool(np.all(zero == np.iinfo(zero.dtype).min))

    def _integers(
        self, product: OnnxNode
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None:
        """Return numbers, scale and zero point of both factors, and the integers of the bias."""
        sources = [self._makers.get(name) for name in product.inputs if name]
        dequantizers = [
            maker for maker in sources if maker is not None and maker.operator == "DequantizeLinear"
        ]
        whole = [
            maker for maker in dequantizers if len(maker.inputs) == 3 and not _has_blocks(maker)
        ]
        if not len(product.inputs) == len(sources) == len(whole) >= 2:
            return None
        left, right = whole[:2]
        weight, scales = (self._known(name) for name in right.inputs[:2])
        scale, zeros = (
            self._known(left.inputs[1]),
            [self._known(maker.inputs[2]) for maker in whole[:2]],
        )
        if weight is None or scales is None or scale is None or scale.size != 1:
            return None
        if weight.ndim < 2:
            return None
        are_bytes = all(zero is not None and zero.dtype.name in _BYTES for zero in zeros)
        axis = weight.ndim - 1 if product.operator == "MatMul" else 0
        if product.operator == "Gemm" and not product.attributes.get("transB", 0):
            axis = 1
        is_along = scales.size == 1 or right.attributes.get("axis", 1) % weight.ndim == axis
        factors = [product.attributes.get(name, 1.0) for name in ("alpha", "beta")]
        is_plain = factors == [1, 1] and (product.operator == "Conv" or weight.ndim == 2)
        bias = whole[2].inputs[:1] if len(whole) == 3 else ()
        if not (are_bytes and is_along and is_plain):
            return None
        if bias and not self._fits(whole[2], scale * scales):
            return None
        return left.inputs, right.inputs, bias

    def _known(self, name: str) -> Array | None:
        return self._graph.initializers.get(name)

    def _fits(self, bias: OnnxNode, wanted: Array) -> bool:
        """Return whether a bias has the scale of the sums, and no zero point."""
        scale, zero = map(self._known, bias.inputs[1:])
        if scale is None or zero is None or scale.size != wanted.size or np.any(zero):
            return False
        return bool(np.allclose(scale.reshape(-1), wanted.reshape(-1), rtol=1e-4, atol=0))


def _has_blocks(node: OnnxNode) -> bool:
    return bool(node.attributes.get("block_size", 0))
