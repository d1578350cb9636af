"""Products of dequantised tensors become products of the integers themselves.

What networks write between DequantizeLinear and QuantizeLinear (QDQ) means sums of integers, times
a product of scales:

    conv2d(dequantize(x), dequantize(w)), bias_add of dequantize(b), maybe relu, quantize
        ->  integer_convolution(x, w, b), requantize

Where the result stays float, the sums become floats again, and what follows the product stays. So
it is in PyTorch's networks, too, which have a bias of floats and quantise by another rule.

    conv2d(dequantize(x), dequantize(w))
        ->  integer_convolution(x, w), cast to float32, multiply by the scales
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.importing.converter_call import ConverterCall
from ansorc.graph.importing.integer_products import (
    BYTES,
    ConvolutionWindow,
    Integers,
    along,
    integer_convolution,
    integer_product,
    requantize,
    subtract_zero_point,
)
from ansorc.graph.importing.values import LAYOUTS
from ansorc.graph.rewriter import Rewriter
from ansorc.ir.aligned import Array

_CONVOLUTIONS = {f"conv{rank}d": rank for rank in LAYOUTS}
_EQUATIONS = {"k,...kj->...j": 0, "ki,kj->ij": -1, "ki,jk->ij": 0}
"""Products that einsum computes, with the axis of the weights' units."""
_WEIGHTS = "dequantize_constant"


def multiply_integers(graph: Graph) -> Graph:
    """Compute products of dequantised bytes, where the weights are known, in integers."""
    if not any(node.builtin == _WEIGHTS for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    pattern = _Pattern(graph)
    quantized = {node.name: pattern.match_quantized(node) for node in graph.nodes}
    part_of_others = {match.product.node.name for match in quantized.values() if match}
    for node in graph.nodes:
        rewriter.source(node)
        call = ConverterCall(node.source or node.name, rewriter.builder)
        match = quantized[node.name]
        if match is not None:
            rewriter.replace(node.name, _requantize(rewriter, call, match))
            continue
        product = None if node.name in part_of_others else pattern.product(node)
        if product is not None:
            rewriter.replace(node.name, _multiply(rewriter, call, product))
            continue
        rewriter.copy(node)
    return rewriter.graph()


def axis_of_units(node: GraphNode) -> int | None:
    """Return the axis of the weights that makes the units of a product; None of other nodes."""
    attributes = dict(node.attributes)
    if node.builtin in _CONVOLUTIONS:
        rank = _CONVOLUTIONS[node.builtin]
        is_plain = attributes.get("layout") == LAYOUTS[rank] and "sum_dtype" not in attributes
        return 0 if is_plain else None
    if node.builtin == "matmul":
        return None if attributes.get("sum_dtype") else -1
    if node.builtin == "dense":
        return None if attributes.get("sum_dtype") else 0
    equation = attributes.get("equation") if node.builtin == "einsum" else None
    return _EQUATIONS.get(equation) if isinstance(equation, str) else None


@dataclass(frozen=True)
class _Dequantized:
    """A dequantised tensor: the integers by name, what is known of them."""

    name: str
    scale: Array
    zero: Array


@dataclass(frozen=True)
class _Product:
    """A product of dequantised bytes, whose weights are known."""

    node: GraphNode
    data: _Dequantized
    weight: _Dequantized

    @property
    def is_convolution(self) -> bool:
        return self.node.builtin in _CONVOLUTIONS


@dataclass(frozen=True)
class _Quantized:
    """A product whose result is quantised, maybe after adding a bias of integers."""

    product: _Product
    bias: str
    """The integers of the bias; "" for none."""
    node: GraphNode
    """The node that quantises."""
    scale: Array


class _Pattern:
    """Looks for such products in a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def match_quantized(self, node: GraphNode) -> _Quantized | None:
        """Return the product that `node` quantises; None if it does something else."""
        constants = self._graph.constants
        if node.builtin != "quantize" or len(node.inputs) != 3 or _has_blocks(node):
            return None
        scale = constants.get(node.inputs[1])
        before = self._alone(node.inputs[0])
        if before is not None and before.builtin == "relu" and self._starts_low(node):
            before = self._alone(before.inputs[0])
        if before is None or scale is None or scale.size != 1:
            return None
        bias, current = "", before
        if before.builtin in ("bias_add", "add"):
            bias, producer = before.inputs[1], self._alone(before.inputs[0])
            if producer is None:
                return None
            current = producer
        product = self.product(current)
        if product is None:
            return None
        integers = self._bias(bias, product) if bias else ""
        return None if integers is None else _Quantized(product, integers, node, scale)

    def product(self, node: GraphNode) -> _Product | None:
        """Return a product of dequantised bytes; None if `node` is something else."""
        axis = axis_of_units(node)
        if axis is None:
            return None
        data, weight = (self._graph.producers.get(name) for name in node.inputs[:2])
        if data is None or weight is None or weight.builtin != _WEIGHTS:
            return None
        left, right = self._match_dequantized(data), self._match_dequantized(weight)
        if left is None or right is None or left.scale.size != 1:
            return None
        kind = self._graph.types[right.name]
        rank = len(kind.shape)
        is_along = right.scale.size == 1 or _axis(weight) % rank == axis % rank
        if not is_along or (rank != 2 and node.builtin not in _CONVOLUTIONS):
            return None
        return _Product(node, left, right)

    def _match_dequantized(self, node: GraphNode) -> _Dequantized | None:
        """Return what a node of bytes dequantises, whose scale and zero point are known."""
        if node.builtin not in ("dequantize", _WEIGHTS) or len(node.inputs) != 3:
            return None
        scale, zero = (self._graph.constants.get(name) for name in node.inputs[1:])
        is_byte = self._graph.types[node.inputs[0]].dtype.name in BYTES
        if scale is None or zero is None or _has_blocks(node) or not is_byte:
            return None
        return _Dequantized(node.inputs[0], scale, zero)

    def _bias(self, name: str, product: _Product) -> str | None:
        """Return the integers of a bias that has the scale of the sums, and no zero point."""
        node, constants = self._graph.producers.get(name), self._graph.constants
        if node is None or node.builtin != _WEIGHTS:
            return None
        scale, zero = (constants[part] for part in node.inputs[1:])
        wanted = product.data.scale * product.weight.scale
        if scale.size != wanted.size or np.any(zero):
            return None
        is_same = np.allclose(scale.reshape(-1), wanted.reshape(-1), rtol=1e-4, atol=0)
        return node.inputs[0] if is_same else None

    def _alone(self, name: str) -> GraphNode | None:
        """Return the node that makes a tensor which one node alone reads; None if there is none."""
        return self._graph.producers.get(name) if self._graph.is_used_once(name) else None

    def _starts_low(self, node: GraphNode) -> bool:
        """Return whether numbers below zero are quantised to zero."""
        zero = self._graph.constants.get(node.inputs[2])
        is_integer = zero is not None and zero.dtype.kind in "iu"
        return zero is not None and is_integer and bool(np.all(zero == np.iinfo(zero.dtype).min))


def _requantize(rewriter: Rewriter, call: ConverterCall, match: _Quantized) -> str:
    """Add a product of integers whose sums are quantised; return its name."""
    product, node = match.product, match.node
    kind = str(dict(node.attributes)["dtype"])
    scales: Sequence[Array] = (product.data.scale, product.weight.scale, match.scale)
    zero, bias = rewriter.new(node.inputs[2]), match.bias and rewriter.new(match.bias)
    data, weight = _factors(rewriter, product)
    if product.is_convolution:
        sums = integer_convolution(call, data, weight, bias or None, _window(product.node))
        axes = [(scale, sums.axis) for scale in scales]
        total = requantize(call, sums.name, axes, (zero, sums.axis), kind)
        return sums.restore_shape(call, total)
    total = _matrix_sums(call, product, data, weight)
    total = call.add("add", [total, bias]) if bias else total
    axes = list(zip(scales, (-2, -1, -1), strict=True))
    return requantize(call, total, axes, (zero, -1), kind)


def _multiply(rewriter: Rewriter, call: ConverterCall, product: _Product) -> str:
    """Add a product of integers whose sums are floats again; return its name."""
    data, weight = _factors(rewriter, product)
    if product.is_convolution:
        sums = integer_convolution(call, data, weight, None, _window(product.node))
        return sums.restore_shape(call, _scale(call, product, sums.name, sums.axis))
    return _scale(call, product, _matrix_sums(call, product, data, weight), -1)


def _scale(call: ConverterCall, product: _Product, total: str, axis: int) -> str:
    """Return int32 sums times the scales of both factors; those of the weights lie along `axis`."""
    rank = len(call.builder.type(total).shape)
    scale = product.data.scale.reshape(()) * product.weight.scale
    factor = call.constant(scale.reshape(along(scale.shape, rank, axis)))
    return call.add("multiply", [call.add("cast", [total], dtype=str(scale.dtype)), factor])


def _matrix_sums(call: ConverterCall, product: _Product, data: Integers, weight: Integers) -> str:
    """Return the int32 sums of a matrix product."""
    node = product.node
    equation = dict(node.attributes).get("equation")
    if isinstance(equation, str) and equation.startswith("ki"):  # of transposed data
        factors = [
            subtract_zero_point(call, data, -2),
            subtract_zero_point(call, weight, _EQUATIONS[equation]),
        ]
        return call.add("einsum", factors, equation=equation)
    return integer_product(call, data, weight, is_transposed=node.builtin == "dense")


def _factors(rewriter: Rewriter, product: _Product) -> tuple[Integers, Integers]:
    data, weight = product.data, product.weight
    values = rewriter.old.constants[weight.name]
    return Integers(rewriter.new(data.name), data.zero), Integers(values, weight.zero)


def _window(node: GraphNode) -> ConvolutionWindow:
    attributes: dict[str, Any] = dict(node.attributes)
    rank = _CONVOLUTIONS[node.builtin]
    stride, dilation = (_each(attributes.get(name, 1), rank) for name in ("stride", "dilation"))
    margins = _each(attributes.get("padding", 0), rank)
    margins = margins * 2 if len(margins) == rank else margins
    return ConvolutionWindow(stride, dilation, margins, attributes.get("groups", 1))


def _each(given: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return the numbers of each axis of a window."""
    return (given,) * rank if isinstance(given, int) else tuple(given)


def _axis(node: GraphNode) -> int:
    return int(dict[str, Any](node.attributes).get("axis", 1))


def _has_blocks(node: GraphNode) -> bool:
    return bool(dict(node.attributes).get("block", 0))
