"""One `compute` as an immutable value: its axes, its reduction and its body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from math import prod
from typing import cast

from ansorc.ir.arith.identity import identity
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import MARK, Size, SizeLike
from ansorc.ir.dtype import DType
from ansorc.ir.expr import BinaryOp, Checked, Const, Expr, Indices, Load, OwnCall, Var, binary
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.substitute import free_vars, substitute
from ansorc.lang.reducer import Reducer


@dataclass(frozen=True)
class Axis:
    """One dimension of an iteration space: `name` runs over 0 … extent - 1.

    An axis with a range that is data is ragged: it runs over begin … end - 1, all below the extent.
    """

    name: str
    extent: int
    begin: Expr | None = None
    end: Expr | None = None
    size: Size | None = field(default=None, repr=False)
    """The extent that the caller gives; `extent` is then the most that it may be."""

    @property
    def length(self) -> SizeLike:
        """The extent: a number, or a size that follows from dimensions."""
        return self.extent if self.size is None else self.size

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """The begin and the end of a ragged axis; nothing for any other."""
        return () if self.begin is None or self.end is None else (self.begin, self.end)

    def with_bounds(self, change: Callable[[Expr], Expr]) -> Axis:
        """Return the axis with its bounds changed; itself if it has none."""
        if not self.bounds:
            return self
        begin, end = map(change, self.bounds)
        return Axis(self.name, self.extent, begin, end)


def sizes_of(axes: Sequence[Axis]) -> tuple[Size | None, ...]:
    """Return the `Buffer.sizes` of a tensor with these axes."""
    sizes = tuple(axis.size for axis in axes)
    return sizes if any(size is not None for size in sizes) else ()


class Combiner(Enum):
    """The operation that combines the terms of a reduction."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    ANY = "any"
    ALL = "all"
    """ANY and ALL combine bools, the others numbers."""

    @property
    def is_logical(self) -> bool:
        """Whether it combines bools."""
        return self in (Combiner.ANY, Combiner.ALL)

    def identity(self, dtype: DType) -> Const:
        """Return the neutral value: 0 for a sum, the lowest value of `dtype` for max."""
        return identity(_OPERATORS[self], dtype)

    def combine(self, left: Expr, right: Expr) -> Expr:
        """Return the expression that adds the term `right` to the result `left`."""
        return binary(_OPERATORS[self], left, right)


_OPERATORS = {
    Combiner.SUM: BinaryOp.ADD,
    Combiner.MAX: BinaryOp.MAX,
    Combiner.MIN: BinaryOp.MIN,
    Combiner.PROD: BinaryOp.MUL,
    Combiner.ANY: BinaryOp.OR,
    Combiner.ALL: BinaryOp.AND,
}


@dataclass(frozen=True)
class Output:
    """One more tensor that a computation fills, and its elements."""

    buffer: Buffer
    body: Expr


@dataclass(frozen=True)
class Temporary:
    """A value that is computed once for each element; later parts load it as `buffer[]`."""

    buffer: Buffer
    value: Expr

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """The loads of the value, including loads of other temporaries."""
        return tuple(node for node in walk(self.value) if isinstance(node, Load))

    @cached_property
    def size(self) -> int:
        """The number of nodes of the value."""
        return sum(1 for _ in walk(self.value))

    def with_value(self, change: Callable[[Expr], Expr]) -> Temporary:
        """Return the temporary with `change` applied to its value; itself if nothing changes."""
        value = change(self.value)
        return self if value is self.value else Temporary(self.buffer, value)


@dataclass(frozen=True)
class StateBuffer(Buffer):
    """A tensor of a scan as its own bodies load it; no other computation may load from it."""

    output: int = 0
    """The number of the tensor among those that the scan computes."""


@dataclass(frozen=True)
class StepSum:
    """A reduction in the step of a scan: a value of each element, which the bodies load as
    `buffer[]`.

    The terms `body`, over `axes` of its own, may load states of the step before.
    """

    buffer: Buffer
    axes: tuple[Axis, ...]
    combiner: Combiner
    body: Expr


@dataclass(frozen=True)
class Scan:
    """The axis of a scan: elements along `axis` are computed one after the other.

    The bodies load elements of the tensors that they compute, as `StateBuffer`s, one step before:
    at `axis - 1`, or at `axis + 1` if the steps go from the end (`is_reversed`). In front of the
    first element are the values `inits`, which do not depend on `axis`. `sums` are computed in each
    step before the bodies.
    """

    axis: str
    inits: tuple[Expr, ...]
    is_reversed: bool = False
    sums: tuple[StepSum, ...] = field(default=(), repr=False)

    @property
    def before(self) -> Expr:
        """The place along the axis of the step before."""
        var = Var(self.axis)
        return var + 1 if self.is_reversed else var - 1


@dataclass(frozen=True)
class Place:
    """Where a term goes along one axis of the results: to the number `index`, which may be data."""

    axis: str
    index: Expr


@dataclass(frozen=True)
class ComputeOp:
    """`buffer[axes] = body`, or the terms `body` combined over `reduce_axes` by `combiner`.

    In `body` an axis is `Var(axis.name)`, an int64. `combiner` is None exactly if there are no
    reduce axes, and a Reducer if tuples are combined. `hints` are (name, value) pairs for the
    search. `more` are further outputs, computed for the same axes at the same time; the
    computation has the name of its first. `temporaries` come before the bodies, in their order;
    `let` and schedules make them, of computations that are neither reductions nor scans.

    With `places`, terms are scattered along the axes that these name: each term is combined with
    the element at its places, and elements that no term goes to keep the identity. Neither body
    nor places depend on those axes.

    `scan` is there if the elements along an axis are computed one from the other (`ac.scan`); what
    the bodies load of their own tensors is none of `loads`.

    With `overwrites`, each of `buffers` is an input with some elements overwritten (`ac.update`):
    these are the loads of the old elements, for each of `buffers`, all at the same place. The axes
    are those of the part that is overwritten; all other elements stay as they are.
    """

    name: str
    buffer: Buffer
    axes: tuple[Axis, ...]
    reduce_axes: tuple[Axis, ...]
    combiner: Combiner | Reducer | None
    body: Expr
    hints: tuple[tuple[str, str], ...] = ()
    more: tuple[Output, ...] = ()
    temporaries: tuple[Temporary, ...] = ()
    places: tuple[Place, ...] = ()
    scan: Scan | None = None
    overwrites: tuple[Load, ...] = field(default=(), repr=False)

    @property
    def c_call(self) -> OwnCall | None:
        """The call of a C function that fills the whole tensor; None if there is no such function.

        Its operands are the first elements of the tensors whose arrays it gets.
        """
        body = self.body
        return body if isinstance(body, OwnCall) and body.function.c else None

    @cached_property
    def loop_axes(self) -> tuple[Axis, ...]:
        """The axes of the results that loops run over: not those that terms are scattered along."""
        if self.c_call is not None:
            return ()
        scattered = {place.axis for place in self.places}
        return tuple(axis for axis in self.axes if axis.name not in scattered)

    @cached_property
    def ragged_axis(self) -> Axis | None:
        """The reduce axis whose range is data, or None."""
        return next((axis for axis in self.reduce_axes if axis.bounds), None)

    def count_terms(self, axis: Axis) -> int:
        """Return the extent of an axis, or about how many values one takes whose range is data.

        The ranges of the rows are then taken to share the extent.
        """
        names = {name for bound in axis.bounds for name in free_vars(bound)}
        rows = prod(other.extent for other in self.axes if other.name in names)
        return max(1, axis.extent // rows)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All tensors that are computed, `buffer` first."""
        return (self.buffer, *(output.buffer for output in self.more))

    @property
    def bodies(self) -> tuple[Expr, ...]:
        """The elements of `buffers`."""
        return (self.body, *(output.body for output in self.more))

    @property
    def parts(self) -> tuple[Expr, ...]:
        """All values computed for an element: the temporaries, then the bodies."""
        return (*(temporary.value for temporary in self.temporaries), *self.bodies)

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """All that is computed: what is in `outer`, then the parts."""
        return (*self.outer, *self.parts)

    @property
    def outer(self) -> tuple[Expr, ...]:
        """The ranges of axes that are data, the places of a term, the overwritten elements, and the
        terms of the reductions in the steps of a scan."""
        bounds = (bound for axis in self.reduce_axes for bound in axis.bounds)
        places = (place.index for place in self.places)
        return (*bounds, *places, *self.overwrites, *(each.body for each in self.step_sums))

    @property
    def step_sums(self) -> tuple[StepSum, ...]:
        """The reductions in the steps of a scan."""
        return () if self.scan is None else self.scan.sums

    @property
    def result_indices(self) -> tuple[Expr, ...]:
        """The place of a result in its tensor: the axes, or that of what is overwritten."""
        if self.overwrites:
            return self.overwrites[0].indices
        return tuple(Var(axis.name) for axis in self.axes)

    @cached_property
    def part(self) -> ComputeOp:
        """The computation of what overwrites elements of inputs, as tensors of its own."""
        shape = tuple(axis.extent for axis in self.axes)
        buffers = [replace(buffer, shape=shape) for buffer in self.buffers]
        return replace(self.with_buffers(buffers), overwrites=())

    @property
    def is_partial(self) -> bool:
        """Whether it overwrites a part of inputs."""
        return bool(self.overwrites) and self.result_indices != tuple(
            Var(axis.name) for axis in self.axes
        )

    @property
    def inits(self) -> tuple[Expr, ...]:
        """The values in front of a scan, for each of `buffers`; none if it is no scan."""
        return () if self.scan is None else self.scan.inits

    @property
    def scan_axis(self) -> str:
        """The axis along which a scan goes, or an empty text."""
        return "" if self.scan is None else self.scan.axis

    @cached_property
    def size_variables(self) -> frozenset[str]:
        """The variables of dimensions that its values and places use."""
        names = (node.name for node in self.nodes() if isinstance(node, Var))
        return frozenset(name for name in names if name.startswith(MARK))

    def nodes(self) -> Iterator[Node]:
        """Yield every node of what is in `outer`, of the parts and of the front of a scan."""
        for expr in (*self.expressions, *self.inits):
            yield from walk(expr)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """The loads of other tensors by all that is computed, in order."""
        exprs = (*self.outer, *self.bodies, *self.inits)
        nodes = (node for expr in exprs for node in walk(expr))
        loads = [node for node in nodes if isinstance(node, Load)]
        if self.scan is not None:
            held = {each.buffer.name for each in self.step_sums}
            others = (load for load in loads if not isinstance(load.buffer, StateBuffer))
            return tuple(load for load in others if load.buffer.name not in held)
        if not self.temporaries:
            return tuple(loads)
        held = {temporary.buffer.name for temporary in self.temporaries}
        before = [load for temporary in self.temporaries for load in temporary.loads]
        return tuple(load for load in (*before, *loads) if load.buffer.name not in held)

    @cached_property
    def indices(self) -> dict[str, tuple[tuple[Expr, ...], ...]]:
        """The distinct indices along each dimension, for each tensor that the parts read."""
        indices: dict[str, list[dict[Expr, None]]] = {}
        for load in self.loads:
            columns = indices.setdefault(load.buffer.name, [{} for _ in load.indices])
            for column, index in zip(columns, load.indices, strict=True):
                column[index] = None
        return {name: tuple(map(tuple, columns)) for name, columns in indices.items()}

    @cached_property
    def accesses(self) -> Mapping[str, tuple[Indices, ...]]:
        """The distinct places of the loads of each tensor that the parts read."""
        places: dict[str, dict[Indices, None]] = {}
        for load in self.loads:
            places.setdefault(load.buffer.name, {})[load.indices] = None
        return {name: tuple(accesses) for name, accesses in places.items()}

    @cached_property
    def reads(self) -> tuple[Buffer, ...]:
        """The tensors that the parts read, each once, in order of the first read."""
        return tuple({load.buffer.name: load.buffer for load in self.loads}.values())

    @property
    def identities(self) -> tuple[Const, ...]:
        """The initial value of a reduction, for each of `buffers`."""
        if isinstance(self.combiner, Reducer):
            return self.combiner.identities
        return () if self.combiner is None else (self.combiner.identity(self.buffer.dtype),)

    def combine(self, left: Sequence[Expr], right: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the results `left` of a reduction so far with the terms `right` added."""
        if isinstance(self.combiner, Reducer):
            return self.combiner.combine(left, right)
        assert self.combiner is not None
        return (self.combiner.combine(left[0], right[0]),)

    @cached_property
    def plain(self) -> ComputeOp:
        """The computation without its checks; itself if it has none.

        A check that reads a tensor which nothing else reads is kept.
        """
        if not any(isinstance(node, Checked) for node in self.nodes()):
            return self
        return self.with_bodies(lambda body: rewrite(body, _drop_check))

    def with_bodies(self, change: Callable[[Expr], Expr]) -> ComputeOp:
        """Return the computation with each of its parts, places and ranges changed."""
        more = tuple(replace(output, body=change(output.body)) for output in self.more)
        before = tuple(temporary.with_value(change) for temporary in self.temporaries)
        places = tuple(Place(place.axis, change(place.index)) for place in self.places)
        axes = tuple(axis.with_bounds(change) for axis in self.reduce_axes)
        overwrites = tuple(cast(Load, change(load)) for load in self.overwrites)
        scan = self.scan
        if scan is not None:
            sums = tuple(replace(each, body=change(each.body)) for each in scan.sums)
            scan = replace(scan, inits=tuple(map(change, scan.inits)), sums=sums)
        return replace(
            self, body=change(self.body), more=more, temporaries=before, places=places,
            reduce_axes=axes, scan=scan, overwrites=overwrites,
        )  # fmt: skip

    def reading(self, old: Buffer, new: Buffer) -> ComputeOp:
        """Return the computation with each read of `old` replaced by a read of `new`.

        What it overwrites stays.
        """

        def rule(node: Node) -> Node | None:
            if isinstance(node, Load) and node.buffer.name == old.name:
                return Load(new, node.indices)
            return None

        changed = self.with_bodies(lambda body: rewrite(body, rule))
        kept = zip(self.overwrites, changed.overwrites, strict=True)
        return replace(changed, overwrites=tuple(Load(o.buffer, n.indices) for o, n in kept))

    def with_buffers(self, buffers: Sequence[Buffer]) -> ComputeOp:
        """Return the computation of `buffers` instead, with the name of the first."""
        pairs = zip(buffers[1:], self.more, strict=True)
        more = tuple(replace(output, buffer=buffer) for buffer, output in pairs)
        renamed = replace(self, name=buffers[0].name, buffer=buffers[0], more=more)
        return renamed if self.scan is None else renamed.with_states(renamed.state_loads)

    @property
    def state_loads(self) -> tuple[Load, ...]:
        """The loads of the results of a scan at its own place, one step before."""
        assert self.scan is not None
        before = self.scan.before
        places = tuple(before if a.name == self.scan.axis else Var(a.name) for a in self.axes)
        return tuple(
            Load(StateBuffer(buffer.name, buffer.shape, buffer.dtype, output=output), places)
            for output, buffer in enumerate(self.buffers)
        )

    @cached_property
    def mixed_axes(self) -> frozenset[str]:
        """The axes of a scan along which a step reads states of other places than its own."""
        loads = (node for node in self.nodes() if isinstance(node, Load))
        return frozenset(
            axis.name
            for load in loads
            if isinstance(load.buffer, StateBuffer)
            for axis, index in zip(self.axes, load.indices, strict=True)
            if axis.name != self.scan_axis and index != Var(axis.name)
        )

    def with_states(self, states: Sequence[Expr]) -> ComputeOp:
        """Return the scan with `states` in the place of its results one step before.

        They are given for its own place; other places are put in for the axes.
        """
        own = self.state_loads

        def rule(node: Node) -> Node | None:
            if not isinstance(node, Load) or not isinstance(node.buffer, StateBuffer):
                return None
            state = states[node.buffer.output]
            if node.indices == own[node.buffer.output].indices:
                return state
            pairs = zip(self.axes, node.indices, strict=True)
            places = {axis.name: i for axis, i in pairs if axis.name != self.scan_axis}
            return substitute(state, places)

        return self.with_bodies(lambda body: rewrite(body, rule))


def c_inputs(op: ComputeOp) -> tuple[Buffer, ...]:
    """Return the tensors whose arrays the C function of a computation gets, in its order."""
    assert op.c_call is not None
    return tuple(arg.buffer for arg in op.c_call.args if isinstance(arg, Load))


def _drop_check(node: Node) -> Node | None:
    """Return the value of a check that reads no other tensors than the value does."""
    if not isinstance(node, Checked):
        return None
    told = {part.buffer.name for part in walk(node) if isinstance(part, Load)}
    read = {part.buffer.name for part in walk(node.value) if isinstance(part, Load)}
    return node.value if told == read else None
