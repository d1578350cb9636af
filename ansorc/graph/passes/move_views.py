"""Transpositions move towards the outputs, where they meet and cancel; views join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.node_kind import VIEWS, NodeKind, elementwise_form
from ansorc.graph.rewriter import LazyRewriting, Rewriter

Order: TypeAlias = tuple[int, ...]
"""Dimension d of a transposed tensor is dimension order[d] of what it is a view of."""

_AT_AXIS = ("bias_add", "batch_norm", "batch_norm_inference", "prelu", "softmax", "log_softmax")
"""Operators on the first input along the dimension `axis`, whose other inputs are vectors."""
_REDUCTIONS = ("sum", "mean", "max", "min", "prod")


def sink_transposes(graph: Graph) -> Graph:
    """Compute on the tensors before their transposition, and transpose the results instead.

    This is done for nodes whose meaning does not depend on the order: elementwise nodes, nodes
    along one axis, joins, pads and reductions.
    """
    return _Sinking(graph).run()


class _Sinking(LazyRewriting):
    """The pass over one graph: which tensors are transpositions of which new ones."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._views: dict[str, tuple[str, Order]] = {}

    def rewrite(self, node: GraphNode) -> bool:
        match node.builtin:
            case "transpose":
                return self._transpose(node)
            case "concat":
                return self._concat(node)
            case "pad":
                return self._pad(node)
            case kind if kind in _AT_AXIS:
                return self._at_axis(node)
            case kind if kind in _REDUCTIONS:
                return self._reduction(node)
            case _:
                return self._elementwise(node)

    def materialize(self, name: str) -> None:
        if name not in self._views:
            return
        base, order = self._views.pop(name)
        self.rewriter.replace(name, self.rewriter.add("transpose", [base], name, order=order))

    def _view(self, name: str, base: str, order: Order) -> bool:
        """Note that the old tensor `name` is `base` of the new graph, transposed; return True."""
        if order == tuple(range(len(order))):
            self.rewriter.replace(name, base)
        else:
            self._views[name] = base, order
        return True

    def _source(self, name: str) -> tuple[str, Order]:
        """Return the new tensor that the old tensor `name` is a view of, and the order."""
        rank = len(self.graph.types[name].shape)
        return self._views.get(name) or (self.rewriter.new(name), tuple(range(rank)))

    def _transpose(self, node: GraphNode) -> bool:
        base, order = self._source(node.inputs[0])
        given = cast("Sequence[int]", dict(node.attributes)["order"])
        return self._view(node.name, base, tuple(order[dimension] for dimension in given))

    def _at_axis(self, node: GraphNode) -> bool:
        if node.inputs[0] not in self._views or any(n in self._views for n in node.inputs[1:]):
            return False
        base, order = self._views[node.inputs[0]]
        given = dict(node.attributes)
        axis = cast(int, given.get("axis", -1)) % len(order)
        inputs = [base, *map(self.rewriter.new, node.inputs[1:])]
        result = self.rewriter.add(node.operator, inputs, "", **{**given, "axis": order[axis]})
        return self._view(node.name, result, order)

    def _concat(self, node: GraphNode) -> bool:
        orders = {self._views[name][1] for name in node.inputs if name in self._views}
        if len(orders) != 1 or any(name not in self._views for name in node.inputs):
            return False
        (order,) = orders
        axis = cast(int, dict(node.attributes).get("axis", 0)) % len(order)
        bases = [self._views[name][0] for name in node.inputs]
        result = self.rewriter.add(node.operator, bases, axis=order[axis])
        return self._view(node.name, result, order)

    def _pad(self, node: GraphNode) -> bool:
        if node.inputs[0] not in self._views:
            return False
        base, order = self._views[node.inputs[0]]
        given = dict(node.attributes)
        for name in ("before", "after"):
            moved = dict(zip(order, cast("Sequence[int]", given[name]), strict=True))
            given[name] = tuple(moved[dimension] for dimension in range(len(order)))
        return self._view(node.name, self.rewriter.add(node.operator, [base], "", **given), order)

    def _reduction(self, node: GraphNode) -> bool:
        given = dict(node.attributes)
        if node.inputs[0] not in self._views or given.get("axis") is None:
            return False
        base, order = self._views[node.inputs[0]]
        axes = given["axis"]
        named = cast("Sequence[int]", axes if isinstance(axes, tuple) else (axes,))
        places = [dimension % len(order) for dimension in named]
        given["axis"] = tuple(sorted(order[dimension] for dimension in places))
        result = self.rewriter.add(node.operator, [base], "", **given)
        if given.get("keepdims"):
            return self._view(node.name, result, order)
        kept = [order[d] for d in range(len(order)) if d not in places]
        return self._view(
            node.name, result, tuple(sorted(kept).index(dimension) for dimension in kept)
        )

    def _elementwise(self, node: GraphNode) -> bool:
        """Compute an elementwise node on what its inputs are views of, all in one order."""
        types = self.graph.types
        orders = {self._views[name][1] for name in node.inputs if name in self._views}
        if len(orders) != 1 or len(node.outputs) != 1 or node.kind(types) != NodeKind.ELEMENTWISE:
            return False
        if any(isinstance(value, tuple) for _, value in node.attributes):  # one a dimension
            return False
        (order,) = orders
        shape = types[node.name].shape
        whole = [name for name in node.inputs if types[name].shape == shape]
        viewed = [name for name in whole if name in self._views]
        if len(order) != len(shape) or 2 * len(viewed) < len(whole):
            return False
        inputs = [self._reorder(name, order) for name in node.inputs]
        if not self._means_the_same(node, inputs):
            return False
        result = self.rewriter.add(node.operator, inputs, "", **dict(node.attributes))
        return self._view(node.name, result, order)

    def _means_the_same(self, node: GraphNode, inputs: Sequence[str]) -> bool:
        """Return whether a node computes the same of the elements of new tensors as of its inputs.

        It does not where its definition asks for extents or for an axis: a scale for each place
        along the last one, a reversal of an axis of extent 1.
        """
        kinds = tuple(self.rewriter.type(name) for name in inputs)
        try:
            new = node.operator.dag(kinds, node.attributes)
            kind = node.operator.kind(kinds, node.attributes)
        except Exception:  # noqa: BLE001 - a user's definition takes no tensors of these shapes
            return False
        old = node.dag(self.graph.types)
        return kind == NodeKind.ELEMENTWISE and elementwise_form(new) == elementwise_form(old)

    def _reorder(self, name: str, order: Order) -> str:
        """Return a tensor of the new graph of which `name` is a view in `order`."""
        if name in self._views:
            return self._views[name][0]
        tensor, kind = self.rewriter.new(name), self.graph.types[name]
        if kind.elements == 1:
            if len(kind.shape) <= 1:
                return tensor
            return self.rewriter.add("reshape", [tensor], shape=(1,))
        shape = (1,) * (len(order) - len(kind.shape)) + kind.shape
        if shape != kind.shape:
            tensor = self.rewriter.add("reshape", [tensor], shape=shape)
        back = tuple(order.index(dimension) for dimension in range(len(order)))
        return self.rewriter.add("transpose", [tensor], order=back)


def cancel_views(graph: Graph) -> Graph:
    """Make transpositions that move only extents of 1 reshapes, and join reshapes in a row."""
    rewriter, bases = Rewriter(graph), dict[str, str]()
    for node in graph.nodes:
        source, shape = node.inputs[0] if node.inputs else "", graph.types[node.name].shape
        if not _is_view(graph, node):
            rewriter.copy(node)
            continue
        rewriter.source(node)
        base = bases.get(rewriter.new(source), rewriter.new(source))
        if rewriter.type(base).shape == shape:
            rewriter.replace(node.name, base)
            continue
        result = rewriter.add("reshape", [base], node.name, shape=shape)
        bases[result] = base
        rewriter.replace(node.name, result)
    return rewriter.graph()


def _is_view(graph: Graph, node: GraphNode) -> bool:
    """Return whether the elements of result and input lie in memory in the same order."""
    if node.builtin in VIEWS:
        return True
    if node.builtin != "transpose":
        return False
    shape = graph.types[node.inputs[0]].shape
    order = cast("Sequence[int]", dict(node.attributes)["order"])
    moved = [dimension for dimension in order if shape[dimension] > 1]
    return moved == sorted(moved)
