"""Inline a stage into its reader; long values that are read twice become temporaries.

t[i] = x[i] + x[i]                        u[i] with v = x[i] + x[i] computed once:
u[i] = exp(t[i]) * t[i]         ->        u[i] = exp(v) * v

Short values are repeated wherever they are read: compilers find common subexpressions, and the
loops of reductions stay single statements. A longer value becomes a `Temporary` of its reader. So a
chain of n stages, each of which reads the one before it twice, gives n values, not 2^n.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from ansorc.ir.arith.interval import Ranges
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Expr, Indices, Load, Select
from ansorc.ir.node import Node, children, rewrite, walk
from ansorc.ir.passes.accesses import is_inside
from ansorc.ir.substitute import substitute
from ansorc.lang.access import is_expensive
from ansorc.lang.compute_op import ComputeOp, Temporary

MOST_WRITTEN_OUT = 400
"""A computation of at most this many nodes gets no temporaries."""
MOST_REPEATED = 1 << 16
"""The most nodes that inlining may repeat where a schedule by hand asks for it."""
_SHORT = 24
"""In a longer computation: a value of at most this many nodes may be repeated."""
_VALUE = 128
"""In a longer computation: a value of at most this many nodes may grow by further inlining."""
_KNOWN = "_inlined"
"""The attribute of a reader that caches results of `inline_op`, by identity of the source."""
Read = tuple[str, Indices]
"""A tensor and the indices at which it is read."""


def inline_op(reader: ComputeOp, source: ComputeOp) -> ComputeOp | None:
    """Return `reader` with each load of `source` replaced by the value that is loaded.

    Return None if that would repeat more than MOST_REPEATED nodes.
    """
    known: dict[int, tuple[ComputeOp, ComputeOp | None]] = vars(reader).setdefault(_KNOWN, {})
    if id(source) not in known:  # rules ask for it, and sketches do it again and again
        known[id(source)] = source, _Inlining(reader, source).result()
    return known[id(source)][1]


def is_short_inlined(reader: ComputeOp, source: ComputeOp) -> bool:
    """Return whether inlining `source` into `reader` repeats only short values."""
    is_plain = not reader.reduce_axes and reader.scan is None
    most, before = MOST_WRITTEN_OUT * (2 if is_plain else 1), max(sizes_of(reader))
    most += before if before > most else 0  # such a definition was made by a rule
    names = {buffer.name for buffer in source.buffers}
    reads = {(load.buffer.name, load.indices) for load in reader.loads if load.buffer.name in names}
    repeated = (len(reads) - 1) * sum(sizes_of(source))
    if repeated > max(most, _SHORT):
        return False  # a stencil of another one: it takes long to see that it is too long
    made = inline_op(reader, source)
    if made is None or max(sizes_of(made)) > most:
        return False
    return not made.temporaries or repeated <= _SHORT


def node_count(expr: Expr) -> int:
    """Return the number of nodes of an expression; a shared node counts once for each use."""
    return sum(1 for _ in walk(expr))


def sizes_of(op: ComputeOp) -> list[int]:
    """Return the number of nodes of each temporary and each body of `op`."""
    return [*(temporary.size for temporary in op.temporaries), *map(node_count, op.bodies)]


@dataclass
class _Inlining:
    reader: ComputeOp
    source: ComputeOp

    @cached_property
    def always(self) -> frozenset[Read]:
        """The reads that the reader does for each element, whatever its conditions say."""
        names = {buffer.name for buffer in self.source.buffers}
        before = (
            temporary.value
            for temporary in self.reader.temporaries
            if not names.isdisjoint(load.buffer.name for load in temporary.loads)
        )
        return frozenset[Read]().union(*map(_always_loaded, (*before, *self.reader.bodies)))

    def result(self) -> ComputeOp | None:
        counts = self._count_reads()
        values = dict(zip(self.source.buffers, self.source.bodies, strict=True))
        if self._is_short(counts, {buffer.name: node_count(v) for buffer, v in values.items()}):
            return self._expand_all(counts, values)
        made: list[Temporary] = []
        values_read: dict[Read, Expr] = {}
        room = MOST_REPEATED
        for read, count in counts.items():
            value = self._value(read, count, values, made)
            room -= 0 if value is None else count * node_count(value)
            if value is None or room < 0:
                return None
            values_read[read] = value
        return self._replace_loads(values_read, made)

    def _is_short(self, counts: Mapping[Read, int], sizes: Mapping[str, int]) -> bool:
        """Return whether all values may be repeated, without temporaries."""
        if self.source.temporaries or self.reader.temporaries:
            return False
        grown = sum(count * sizes[name] for (name, _), count in counts.items())
        total = sum(map(node_count, self.reader.bodies)) + grown
        return total <= MOST_WRITTEN_OUT or max(sizes.values()) == 1

    def _count_reads(self) -> dict[Read, int]:
        """Return how often the reader loads each element of the source."""
        names = {buffer.name for buffer in self.source.buffers}
        counts: dict[Read, int] = {}
        for load in self.reader.loads:
            if load.buffer.name in names:
                read = load.buffer.name, load.indices
                counts[read] = counts.get(read, 0) + 1
        return counts

    def _expand_all(
        self, counts: Mapping[Read, int], values: Mapping[Buffer, Expr]
    ) -> ComputeOp | None:
        by_name = {buffer.name: value for buffer, value in values.items()}
        values_read = {read: self._at(by_name[read[0]], read[1]) for read in counts}
        return self._replace_loads(values_read, [])

    def _value(
        self, read: Read, count: int, values: Mapping[Buffer, Expr], made: list[Temporary]
    ) -> Expr | None:
        """Return the value of `read`; temporaries that it needs are appended to `made`."""
        name, indices = read
        buffer = next(buffer for buffer in values if buffer.name == name)
        if read not in self.always or not self._may_come_first(buffer, indices):
            value = expand_temporaries(self.source, values[buffer])
            return None if value is None else self._at(value, indices)
        renamed: dict[str, Buffer] = {}
        for temporary in self.source.temporaries:
            value = self._at(_rename_temporaries(temporary.value, renamed), indices)
            renamed[temporary.buffer.name] = self._add_temporary(temporary.buffer, value, made)
        value = self._at(_rename_temporaries(values[buffer], renamed), indices)
        size = node_count(value)
        is_dear = size > _SHORT or any(map(is_expensive, walk(value)))
        is_long = size > 1 and size + self._longest(read) > _VALUE
        return (
            Load(self._add_temporary(buffer, value, made), ())
            if (count > 1 and is_dear) or is_long
            else value
        )

    def _longest(self, read: Read) -> int:
        """Return the number of nodes of the longest part of the reader that contains `read`."""
        before = [
            temporary.size for temporary in self.reader.temporaries if _has(temporary.loads, read)
        ]
        return max([*before, *(node_count(b) for b in self.reader.bodies if _has(walk(b), read))])

    def _add_temporary(self, like: Buffer, value: Expr, made: list[Temporary]) -> Buffer:
        stem = like.name.split(".in.")[0]
        taken = {temporary.buffer.name for temporary in (*made, *self.reader.temporaries)}
        wanted, number = f"{stem}.in.{self.reader.name}", 0
        while (name := f"{wanted}{number or ''}") in taken:
            number += 1
        buffer = Buffer(name, (), like.dtype, Scope.LOCAL)
        made.append(Temporary(buffer, value))
        return buffer

    def _may_come_first(self, buffer: Buffer, indices: Indices) -> bool:
        """Return whether the value can be computed for each element, needed or not."""
        if self.reader.reduce_axes or self.reader.scan is not None:
            return False
        ranges: Ranges = {axis.name: (0, axis.extent - 1) for axis in self.reader.axes}
        loads = any(isinstance(part, Load) for index in indices for part in walk(index))
        return not loads and is_inside(buffer, indices, ranges)

    def _at(self, value: Expr, indices: Indices) -> Expr:
        names = (axis.name for axis in self.source.axes)
        return substitute(value, dict(zip(names, indices, strict=True)))

    def _replace_loads(self, values: Mapping[Read, Expr], made: list[Temporary]) -> ComputeOp:
        """Return the reader with `values` in place of its loads, and `made` as temporaries."""

        names = {buffer.name for buffer in self.source.buffers}

        def rule(node: Node) -> Node | None:
            if isinstance(node, Load) and node.buffer.name in names:
                return values[node.buffer.name, node.indices]
            return None

        unread = {
            id(temporary.value)
            for temporary in self.reader.temporaries
            if names.isdisjoint(load.buffer.name for load in temporary.loads)
        }
        changed = self.reader.with_bodies(
            lambda body: body if id(body) in unread else rewrite(body, rule)
        )
        return replace(changed, temporaries=(*made, *changed.temporaries))


def _always_loaded(expr: Node) -> frozenset[Read]:
    if isinstance(expr, Select):
        arms = _always_loaded(expr.then) & _always_loaded(expr.otherwise)
        return _always_loaded(expr.condition) | arms
    below = frozenset[Read]().union(*map(_always_loaded, children(expr)))
    return below | {(expr.buffer.name, expr.indices)} if isinstance(expr, Load) else below


def _has(nodes: Iterable[Node], read: Read) -> bool:
    return any(isinstance(n, Load) and (n.buffer.name, n.indices) == read for n in nodes)


def expand_temporaries(op: ComputeOp, value: Expr) -> Expr | None:
    """Return `value` of `op` without temporaries; None if it exceeds MOST_REPEATED nodes."""
    sizes: dict[str, int] = {}
    for temporary in op.temporaries:
        sizes[temporary.buffer.name] = _count_expanded(temporary.value, sizes)
    if _count_expanded(value, sizes) > MOST_REPEATED:
        return None
    return reduce(_with, reversed(op.temporaries), value)


def _with(value: Expr, temporary: Temporary) -> Expr:
    def rule(node: Node) -> Node | None:
        is_load = isinstance(node, Load) and node.buffer.name == temporary.buffer.name
        return temporary.value if is_load else None

    return rewrite(value, rule)


def _count_expanded(value: Expr, sizes: Mapping[str, int]) -> int:
    return sum(
        sizes.get(part.buffer.name, 1) if isinstance(part, Load) else 1 for part in walk(value)
    )


def _rename_temporaries(value: Expr, buffers: Mapping[str, Buffer]) -> Expr:
    def rule(node: Node) -> Node | None:
        new = buffers.get(node.buffer.name) if isinstance(node, Load) else None
        return None if new is None else Load(new, ())

    return rewrite(value, rule) if buffers else value
