"""Which nodes become one kernel: a product or reduction with what is done to its result, …"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter

from ansorc.graph.fusion_group import FusionGroup
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.node_kind import VIEWS, NodeKind, is_affine, is_permutation

_MOST_REUSED = 8.0
"""Operations for each element read and written, from which on a reduction is a product: what
comes before it would be computed again for each reader."""


@dataclass(frozen=True)
class GraphPartition:
    """A graph as kernels, in an order in which they can run."""

    groups: tuple[FusionGroup, ...]
    aliases: Mapping[str, str]
    """Tensors that are others in memory, under another shape."""

    def root(self, name: str) -> str:
        """Return the tensor whose memory `name` is."""
        while name in self.aliases:
            name = self.aliases[name]
        return name


def partition(graph: Graph) -> GraphPartition:
    """Return `graph` as kernels (paper §7.4 takes the partition from Relay; this one is ours).

    A product or reduction takes in the elementwise nodes behind it, up to the first node through
    which all its readers' results go. Movements of elements before a group's nodes, and elementwise
    nodes before a reduction, join it. Other nodes make groups of elementwise chains. Reshapes
    between groups cost nothing: they are aliases.
    """
    return _Partitioning(graph).run()


class _Partitioning:
    """The partition of one graph in the making."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places = {node.name: index for index, node in enumerate(graph.nodes)}
        self._group: dict[str, int] = {}
        self._members: list[list[GraphNode]] = []
        self._is_product: list[bool] = []
        self._copied: dict[str, list[int]] = {}
        """Nodes that each of their readers' groups computes for itself."""

    def run(self) -> GraphPartition:
        nodes = self._graph.nodes
        for node in nodes:
            if self._kind(node) == NodeKind.REDUCTION and node.name not in self._group:
                self._begin(node)
        for node in reversed(nodes):
            if node.name not in self._group and self._can_join(node):
                self._join(node)
        for node in nodes:
            if node.name not in self._group and not self._is_view(node):
                self._begin(node)
        aliases = {n.name: n.inputs[0] for n in nodes if n.name not in self._group}
        return GraphPartition(self._order_groups(aliases), aliases)

    def _kind(self, node: GraphNode) -> NodeKind:
        return node.kind(self._graph.types)

    def _is_view(self, node: GraphNode) -> bool:
        return node.builtin in VIEWS

    def _add(self, node: GraphNode, group: int) -> None:
        self._group[node.name] = group
        self._members[group].append(node)

    def _begin(self, node: GraphNode) -> None:
        """Make a group of `node` and the elementwise nodes behind it."""
        group = len(self._members)
        self._members.append([])
        self._is_product.append(self._reuses(node))
        self._add(node, group)
        while len(node.outputs) == 1 and (path := self._behind(node)):
            for follower in path:
                self._add(follower, group)
            node = path[-1]
        if self._is_left_to_reader(node, group):
            self._members[group].pop()
            del self._group[node.name]
        elif (last := self._permutation_behind(node)) is not None:
            self._add(last, group)

    def _is_left_to_reader(self, last: GraphNode, group: int) -> bool:
        """Return whether the last node of a group only widens what another product's kernel reads.

        That kernel reads fewer bytes if it widens them itself.
        """
        types, readers = self._graph.types, self._graph.readers[last.name]
        if len(self._members[group]) < 2 or len(readers) != 1 or last.name in self._graph.outputs:
            return False
        (reader,) = readers
        before = types[last.inputs[0]] if last.inputs else types[last.name]
        is_widened = before.bytes < types[last.name].bytes
        return is_widened and self._is_epilogue(reader, types[last.name].shape)

    def _is_epilogue(self, node: GraphNode, shape: tuple[int, ...]) -> bool:
        """Return whether a node is in a product's kernel, and works on elements in `shape`."""
        group, kind = self._group.get(node.name), self._kind(node)
        is_there = group is not None and self._is_product[group]
        is_alike = self._graph.types[node.name].shape == shape
        return is_there and kind == NodeKind.ELEMENTWISE and is_alike

    def _permutation_behind(self, node: GraphNode) -> GraphNode | None:
        """Return the transposition that alone reads the last result; None if there is none.

        The kernel can write its result transposed.
        """
        if len(node.outputs) != 1 or not self._graph.is_used_once(node.name):
            return None
        (reader,) = self._graph.readers[node.name]
        is_free = reader.name not in self._group and not self._is_view(reader)
        return reader if is_free and is_permutation(reader.dag(self._graph.types)) else None

    def _behind(self, node: GraphNode) -> Sequence[GraphNode]:
        """Return the nodes up to the first one through which all readers' results go.

        Return nothing if one of them cannot join the group of `node`.
        """
        end = self._post_dominators[node.name]
        if end is None or node.name in self._graph.outputs:
            return ()
        limit, between = self._places[end.name], dict[str, GraphNode]()
        stack = list(self._graph.readers[node.name])
        while stack:
            reader = stack.pop()
            if reader.name in between:
                continue
            if self._places[reader.name] > limit or not self._can_follow(reader, node):
                return ()
            between[reader.name] = reader
            if reader is not end:
                if reader.name in self._graph.outputs:
                    return ()
                stack += self._graph.readers[reader.name]
        return sorted(between.values(), key=lambda follower: self._places[follower.name])

    def _can_follow(self, node: GraphNode, first: GraphNode) -> bool:
        """Return whether `node` works element by element on results of the shape of `first`."""
        types = self._graph.types
        return (
            node.name not in self._group
            and len(node.outputs) == 1
            and types[node.name].shape == types[first.name].shape
            and self._kind(node) == NodeKind.ELEMENTWISE
        )

    def _join(self, node: GraphNode) -> None:
        """Let a node join the groups that read it, where that costs nothing.

        A movement of elements is done by each reader for itself.
        """
        readers = [reader for name in node.outputs for reader in self._graph.readers[name]]
        is_output = any(name in self._graph.outputs for name in node.outputs)
        if is_output or not readers or any(r.name not in self._group for r in readers):
            return
        groups = sorted({g for reader in readers for g in self._groups_of(reader)})
        kind = self._kind(node)
        if kind == NodeKind.MOVEMENT or self._is_view(node):
            self._add(node, groups[0])
            for group in groups[1:]:
                self._members[group].append(node)
            self._copied[node.name] = groups
        elif kind != NodeKind.REDUCTION and len(groups) == 1:
            (group,) = groups
            if not self._is_product[group] or self._is_read_by_epilogue(node):
                self._add(node, group)

    def _is_read_by_epilogue(self, node: GraphNode) -> bool:
        """Return whether only what follows a product reads a node: its kernel may compute it."""
        if self._kind(node) != NodeKind.ELEMENTWISE or len(node.outputs) != 1:
            return False
        shape = self._graph.types[node.name].shape
        return all(self._is_epilogue(r, shape) for r in self._graph.readers[node.name])

    def _groups_of(self, node: GraphNode) -> Sequence[int]:
        """Return the groups that compute a node."""
        return self._copied.get(node.name) or (self._group[node.name],)

    def _can_join(self, node: GraphNode) -> bool:
        """Return whether a node may join its readers; a view may only between movements."""
        return not self._is_view(node) or self._is_between_movements(node)

    def _is_between_movements(self, view: GraphNode) -> bool:
        """Return whether a view follows a movement of elements, and is linear itself."""
        if not is_affine(view.dag(self._graph.types)):
            return False
        source = self._graph.producers.get(view.inputs[0])
        if source is None or source.name in self._group:
            return False
        if self._is_view(source):
            return self._is_between_movements(source)
        return self._kind(source) == NodeKind.MOVEMENT

    def _reuses(self, node: GraphNode) -> bool:
        types = self._graph.types
        moved = sum(types[name].elements for name in (*node.inputs, *node.outputs))
        return node.dag(types).flops > _MOST_REUSED * moved

    def _order_groups(self, aliases: Mapping[str, str]) -> tuple[FusionGroup, ...]:
        """Return the groups, each after those that it reads."""
        groups: list[FusionGroup] = []
        for members in self._members:
            members.sort(key=lambda node: self._places[node.name])
            groups.append(FusionGroup.of(self._graph, members, self._copied))
        producers = {name: number for number, g in enumerate(groups) for name in g.outputs}
        roots = GraphPartition((), aliases)
        needs = {
            number: {
                producers[root]
                for root in map(roots.root, group.inputs)
                if root in producers and producers[root] != number
            }
            for number, group in enumerate(groups)
        }
        return tuple(groups[number] for number in TopologicalSorter(needs).static_order())

    @cached_property
    def _post_dominators(self) -> Mapping[str, GraphNode | None]:
        """The first node through which all results of a node go, by its name; None: the end."""
        nodes, dominators = self._graph.nodes, dict[str, GraphNode | None]()
        for node in reversed(nodes):
            readers = [r for name in node.outputs for r in self._graph.readers[name]]
            is_output = any(name in self._graph.outputs for name in node.outputs)
            meeting: GraphNode | None = readers[0] if readers and not is_output else None
            for reader in readers[1:]:
                meeting = self._meet(meeting, reader, dominators)
            dominators[node.name] = meeting
        return dominators

    def _meet(
        self, left: GraphNode | None, other: GraphNode, known: Mapping[str, GraphNode | None]
    ) -> GraphNode | None:
        """Return the first node through which the results of both nodes go; None: the end."""
        right: GraphNode | None = other
        while left is not right:
            if left is None or right is None:
                return None
            if self._places[left.name] < self._places[right.name]:
                left = known[left.name]
            else:
                right = known[right.name]
        return left


def least_bytes(graph: Graph, partition: GraphPartition) -> int:
    """Return the most bytes of intermediate tensors that are needed at one time.

    No arena can be smaller: it holds, at each kernel, what it reads and writes and what is read
    later.
    """
    lives = lifetimes(graph, partition)
    steps = range(len(partition.groups))
    return max((sum(b.bytes for b in lives if b.first <= t <= b.last) for t in steps), default=0)


@dataclass(frozen=True)
class Lifetime:
    """An intermediate tensor: its size, and the first and last kernel that has to do with it."""

    name: str
    bytes: int
    first: int
    last: int


def lifetimes(graph: Graph, partition: GraphPartition) -> list[Lifetime]:
    """Return the intermediate tensors that need memory of their own, in order of computation."""
    outside = {partition.root(name) for name in graph.outputs}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for step, group in enumerate(partition.groups):
        for name in group.outputs:
            first[name] = last[name] = step
        for root in map(partition.root, group.inputs):
            if root in first:
                last[root] = step
    return [
        Lifetime(name, graph.types[name].bytes, first[name], last[name])
        for name in first
        if name not in outside
    ]
