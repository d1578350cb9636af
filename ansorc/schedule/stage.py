"""One tensor's computation inside a State: its iterators, and how they make up its axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.extent import Extent, multiply


class IteratorKind(Enum):
    """Which axes an iterator walks over."""

    SPACE = "space"
    REDUCE = "reduce"


class Mark(Enum):
    """How the loop of an iterator is to be run."""

    NONE = "for"
    PARALLEL = "parallel"
    VECTORIZE = "vectorize"
    UNROLL = "unroll"
    BIND = "bind"
    TENSORIZE = "tensorize"
    MATRIX = "matrix"


@dataclass(frozen=True, eq=False)
class Iterator:
    """One loop of a stage before lowering, running over 0 … extent - 1."""

    name: str
    """For people and records: nothing is read off it."""
    extent: Extent
    kind: IteratorKind
    axis: str = ""
    """The axis that it walks over, whole or in part; empty if it was fused of several loops."""
    level: int = 0
    """Which part of the split that made it, outermost 0; 0 if none did."""
    mark: Mark = Mark.NONE
    thread: str = ""
    """The GPU thread or block index of a BIND mark."""
    chunk: int = 0
    """Iterations that a thread of a PARALLEL mark takes at a time; 0: equal shares for all."""
    function: str = ""
    """The dot product of a TENSORIZE mark, or what the matrix units of a MATRIX mark multiply."""


@dataclass(frozen=True, eq=False)
class SplitRelation:
    """`parent = Σ child * (product of the children after it)`, children outermost first."""

    parent: Iterator
    children: tuple[Iterator, ...]
    is_exact: bool
    """Whether the children's extents multiply to the parent's, so that no guard is needed."""


@dataclass(frozen=True, eq=False)
class FuseRelation:
    """`child` runs over all combinations of `parents`, the last one fastest."""

    parents: tuple[Iterator, ...]
    child: Iterator


@dataclass(frozen=True)
class Root:
    """The stage is computed on its own, before its readers."""


@dataclass(frozen=True)
class Inlined:
    """The stage has no loops: its readers compute its value where they need it."""


@dataclass(frozen=True)
class At:
    """The stage is computed inside a loop of another stage, for the region needed there."""

    stage: str
    iterator: str


Attach = Root | Inlined | At


@dataclass(frozen=True, eq=False)
class Part:
    """A share of an axis that an iterator moves: `axis += stride` for each of `extent` steps."""

    axis: str
    stride: Extent
    extent: Extent
    is_whole: bool = True
    """False for an iterator split from a fused one: its steps do not move the axis evenly."""


@dataclass(frozen=True)
class Alignment:
    """The steps of `axis` lie `n * factor + offset` elements apart in memory, for some n."""

    axis: str
    factor: int
    offset: int


class Making(Enum):
    """What made a stage."""

    DEFINITION = "definition"
    CACHE_WRITE = "cache write"
    CACHE_READ = "cache read"
    RFACTOR = "rfactor"
    REDEFINITION = "redefinition"


@dataclass(frozen=True)
class Origin:
    """Where a stage comes from."""

    node: str
    """The computation of the DAG that it is a part of; a copy is a part of its first reader's."""
    making: Making = Making.DEFINITION
    source: str = ""
    """The stage that it was made of, or the tensor that a cache read copies."""
    axis: int = -1
    """The dimension that an rfactor asked for: 0 the first, -1 the last."""


@dataclass(frozen=True, eq=False)
class Stage:
    """The loops that compute one tensor."""

    op: ComputeOp
    origin: Origin
    iterators: tuple[Iterator, ...]
    relations: tuple[SplitRelation | FuseRelation, ...] = ()
    attach: Attach = Root()
    region: tuple[Extent, ...] = ()
    """The extent computed along each space axis: the whole tensor, or what the place needs."""
    pragmas: tuple[tuple[str, int], ...] = ()
    is_output: bool = False
    """Whether a tensor that it computes is one."""
    scope: str = ""
    """The memory scope that a cache step asked for; empty for the default of its place."""
    alignments: tuple[Alignment, ...] = ()
    """At most one for each axis."""
    panel: str = ""
    """The last iterator of a split axis: the tensor is held in panels of its extent."""

    @property
    def name(self) -> str:
        """The name of the tensor that the stage computes; of several, the first."""
        return self.op.name

    @property
    def is_inlined(self) -> bool:
        """Whether the stage has no loops of its own."""
        return isinstance(self.attach, Inlined)

    @property
    def is_shaped(self) -> bool:
        """Whether a step has divided, joined or marked its loops, or laid out its memory."""
        is_marked = any(iterator.mark is not Mark.NONE for iterator in self.iterators)
        return bool(self.relations or self.alignments or self.panel) or is_marked

    @property
    def is_untouched(self) -> bool:
        """Whether no step has changed the loops of the stage."""
        return not self.is_shaped and isinstance(self.attach, Root)

    def changed_loops(self) -> tuple[Iterator, ...]:
        """Return the iterators that a step has made or marked."""
        axes = {axis.name for axis in (*self.op.axes, *self.op.reduce_axes)}
        return tuple(
            iterator
            for iterator in self.iterators
            if iterator.mark is not Mark.NONE or iterator.name not in axes
        )

    def position(self, iterator: str) -> int | None:
        """Return the place of `iterator` in the loop order, outermost 0; None if it has none."""
        for place, candidate in enumerate(self.iterators):
            if candidate.name == iterator:
                return place
        return None

    def loop(self, axis: str, level: int = 0) -> str:
        """Return the name of the iterator that is part `level` of `axis`, or all of it (0).

        Raise KeyError if there is none.
        """
        for iterator in self.iterators:
            if iterator.axis == axis and iterator.level == level:
                return iterator.name
        raise KeyError(axis, level)

    def with_iterator(self, place: int, *new: Iterator) -> Stage:
        """Return the stage with the iterator at `place` replaced by `new`, in order."""
        iterators = (*self.iterators[:place], *new, *self.iterators[place + 1 :])
        return replace(self, iterators=iterators)

    @cached_property
    def parts(self) -> Mapping[str, tuple[Part, ...]]:
        """For each iterator now in the loop order, the shares of the axes it moves."""
        found: dict[str, tuple[Part, ...]] = {
            axis.name: (Part(axis.name, 1, extent),)
            for axis, extent in zip(self.op.axes, self.region, strict=True)
        }
        found |= {a.name: (Part(a.name, 1, a.extent),) for a in self.op.reduce_axes}
        for relation in self.relations:
            if isinstance(relation, FuseRelation):
                shares = [part for parent in relation.parents for part in found.pop(parent.name)]
                found[relation.child.name] = tuple(shares)
            else:
                found |= _split_parts(found.pop(relation.parent.name), relation)
        return found


def initial_stage(op: ComputeOp, origin: Origin, *, is_output: bool) -> Stage:
    """Return `op` as a root stage: one loop for each axis, space axes outside."""
    return Stage(
        op,
        origin,
        fresh_iterators(op, tuple(axis.extent for axis in op.axes)),
        region=tuple(axis.extent for axis in op.axes),
        is_output=is_output,
    )


def fresh_iterators(op: ComputeOp, region: tuple[Extent, ...]) -> tuple[Iterator, ...]:
    """Return one iterator for each axis of `op`, the space axes over `region`."""
    space = tuple(
        Iterator(axis.name, extent, IteratorKind.SPACE, axis.name)
        for axis, extent in zip(op.axes, region, strict=True)
    )
    reduce = (Iterator(a.name, a.extent, IteratorKind.REDUCE, a.name) for a in op.reduce_axes)
    return (*space, *reduce)


def _split_parts(parts: tuple[Part, ...], relation: SplitRelation) -> dict[str, tuple[Part, ...]]:
    result: dict[str, tuple[Part, ...]] = {}
    for place, child in enumerate(relation.children):
        if len(parts) == 1 and parts[0].is_whole:
            inner = multiply(later.extent for later in relation.children[place + 1 :])
            share = Part(parts[0].axis, multiply((parts[0].stride, inner)), child.extent)
            result[child.name] = (share,)
        else:
            result[child.name] = tuple(replace(part, is_whole=False) for part in parts)
    return result
