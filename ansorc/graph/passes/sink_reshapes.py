"""Bytes that a product makes as a matrix are added to others as a matrix, in its kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.node_kind import VIEWS, NodeKind, elementwise_form
from ansorc.graph.rewriter import LazyRewriting
from ansorc.graph.tensor_type import TensorType

_BYTES, _FLOATS = "requantize", "dequantize"
"""The operator whose results begin as matrices where the network has images, and its inverse."""


def sink_reshapes(graph: Graph) -> Graph:
    """Compute element by element on matrices of requantised sums, and shape the results instead.

        reshape(requantize(matmul(x, w)), image), dequantize, add of a dequantised image, quantize
            ->  dequantize, add of that image as a matrix, quantize, reshape

    A product and what follows it are one kernel only if the shape stays. Other tensors of the same
    extents are other shapes of the same memory.
    """
    return _Sinking(graph).run()


class _Sinking(LazyRewriting):
    """The pass over one graph: which of its tensors are shapes of which new matrices."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._matrices: dict[str, str] = {}

    def rewrite(self, node: GraphNode) -> bool:
        if node.builtin in VIEWS:
            return self._view(node)
        return self._elementwise(node)

    def materialize(self, name: str) -> None:
        """Make a tensor; the floats of bytes are made of the shaped bytes, by who reads them."""
        if name not in self._matrices:
            return
        matrix, shape = self._matrices.pop(name), self.graph.types[name].shape
        node = self.graph.producers[name]
        if node.builtin == _FLOATS:
            self.materialize(node.inputs[0])
            self.rewriter.copy(node)
        else:
            self.rewriter.replace(name, self.rewriter.add("reshape", [matrix], name, shape=shape))

    def _view(self, node: GraphNode) -> bool:
        """Note a view of a matrix that keeps its last dimension."""
        source, shape = node.inputs[0], self.graph.types[node.name].shape
        if source in self._matrices:
            matrix = self._matrices[source]
        else:
            producer = self.graph.producers.get(source)
            if producer is None or producer.builtin != _BYTES:
                return False
            matrix = self.rewriter.new(source)
        rows = self.rewriter.type(matrix).shape
        if rows == shape:
            self.rewriter.replace(node.name, matrix)
            return True
        is_image = len(rows) == 2 and len(shape) > 2 and shape[-1] == rows[-1]
        if is_image:
            self._matrices[node.name] = matrix
        return is_image

    def _elementwise(self, node: GraphNode) -> bool:
        """Compute an elementwise node on matrices, if one of its inputs is one."""
        types = self.graph.types
        shapes = {self._rows(name) for name in node.inputs if name in self._matrices}
        if len(shapes) != 1 or len(node.outputs) != 1 or node.kind(types) != NodeKind.ELEMENTWISE:
            return False
        (rows,), shape = shapes, types[node.name].shape
        others = {name for name in node.inputs if types[name].shape != shape}
        if any(types[name].elements != 1 or len(types[name].shape) > 1 for name in others):
            return False
        kinds = [
            types[name] if name in others else TensorType(types[name].dtype, rows)
            for name in node.inputs
        ]
        if not _means_the_same(node, kinds, graph=self.graph):
            return False
        inputs = [
            self.rewriter.new(name) if name in others else self._as_matrix(name, rows)
            for name in node.inputs
        ]
        self._matrices[node.name] = self.rewriter.add(
            node.operator, inputs, "", **dict(node.attributes)
        )
        return True

    def _rows(self, name: str) -> tuple[int, ...]:
        return self.rewriter.type(self._matrices[name]).shape

    def _as_matrix(self, name: str, rows: tuple[int, ...]) -> str:
        """Return the tensor of the new graph with the elements of `name` in the shape `rows`.

        Bytes are shaped before they become floats, so that the reader may do that.
        """
        if name in self._matrices:
            return self._matrices[name]
        node, types = self.graph.producers.get(name), self.graph.types
        if node is None or node.builtin != _FLOATS:
            return self.rewriter.add("reshape", [self.rewriter.new(name)], shape=rows)
        data, *numbers = node.inputs
        if any(types[number].elements != 1 for number in numbers):
            return self.rewriter.add("reshape", [self.rewriter.new(name)], shape=rows)
        inputs = [self._as_matrix(data, rows), *map(self.rewriter.new, numbers)]
        return self.rewriter.add(node.operator, inputs, "", **dict(node.attributes))


def _means_the_same(node: GraphNode, kinds: Sequence[TensorType], *, graph: Graph) -> bool:
    """Return whether a node computes the same of the elements of inputs of other types."""
    try:
        new = node.operator.dag(tuple(kinds), node.attributes)
    except Exception:  # noqa: BLE001 - a definition takes no tensors of these shapes
        return False
    is_elementwise = node.operator.kind(tuple(kinds), node.attributes) == NodeKind.ELEMENTWISE
    return is_elementwise and elementwise_form(new) == elementwise_form(node.dag(graph.types))
