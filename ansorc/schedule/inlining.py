"""Put what a stage computes in the place of the loads of it, without repeating what is long.

t[i] = x[i] + x[i]                        u[i] with v = x[i] + x[i] computed once:
u[i] = exp(t[i]) * t[i]         ->        u[i] = exp(v) * v

Short values are written out wherever they are read: compilers find what is alike, and the loops of
reductions stay single statements. What would become long that way is a `Temporary` of its reader,
so that a chain of n stages, each of which reads the one before it twice, gives n values, not 2^n.
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
"""The nodes of a computation that may all be written out."""
MOST_REPEATED = 1 << 16
"""Those of a value that is written out because a schedule by hand asks for it."""
_SHORT = 24
"""In a longer computation: the nodes of a value that may be written out again and again."""
_VALUE = 128
"""And those of a value that may grow further."""
_KNOWN = "_inlined"
"""The attribute of a reader with what was made of it, by the source's identity."""
Place = tuple[str, Indices]
"""A tensor and where it is read."""


def inlined(reader: ComputeOp, source: ComputeOp) -> ComputeOp | None:
    """Return `reader` with the values of `source` in the place of its loads of them.

    None if that would repeat more than MOST_REPEATED nodes.
    """
    known: dict[int, tuple[ComputeOp, ComputeOp | None]] = vars(reader).setdefault(_KNOWN, {})
    if id(source) not in known:  # rules ask for it, and sketches do it again and again
        known[id(source)] = source, _Inlining(reader, source).result()
    return known[id(source)][1]


def is_short_inlined(reader: ComputeOp, source: ComputeOp) -> bool:
    """Return whether nothing long is repeated by inlining `source` in `reader`."""
    most, before = MOST_WRITTEN_OUT * (1 if reader.reduce_axes else 2), max(sizes_of(reader))
    most += before if before > most else 0  # such a definition was made by a rule
    made = inlined(reader, source)
    if made is None or max(sizes_of(made)) > most:
        return False
    if not made.temporaries:
        return True
    names = {buffer.name for buffer in source.buffers}
    places = {
        (load.buffer.name, load.indices) for load in reader.loads if load.buffer.name in names
    }
    return (len(places) - 1) * sum(sizes_of(source)) <= _SHORT


def node_count(expr: Expr) -> int:
    """Return how many nodes an expression has, what is in it twice counted twice."""
    return sum(1 for _ in walk(expr))


def sizes_of(op: ComputeOp) -> list[int]:
    """Return the nodes of each of the parts of `op`."""
    return [*(temporary.size for temporary in op.temporaries), *map(node_count, op.bodies)]


@dataclass
class _Inlining:
    reader: ComputeOp
    source: ComputeOp

    @cached_property
    def always(self) -> frozenset[Place]:
        """What the reader loads for each element, whatever the conditions in it say."""
        names = {buffer.name for buffer in self.source.buffers}
        before = (
            temporary.value
            for temporary in self.reader.temporaries
            if not names.isdisjoint(load.buffer.name for load in temporary.loads)
        )
        return frozenset[Place]().union(*map(_always_loaded, (*before, *self.reader.bodies)))

    def result(self) -> ComputeOp | None:
        places = self._places()
        values = dict(zip(self.source.buffers, self.source.bodies, strict=True))
        if self._is_short(places, {buffer.name: node_count(v) for buffer, v in values.items()}):
            return self._written_out(places, values)
        made: list[Temporary] = []
        found: dict[Place, Expr] = {}
        room = MOST_REPEATED
        for place, count in places.items():
            value = self._value(place, count, values, made)
            room -= 0 if value is None else count * node_count(value)
            if value is None or room < 0:
                return None
            found[place] = value
        return self._replaced(found, made)

    def _is_short(self, places: Mapping[Place, int], sizes: Mapping[str, int]) -> bool:
        """Whether all values may be written out."""
        if self.source.temporaries or self.reader.temporaries:
            return False
        grown = sum(count * sizes[name] for (name, _), count in places.items())
        total = sum(map(node_count, self.reader.bodies)) + grown
        return total <= MOST_WRITTEN_OUT or max(sizes.values()) == 1

    def _places(self) -> dict[Place, int]:
        """Where the reader loads what the source computes, and how often."""
        names = {buffer.name for buffer in self.source.buffers}
        found: dict[Place, int] = {}
        for load in self.reader.loads:
            if load.buffer.name in names:
                place = load.buffer.name, load.indices
                found[place] = found.get(place, 0) + 1
        return found

    def _written_out(
        self, places: Mapping[Place, int], values: Mapping[Buffer, Expr]
    ) -> ComputeOp | None:
        by_name = {buffer.name: value for buffer, value in values.items()}
        found = {place: self._at(by_name[place[0]], place[1]) for place in places}
        return self._replaced(found, [])

    def _value(
        self, place: Place, count: int, values: Mapping[Buffer, Expr], made: list[Temporary]
    ) -> Expr | None:
        """Return what is read at `place`, of which `made` gets what is computed before."""
        name, indices = place
        buffer = next(buffer for buffer in values if buffer.name == name)
        if place not in self.always or not self._may_come_first(buffer, indices):
            value = written_out(self.source, values[buffer])
            return None if value is None else self._at(value, indices)
        renamed: dict[str, Buffer] = {}
        for temporary in self.source.temporaries:
            value = self._at(_renamed(temporary.value, renamed), indices)
            renamed[temporary.buffer.name] = self._held(temporary.buffer, value, made)
        value = self._at(_renamed(values[buffer], renamed), indices)
        size = node_count(value)
        is_dear = size > _SHORT or any(map(is_expensive, walk(value)))
        is_long = size > 1 and size + self._longest(place) > _VALUE
        return (
            Load(self._held(buffer, value, made), ())
            if (count > 1 and is_dear) or is_long
            else value
        )

    def _longest(self, place: Place) -> int:
        """The nodes of the longest part that loads what is at `place`."""
        before = [one.size for one in self.reader.temporaries if _has(one.loads, place)]
        return max([*before, *(node_count(b) for b in self.reader.bodies if _has(walk(b), place))])

    def _held(self, like: Buffer, value: Expr, made: list[Temporary]) -> Buffer:
        stem = like.name.split(".in.")[0]
        taken = {one.buffer.name for one in (*made, *self.reader.temporaries)}
        wanted, number = f"{stem}.in.{self.reader.name}", 0
        while (name := f"{wanted}{number or ''}") in taken:
            number += 1
        buffer = Buffer(name, (), like.dtype, Scope.LOCAL)
        made.append(Temporary(buffer, value))
        return buffer

    def _may_come_first(self, buffer: Buffer, indices: Indices) -> bool:
        """Whether the value exists for each element of the reader, whether it needs it or not."""
        if self.reader.reduce_axes:
            return False
        ranges: Ranges = {axis.name: (0, axis.extent - 1) for axis in self.reader.axes}
        loads = any(isinstance(part, Load) for index in indices for part in walk(index))
        return not loads and is_inside(buffer, indices, ranges)

    def _at(self, value: Expr, indices: Indices) -> Expr:
        names = (axis.name for axis in self.source.axes)
        return substitute(value, dict(zip(names, indices, strict=True)))

    def _replaced(self, found: Mapping[Place, Expr], made: list[Temporary]) -> ComputeOp:
        """Return the reader with the values `found`, after `made`."""

        names = {buffer.name for buffer in self.source.buffers}

        def rule(node: Node) -> Node | None:
            if isinstance(node, Load) and node.buffer.name in names:
                return found[node.buffer.name, node.indices]
            return None

        unread = {
            id(one.value)
            for one in self.reader.temporaries
            if names.isdisjoint(load.buffer.name for load in one.loads)
        }
        changed = self.reader.with_bodies(
            lambda body: body if id(body) in unread else rewrite(body, rule)
        )
        return replace(changed, temporaries=(*made, *changed.temporaries))


def _always_loaded(expr: Node) -> frozenset[Place]:
    if isinstance(expr, Select):
        arms = _always_loaded(expr.then) & _always_loaded(expr.otherwise)
        return _always_loaded(expr.condition) | arms
    below = frozenset[Place]().union(*map(_always_loaded, children(expr)))
    return below | {(expr.buffer.name, expr.indices)} if isinstance(expr, Load) else below


def _has(nodes: Iterable[Node], place: Place) -> bool:
    return any(isinstance(n, Load) and (n.buffer.name, n.indices) == place for n in nodes)


def written_out(op: ComputeOp, value: Expr) -> Expr | None:
    """Return `value`, of `op`, without temporaries; None if that is longer than MOST_REPEATED."""
    sizes: dict[str, int] = {}
    for temporary in op.temporaries:
        sizes[temporary.buffer.name] = _written_size(temporary.value, sizes)
    if _written_size(value, sizes) > MOST_REPEATED:
        return None
    return reduce(_with, reversed(op.temporaries), value)


def _with(value: Expr, temporary: Temporary) -> Expr:
    def rule(node: Node) -> Node | None:
        is_load = isinstance(node, Load) and node.buffer.name == temporary.buffer.name
        return temporary.value if is_load else None

    return rewrite(value, rule)


def _written_size(value: Expr, sizes: Mapping[str, int]) -> int:
    return sum(
        sizes.get(part.buffer.name, 1) if isinstance(part, Load) else 1 for part in walk(value)
    )


def _renamed(value: Expr, buffers: Mapping[str, Buffer]) -> Expr:
    def rule(node: Node) -> Node | None:
        new = buffers.get(node.buffer.name) if isinstance(node, Load) else None
        return None if new is None else Load(new, ())

    return rewrite(value, rule) if buffers else value
