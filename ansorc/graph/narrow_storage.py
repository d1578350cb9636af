"""Keep tensors between kernels in 16 bits: they are rounded once at a store, widened at a load.

A graph computes float32; `GraphNode.storage` says which results are to be kept in a narrow float.
The kernels are chosen before, so that nothing is rounded within one:

    kernel 1: y = relu(conv2d(x, w)) as float16    ->  y = cast(relu(conv2d(x, w)), "float16")
    kernel 2: z = softmax(y)                       ->  z = softmax(cast(y, "float32"))

Products read narrow operands as they are (`sum_dtype`), so that instructions may multiply them. On
machines that have those, a kernel that computes a float32 factor stores it in 16 bits for them.
Nodes that only move elements move narrow ones. Weights that only such nodes read are rounded, but
for vectors (a bias, the scale of a norm), which take no time to load, and for windows of 3 taps on
CPUs without an instruction for narrow products: Winograd's algorithm transforms their weights,
which would round them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ansorc.codegen.base import backend_of
from ansorc.errors import GraphError, LanguageError
from ansorc.graph.fusion_group import FusionGroup
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.graph_operator import Attributes, attributes_of
from ansorc.graph.node_kind import VIEWS
from ansorc.graph.operators import operator_named
from ansorc.graph.partition import GraphPartition
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32, DType, dtype
from ansorc.ir.expr import Checked, Const, Expr, Load, Select
from ansorc.lang.dag import ComputeDAG
from ansorc.target import Target
from ansorc.target.dot_products import dot_products
from ansorc.target.matrix_units import matrix_unit

PRODUCTS = (
    "matmul", "batch_matmul", "dense", "conv1d", "conv2d", "conv3d", "depthwise_conv2d",
    "conv1d_transpose", "conv2d_transpose", "conv3d_transpose",
)  # fmt: skip
"""Operators that take factors of any types, which `sum_dtype` names the type of the sums of."""


def narrow_storage(
    graph: Graph, cut: GraphPartition, target: Target
) -> tuple[Graph, GraphPartition]:
    """Return `graph` and its kernels for `target`, the tensors between them as their nodes say.

    Outputs of the network keep their types. Raise GraphError for weights beyond the range of the
    narrow float.
    """
    if not any(node.storage for node in graph.nodes):
        return graph, cut
    return _Narrowing(graph, cut, target).run()


@dataclass(frozen=True)
class _Group:
    """The number of a kernel, and what it consists of in the making."""

    number: int
    nodes: list[GraphNode]


class _Narrowing:
    """The new graph in the making, and its kernels."""

    def __init__(self, graph: Graph, cut: GraphPartition, target: Target) -> None:
        self._graph, self._target = graph, target
        self._groups = [_Group(number, []) for number in range(len(cut.groups))]
        self._of_node: dict[str, list[_Group]] = {}
        for group, old in zip(self._groups, cut.groups, strict=True):
            for node in old.nodes:
                self._of_node.setdefault(node.name, []).append(group)
        self._edges = {name for group in cut.groups for name in group.outputs}
        self._outside = {*graph.outputs, *map(cut.root, graph.outputs)}
        self._types: dict[str, TensorType] = dict(graph.inputs)
        self._constants = {name: self._weight(name, a) for name, a in graph.constants.items()}
        self._types.update({n: TensorType.of_array(a) for n, a in self._constants.items()})
        self._same: dict[str, str] = {}
        """Tensors that are others as they are: narrow ones, widened and to be kept narrow."""
        self._wide: dict[tuple[str, int], str] = {}
        """The widened tensors of each kernel."""
        self._rounded: dict[tuple[str, str], str] = {}
        """The factors of products that are computed in float32, by their names and narrow types."""
        self._made: dict[str, tuple[GraphNode, tuple[_Group, ...]]] = {}
        """The new node that computes a tensor, and its kernels."""
        self._nodes: list[GraphNode] = []

    def run(self) -> tuple[Graph, GraphPartition]:
        """Return both."""
        for node in self._graph.nodes:
            self._add(node)
        nodes = self._needed_nodes()
        new = replace(self._graph, constants=self._constants, nodes=nodes)
        copied = {name for name, groups in self._of_node.items() if len(groups) > 1}
        copied.update(self._wide.values())
        groups = [FusionGroup.of(new, g.nodes, copied) for g in self._groups if g.nodes]
        within = {node.name for group in groups for node in group.nodes}
        aliases = {n.name: n.inputs[0] for n in nodes if n.name not in within}
        return new, GraphPartition(tuple(groups), aliases)

    def _needed_nodes(self) -> tuple[GraphNode, ...]:
        """Return the new nodes without views that nobody reads any more."""
        read, needed = set(self._graph.outputs), list[GraphNode]()
        for node in reversed(self._nodes):
            if self._made[node.name][1] or not read.isdisjoint(node.outputs):
                read.update(node.inputs)
                needed.append(node)
        return tuple(reversed(needed))

    def _weight(self, name: str, values: Array) -> Array:
        """Return a constant as it is kept: narrow if all that read it keep their results so."""
        readers = self._graph.readers[name]
        kinds = {node.storage for node in readers}
        is_vector = max(values.shape, default=1) == values.size
        if values.dtype != np.float32 or is_vector or len(kinds) != 1 or "" in kinds:
            return values
        kind = dtype(kinds.pop())
        is_for_winograd = any(_has_three_taps(n, values.shape) for n in readers)
        if name in self._outside or (is_for_winograd and not self._multiplies(kind)):
            return values
        with np.errstate(over="ignore"):
            rounded = values.astype(kind.numpy)
        if np.isinf(rounded).sum() != np.isinf(values).sum():
            raise GraphError(
                f"the weight '{name}' has elements of up to {np.abs(values).max():.3g}, and "
                f"{kind} ends at {kind.largest:.5g}; keep the node '{readers[0].name}' in float32 "
                f"(--keep), or use bf16, which has the range of float32"
            )
        return rounded

    def _multiplies(self, kind: DType) -> bool:
        """Return whether the machine multiplies narrow floats, or else transforms no constants."""
        target, name = self._target, kind.name
        if not backend_of(target).capabilities(target).packs_constants:
            return True
        has_unit = matrix_unit(target, name, name) is not None
        return has_unit or bool(dot_products(target, 2, name, name))

    def _add(self, node: GraphNode) -> None:
        """Add a node, what its inputs are widened by, and what its results are rounded by."""
        inputs = tuple(self._same.get(name, name) for name in node.inputs)
        if self._is_undone(node, inputs):
            self._same[node.name] = inputs[0]
            return
        moved = self._moving(node, inputs)
        if moved is not None:
            self._put(moved, node)
            return
        attributes = self._product_attributes(node, inputs)
        if attributes is None:
            pairs = zip(inputs, node.inputs, strict=True)
            inputs = tuple(self._widened(name, old, node) for name, old in pairs)
            attributes = node.attributes
        elif node.storage and self._multiplies(dtype(node.storage)):
            inputs = tuple(self._as_factor(name, node) for name in inputs)
        self._put_rounded(replace(node, inputs=inputs, attributes=attributes), node)

    def _is_narrow(self, name: str, old: str) -> bool:
        """Return whether the tensor `name`, which stands for `old`, is narrow and that was not."""
        return self._types[name].dtype != self._graph.types[old].dtype

    def _is_undone(self, node: GraphNode, inputs: Sequence[str]) -> bool:
        """Return whether a node widens a tensor that is to be kept as narrow as it was."""
        if node.builtin != "cast" or node.name in self._outside:
            return False
        producer = self._graph.producers.get(node.inputs[0])
        if producer is not None and len(self._of_node.get(producer.name, ())) > 1:
            return False  # several kernels compute it, each for itself
        is_wide = self._graph.types[node.name].dtype == FLOAT32
        return is_wide and self._types[inputs[0]].dtype.name == node.storage

    def _is_repeated(self, node: GraphNode, inputs: Sequence[str]) -> bool:
        """Return whether a node rounds what is kept so already."""
        kind = self._graph.types[node.name].dtype
        return node.builtin == "cast" and self._types[inputs[0]].dtype == kind and kind != FLOAT32

    def _moving(self, node: GraphNode, inputs: Sequence[str]) -> GraphNode | None:
        """Return a node for narrow elements, if it only moves them; None if it computes."""
        if self._is_repeated(node, inputs):
            copy = operator_named("copy")
            return replace(node, operator=copy, inputs=tuple(inputs), attributes=())
        pairs = zip(inputs, node.inputs, strict=True)
        narrow = {self._types[name].dtype for name, old in pairs if self._is_narrow(name, old)}
        old = [self._graph.types[name] for name in node.outputs]
        if len(narrow) != 1 or any(kind.dtype != FLOAT32 for kind in old):
            return None
        floats = {self._types[name].dtype for name in inputs if self._types[name].dtype.is_float}
        if floats != narrow or self._outside.intersection(node.outputs):
            return None
        moved = replace(node, inputs=tuple(inputs))
        try:
            dag = moved.dag(self._types)
        except (GraphError, LanguageError):
            return None
        (kind,) = narrow
        new = [TensorType(buffer.dtype, buffer.shape) for buffer in dag.outputs]
        wanted = [TensorType(kind, each.shape) for each in old]
        is_view = node.builtin in VIEWS
        return moved if new == wanted and (is_view or _only_moves(dag, kind)) else None

    def _product_attributes(self, node: GraphNode, inputs: Sequence[str]) -> Attributes | None:
        """Return the attributes of a product of narrow factors; None if it is none."""
        given = dict(node.attributes)
        pairs = zip(inputs, node.inputs, strict=True)
        if node.builtin not in PRODUCTS or "sum_dtype" in given:
            return None
        if not any(self._is_narrow(name, old) for name, old in pairs):
            return None
        return attributes_of({**given, "sum_dtype": "float32"})

    def _as_factor(self, name: str, node: GraphNode) -> str:
        """Return a float32 factor of a product as the instructions for narrow ones take it.

        It is rounded in the kernel that computes it, which stores it twice if others read it, too.
        """
        kind, key = dtype(node.storage), (name, node.storage)
        if self._types[name].dtype != FLOAT32 or name in self._constants:
            return name
        if key in self._rounded:
            return self._rounded[key]
        producer, groups = self._made.get(name, (None, ()))
        rounded = self._fresh(f"{name}.{kind}")
        if producer is None:
            return name  # an input of the network: callers have it in float32
        if len(groups) == 1 and groups[0] not in self._of_node[node.name]:
            self._cast(name, rounded, kind, groups)
        elif not groups and producer.builtin in VIEWS:
            source = self._as_factor(producer.inputs[0], node)
            if source == producer.inputs[0]:
                return name
            self._append(replace(producer, inputs=(source,), outputs=(rounded,)), ())
        else:
            return name
        self._rounded[key] = rounded
        return rounded

    def _widened(self, name: str, old: str, node: GraphNode) -> str:
        """Return the tensor `name` as `node` reads it: with the type of `old`."""
        if not self._is_narrow(name, old):
            return name
        groups = self._of_node[node.name]
        key = name, groups[0].number
        if key not in self._wide:
            self._wide[key] = self._fresh(f"{name}.wide{groups[0].number}")
            self._cast(name, self._wide[key], FLOAT32, groups)
        return self._wide[key]

    def _put_rounded(self, made: GraphNode, node: GraphNode) -> None:
        """Add `made`, which computes the results of `node`, and round those that are kept narrow.

        Others in the same kernel read what was rounded, too.
        """
        kinds = [self._graph.types[name].dtype for name in node.outputs]
        rounded = {
            name
            for name, kind in zip(node.outputs, kinds, strict=True)
            if node.storage and kind == FLOAT32 and name in self._edges
            and name not in self._outside
        }  # fmt: skip
        outputs = tuple(
            self._fresh(f"{name}.float32") if name in rounded else name for name in node.outputs
        )
        self._put(replace(made, outputs=outputs), node)
        for name, output in zip(node.outputs, outputs, strict=True):
            if name in rounded:
                self._cast(output, name, dtype(node.storage), self._of_node[node.name])

    def _fresh(self, stem: str) -> str:
        """Return a name that begins with `stem` and that no tensor has."""
        while stem in self._graph.types or stem in self._types:
            stem += "_"
        return stem

    def _cast(self, source: str, name: str, kind: DType, groups: Iterable[_Group]) -> None:
        """Add a conversion of `source` to kernels."""
        cast = operator_named("cast")
        self._append(GraphNode(cast, (source,), (name,), (("dtype", str(kind)),)), groups)

    def _put(self, made: GraphNode, node: GraphNode) -> None:
        """Add what stands for `node` to the kernels that have that."""
        self._append(replace(made, storage=""), self._of_node.get(node.name, ()))

    def _append(self, node: GraphNode, groups: Iterable[_Group]) -> None:
        self._nodes.append(node)
        self._types.update(zip(node.outputs, node.types(self._types), strict=True))
        kernels = tuple(groups)
        self._made.update(dict.fromkeys(node.outputs, (node, kernels)))
        for group in kernels:
            group.nodes.append(node)


def _has_three_taps(node: GraphNode, weight: tuple[int, ...]) -> bool:
    """Return whether windows of 3 taps move by 1: what Winograd's algorithm computes."""
    given = dict(node.attributes)
    if node.builtin not in ("conv1d", "conv2d", "conv3d") or given.get("groups", 1) != 1:
        return False
    is_last = str(given.get("layout", "")).endswith("C")
    taps = weight[:-2] if is_last else weight[2:]
    strides = given.get("stride", 1)
    moves = strides if isinstance(strides, tuple) else (strides,) * len(taps)
    return any(tap == 3 and move == 1 for tap, move in zip(taps, moves, strict=True))


def _only_moves(dag: ComputeDAG, kind: DType) -> bool:
    """Return whether each element of the results is one of an input, or a number."""
    return all(
        not op.reduce_axes and op.scan is None and _is_moved(body, kind)
        for op in dag.ops
        for body in op.bodies
    )


def _is_moved(body: Expr, kind: DType) -> bool:
    match body:
        case Load(buffer):
            return buffer.dtype == kind
        case Const():
            return True
        case Checked(value):
            return _is_moved(value, kind)
        case Select(_, then, otherwise):
            return _is_moved(then, kind) and _is_moved(otherwise, kind)
        case _:
            return False
