"""Products with a constant number move behind what is linear, to the results of products."""

from __future__ import annotations

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.node_kind import NodeKind
from ansorc.graph.passes.move_views import VIEWS
from ansorc.graph.rewriter import LazyRewriting

_PRODUCTS = ("matmul", "dense", "batch_matmul")
_LARGEST_FACTOR = 2.0**32
"""A number beyond it, or below its inverse, may leave the range of floats in another place."""


def sink_scales(graph: Graph) -> Graph:
    """Scale the results of matrix products instead of their factors.

    matmul(a * s, b) becomes matmul(a, b) * s, where it is an epilogue; views and movements of
    elements between the two do not matter. Exact but for rounding.
    """
    return _ScaleSinking(graph).run()


class _ScaleSinking(LazyRewriting):
    """The pass over one graph: which tensors are others times a number."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._scaled: dict[str, tuple[str, float]] = {}
        """The new tensor and the factor that tensors of the old graph are made of."""

    def rewrite(self, node: GraphNode) -> bool:
        return self._scale(node) or self._movement(node) or self._product(node)

    def materialize(self, name: str) -> None:
        if name not in self._scaled:
            return
        base, factor = self._scaled.pop(name)
        number = self.rewriter.number(factor, base)
        self.rewriter.replace(name, self.rewriter.add("multiply", [base, number], name))

    def _base(self, name: str) -> tuple[str, float]:
        return self._scaled.get(name) or (self.rewriter.new(name), 1.0)

    def _scale(self, node: GraphNode) -> bool:
        """Note a product or quotient with a number, before a matrix product; return whether."""
        name, constants, types = node.builtin, self.graph.constants, self.graph.types
        if name not in ("multiply", "divide") or not self._leads_to_product(node):
            return False
        for position in (1, 0) if name == "multiply" else (1,):
            number, data = node.inputs[position], node.inputs[1 - position]
            kind = types[data]
            if number in constants and types[number].elements == 1 and kind.dtype.is_float:
                if kind.shape != types[node.name].shape:
                    return False
                value = float(constants[number].reshape(-1)[0])
                factor = self._scaled.get(data, ("", 1.0))[1]
                if not _is_moderate(value):
                    return False
                factor *= value if name == "multiply" else 1 / value
                if not _is_moderate(factor):
                    return False
                self._scaled[node.name] = self._base(data)[0], factor
                return True
        return False

    def _leads_to_product(self, node: GraphNode) -> bool:
        """Return whether a chain of only readers leads from the node to a matrix product."""
        while self.graph.is_used_once(node.name):
            (node,) = self.graph.readers[node.name]
            if node.builtin in _PRODUCTS:
                return True
            if not self._moves(node) and node.builtin not in ("multiply", "divide"):
                return False
        return False

    def _moves(self, node: GraphNode) -> bool:
        is_view = node.builtin in VIEWS
        return is_view or node.kind(self.graph.types) == NodeKind.MOVEMENT

    def _movement(self, node: GraphNode) -> bool:
        if not any(name in self._scaled for name in node.inputs) or len(node.inputs) != 1:
            return False
        if len(node.outputs) != 1 or not self._moves(node):
            return False
        base, factor = self._scaled.pop(node.inputs[0])
        given = dict(node.attributes)
        self._scaled[node.name] = self.rewriter.add(node.operator, [base], "", **given), factor
        return True

    def _product(self, node: GraphNode) -> bool:
        """Scale the result of a matrix product as its factors are scaled; return whether."""
        if node.builtin not in _PRODUCTS:
            return False
        if not any(name in self._scaled for name in node.inputs):
            return False
        (a, first), (b, second) = map(self._base, node.inputs)
        if not _is_moderate(first * second):
            return False
        given = dict(node.attributes)
        result = self.rewriter.add(node.operator, [a, b], "", **given)
        self._scaled[node.name] = result, first * second
        self.materialize(node.name)
        return True


def _is_moderate(factor: float) -> bool:
    """Return whether a factor keeps numbers of usual size in the range of floats; not 0, no NaN."""
    return 1 / _LARGEST_FACTOR <= abs(factor) <= _LARGEST_FACTOR
