"""`quantize`: a float32 network in integers of 8 bits, with ranges from the user's data.

Weights are int8 with a scale for each unit, activations uint8 with one scale and zero point. The
network says it by nodes that quantise and dequantise, as ONNX files do (QDQ); what they enclose
becomes products of integers (`ansorc/graph/passes/multiply_integers.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ansorc.errors import GraphError
from ansorc.graph.calibration import CalibrationMethod, Range, find_ranges, samples_of
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.importing.integer_products import TERMS
from ansorc.graph.importing.weight_pairs import largest_pairs
from ansorc.graph.passes.cleanup import remove_dead_nodes
from ansorc.graph.passes.fold_affine import fold_affine
from ansorc.graph.passes.fold_constants import fold_constants
from ansorc.graph.passes.multiply_integers import axis_of_units
from ansorc.graph.passes.pipeline import optimize_graph
from ansorc.graph.precision import find_kept_nodes, with_precision
from ansorc.graph.rewriter import Rewriter
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32
from ansorc.lang.arguments import check_arguments
from ansorc.target import Target
from ansorc.target.dot_products import dot_products

_FOLDING = (
    ("remove_dead_nodes", remove_dead_nodes),
    ("fold_constants", fold_constants),
    ("fold_affine", fold_affine),
    ("remove_dead_nodes", remove_dead_nodes),
)
"""Passes that put batch norms into the weights, of which each unit then has a scale."""
_BIASES = ("add", "bias_add")
_READ_BYTES = (
    "add", "avg_pool2d", "concat", "global_avg_pool", "max_pool2d", "mean", "relu", "reshape",
    "transpose",
)  # fmt: skip
"""Operators that cost about as much to read bytes as floats, and whose results may be bytes."""
_CUTS: Mapping[str, Range] = {"relu": (0.0, np.inf), "relu6": (0.0, 6.0)}
_COMPUTED_AT_ONCE = ("relu", "reshape", "transpose")
"""Operators that are computed in the kernel of what they read."""
_LEVELS, _LARGEST = 255, 127


@check_arguments
def quantize(
    graph: Graph,
    data: Mapping[str, Any],
    method: CalibrationMethod = "minmax",
    keep: Sequence[str] = (),
    *,
    target: Target | str | None = None,
) -> Graph:
    """Return `graph` with products and convolutions in integers of 8 bits.

    `data` has the inputs of one call or more: an array for each input, several calls along the
    first axis. The network runs on all of them, and `method` chooses the range of each tensor from
    what it was ("minmax", "percentile" or "entropy", see `ansorc/graph/calibration.py`). Products
    whose weights are known are quantised, but for the nodes that `keep` names. For a `target` that
    multiplies bytes in pairs (x86 with AVX2, without VNNI) two neighbouring weights are up to 128
    together, which is half a bit less of them and takes less time. Raise GraphError for
    data that does not fit and where there is nothing to quantise, OptionError for names that there
    are not.
    """
    samples = samples_of(graph, data)
    folded = optimize_graph(with_precision(graph, "f32"), _FOLDING)
    plan = _plan(folded, _with_chains(graph, find_kept_nodes(graph, keep)))
    if not plan.products:
        raise GraphError(
            f"'{graph.name}' has no product or convolution of known weights that could be "
            "quantised; use precision bf16 or f16, or none"
        )
    ranges = find_ranges(folded, sorted(plan.tensors), samples, method)
    machine = Target.parse(target) if isinstance(target, str) else target
    in_pairs = machine is not None and adds_in_pairs(machine)
    return replace(_Quantizing(folded, plan, ranges, in_pairs=in_pairs).graph(), unquantized=graph)


def adds_in_pairs(target: Target) -> bool:
    """Return whether bytes are multiplied the fastest where pairs of products fit in int16."""
    names = "uint8", "int8"
    has_pairs = bool(dot_products(target, 4, *names, in_pairs=True))
    return has_pairs and not dot_products(target, 4, *names)


@dataclass(frozen=True)
class _Plan:
    """The nodes that become products of integers, by name, and the tensors that become bytes."""

    products: frozenset[str]
    tensors: frozenset[str]


def _plan(graph: Graph, kept: set[str]) -> _Plan:
    """Return what of a network becomes integers."""
    products = {node.name: node for node in graph.nodes if _can_multiply(graph, node)}
    chains = {name: _chain(graph, node) for name, node in products.items()}
    products = {name: node for name, node in products.items() if kept.isdisjoint(chains[name])}
    tensors = {node.inputs[0] for node in products.values()}
    ends = {chains[name][-1] for name in products}
    for node in reversed(graph.nodes):  # bytes on their way to others, from the last ones
        readers = graph.readers[node.name]
        is_on_way = node.name in ends or (node.builtin in _READ_BYTES and _is_float(graph, node))
        if is_on_way and readers and node.name not in graph.outputs and not kept & {node.name}:
            to_bytes = [
                reader.name in products
                or (reader.builtin in _READ_BYTES and reader.name not in kept)
                for reader in readers
            ]
            is_read_at_once = len(readers) == 1 and readers[0].builtin in _COMPUTED_AT_ONCE
            is_worth_it = _leads_to(graph, node, tensors) and not is_read_at_once
            if all(to_bytes) and (node.name in ends or is_worth_it):
                tensors.add(node.name)
    return _Plan(frozenset(products), frozenset(tensors))


def _leads_to(graph: Graph, node: GraphNode, tensors: set[str]) -> bool:
    """Return whether a reader's result is among `tensors`."""
    return any(reader.name in tensors for reader in graph.readers[node.name])


def _is_float(graph: Graph, node: GraphNode) -> bool:
    return graph.types[node.name].dtype == FLOAT32


def _can_multiply(graph: Graph, node: GraphNode) -> bool:
    """Return whether a node is a product of a float32 tensor that varies with known weights."""
    if axis_of_units(node) is None or len(node.inputs) != 2:
        return False
    data, weight = node.inputs
    return (
        weight in graph.constants
        and data not in graph.constants
        and all(graph.types[name].dtype == FLOAT32 for name in (data, weight, node.name))
        and bool(np.isfinite(graph.constants[weight]).all())
    )


def _with_chains(graph: Graph, kept: set[str]) -> set[str]:
    """Return the names of nodes and of what follows them: those of products may change."""
    products = [n for n in graph.nodes if n.name in kept and axis_of_units(n) is not None]
    return kept.union(*(_chain(graph, node) for node in products))


def _chain(graph: Graph, node: GraphNode) -> list[str]:
    """Return the names of a product, and of what is added to it and cut off at 0, in order."""
    names = [node.name]
    while (after := _next_of_chain(graph, node)) is not None:
        names.append(after.name)
        node = after
    return names


def _next_of_chain(graph: Graph, node: GraphNode) -> GraphNode | None:
    """Return the bias, the batch norm or the cut that alone reads a node; None for others."""
    if not graph.is_used_once(node.name):
        return None
    (reader,) = graph.readers[node.name]
    is_added = reader.builtin in (*_BIASES, "batch_norm") and reader.inputs[1] in graph.constants
    return reader if is_added or _cut(graph, reader) is not None else None


def _cut(graph: Graph, node: GraphNode) -> Range | None:
    """Return between which numbers a node keeps what it reads; None if it does something else."""
    if node.builtin in _CUTS:
        return _CUTS[node.builtin]
    bound = graph.constants.get(node.inputs[1]) if node.builtin in ("maximum", "minimum") else None
    if bound is None or bound.size != 1:
        return None
    number = float(bound.reshape(()))
    return (number, np.inf) if node.builtin == "maximum" else (-np.inf, number)


class _Quantizing:
    """The network in integers, in the making."""

    def __init__(
        self, graph: Graph, plan: _Plan, ranges: Mapping[str, Range], *, in_pairs: bool
    ) -> None:
        self._graph, self._plan, self._ranges = graph, plan, ranges
        self._in_pairs = in_pairs
        self._rewriter = Rewriter(graph)
        self._bytes: dict[str, str] = {}
        """The dequantised bytes of a tensor of the old graph."""
        self._scales: dict[str, Array] = {}
        """The scale of the sums of each product, one for each unit."""

    def graph(self) -> Graph:
        """Return the network."""
        for name in self._graph.inputs:
            self._to_bytes(name)
        for node in self._graph.nodes:
            if self._is_cut_by_bytes(node):
                self._rewriter.replace(node.name, self._rewriter.new(node.inputs[0]))
                self._to_bytes(node.name)
                continue
            self._rewriter.source(node)
            inputs = [self._bytes.get(name, self._rewriter.new(name)) for name in node.inputs]
            if node.name in self._plan.products:
                inputs[1] = self._weights(node)
            elif node.builtin in _BIASES and node.inputs[0] in self._scales:
                inputs[1] = self._bias(node) or inputs[1]
            self._rewriter.copy(node, inputs)
            for name in node.outputs:
                self._to_bytes(name)
        return remove_dead_nodes(self._rewriter.graph())

    def _is_cut_by_bytes(self, node: GraphNode) -> bool:
        """Return whether the bytes at the end of a chain do not hold what a node cuts off.

        Between the node and the end nothing but other cuts may be.
        """
        graph, cut = self._graph, _cut(self._graph, node)
        end, after = node, _next_of_chain(graph, node)
        while after is not None and _cut(graph, after) is not None:
            end, after = after, _next_of_chain(graph, after)
        if cut is None or end.name not in self._plan.tensors or end.name in graph.outputs:
            return False
        scale, zero = self._parameters(end.name)
        is_within = _LEVELS * float(scale) <= cut[1] * (1 + FLOAT32.epsilon)
        return graph.is_used_once(node.inputs[0]) and not zero and cut[0] <= 0 and is_within

    def _parameters(self, name: str) -> tuple[np.float32, np.uint8]:
        """Return the scale and the zero point of a tensor of the plan."""
        low, high = self._ranges[name]
        scale = np.float32((high - low) / _LEVELS) or np.float32(1.0)
        return scale, np.uint8(np.clip(np.rint(-low / scale), 0, _LEVELS))

    def _to_bytes(self, name: str) -> None:
        """Let the readers of a tensor of the plan read it dequantised."""
        if name not in self._plan.tensors:
            return
        rewriter, (scale, zero) = self._rewriter, self._parameters(name)
        parameters = [rewriter.constant(scale), rewriter.constant(zero)]
        data = rewriter.add("quantize", [rewriter.new(name), *parameters], dtype="uint8", axis=-1)
        self._bytes[name] = rewriter.add("dequantize", [data, *parameters], axis=-1)

    def _weights(self, node: GraphNode) -> str:
        """Add the weights of a product as int8, and return them dequantised."""
        weight, axis = self._graph.constants[node.inputs[1]], axis_of_units(node)
        assert axis is not None
        axis %= weight.ndim
        others = tuple(d for d in range(weight.ndim) if d != axis)
        largest = np.abs(weight).max(others, keepdims=True)
        if self._in_pairs and dict(node.attributes).get("groups", 1) == 1:
            largest = np.maximum(largest, _largest_pair(weight, axis).reshape(largest.shape))
        scale = np.asarray(largest / _LARGEST, np.float32)
        scale[scale == 0] = 1.0
        integers = np.clip(np.rint(weight / scale), -_LARGEST, _LARGEST).astype(np.int8)
        data_scale, _ = self._parameters(node.inputs[0])
        self._scales[node.name] = data_scale * scale.reshape(-1)
        return self._constant(integers, scale.reshape(-1), axis)

    def _bias(self, node: GraphNode) -> str:
        """Add the bias of a product as int32, and return it dequantised; "" for what is none."""
        bias, scale = self._graph.constants.get(node.inputs[1]), self._scales[node.inputs[0]]
        if bias is None or bias.shape != scale.shape:
            return ""
        integers = np.rint(bias.astype(np.float64) / scale)
        limits = np.iinfo(np.int32)
        if np.any((integers < limits.min) | (integers > limits.max)):
            return ""
        return self._constant(integers.astype(np.int32), scale, 0)

    def _constant(self, integers: Array, scale: Array, axis: int) -> str:
        rewriter = self._rewriter
        zero = np.zeros(scale.shape, integers.dtype)
        parts = [rewriter.constant(each) for each in (integers, scale, zero)]
        return rewriter.add("dequantize_constant", parts, axis=axis)


def _largest_pair(weight: Array, axis: int) -> Array:
    """Return for each unit the largest sum of two neighbouring weights of one sign.

    The weights of a convolution are multiplied with channels last; where a group of terms would
    cross the end of the channels, the taps of a window follow each other.
    """
    terms = np.moveaxis(weight, axis, -1)
    if weight.ndim > 2:  # [c, h, w, units]
        terms = np.moveaxis(terms, 0, -2)
        if terms.shape[-2] % TERMS:
            terms = terms.reshape(-1, terms.shape[-1])
    pairs = largest_pairs(terms, -2)
    return pairs.max(tuple(range(pairs.ndim - 1)))
