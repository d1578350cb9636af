"""One tensor's computation inside a State: its iterators, and how they make up its axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from ansorc.ir.dim import Size, SizeLike
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.schedule.extent import Extent, multiply


class AxisKind(Enum):
    """The kind of axes that a loop runs over."""

    SPACE = "space"
    REDUCE = "reduce"
    SCAN = "scan"
    """Each step needs the one before."""


class Mark(Enum):
    """How a loop is to be run."""

    NONE = "for"
    PARALLEL = "parallel"
    VECTORIZE = "vectorize"
    UNROLL = "unroll"
    BIND = "bind"
    TENSORIZE = "tensorize"
    MATRIX = "matrix"


@dataclass(frozen=True, eq=False)
class Loop:
    """One loop of a stage before lowering, over 0 … extent - 1. Steps call it an iterator."""

    name: str
    """For people and records: no code parses it."""
    extent: Extent
    kind: AxisKind
    axis: str = ""
    """The axis that it runs over, whole or in part; empty if it was fused from several loops."""
    level: int = 0
    """Its position among the parts of the split that made it, outermost 0; 0 if it is whole."""
    mark: Mark = Mark.NONE
    thread: str = ""
    """The GPU thread or block index of a BIND mark."""
    chunk: int = 0
    """Iterations that a thread of a PARALLEL loop takes at a time; 0: equal shares for all."""
    function: str = ""
    """The dot product of a TENSORIZE mark, or the matrix-unit function of a MATRIX mark."""
    size: Size | None = None
    """The extent that the caller gives; `extent` is then the most that it may be."""

    @property
    def length(self) -> SizeLike:
        """The extent of one program: a number, or a size; raise ValueError for a hole."""
        if self.size is not None:
            return self.size
        if not isinstance(self.extent, int):
            raise ValueError("the state is a sketch or a population, not one program")
        return self.extent


@dataclass(frozen=True, eq=False)
class SplitRelation:
    """`parent = Σ child * (product of the children after it)`, children outermost first."""

    parent: Loop
    children: tuple[Loop, ...]
    is_exact: bool
    """Whether the children's extents multiply to the parent's, so that no guard is needed."""


@dataclass(frozen=True, eq=False)
class FuseRelation:
    """`child` runs over all combinations of `parents`, the last one fastest."""

    parents: tuple[Loop, ...]
    child: Loop


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
    """Steps of `axis` are `n * factor + offset` elements apart in memory, for some n."""

    axis: str
    factor: int
    offset: int


@dataclass(frozen=True, eq=False)
class Ring:
    """How a stage that is computed in a loop keeps what earlier iterations of the loop made.

    Each iteration computes only what is new along `axis`. Before the first one, `warm_up`
    iterations compute what it needs besides.
    """

    axis: str
    length: Extent
    """The elements that are held along the axis, a power of two: indices are taken modulo it."""
    warm_up: Extent


class Making(Enum):
    """The origin of a stage: its definition, or the step that made it."""

    DEFINITION = "definition"
    CACHE_WRITE = "cache write"
    CACHE_READ = "cache read"
    RFACTOR = "rfactor"
    REDEFINITION = "redefinition"


@dataclass(frozen=True)
class Origin:
    """The computation and the step that a stage comes from."""

    node: str
    """The computation of the DAG that it is a part of; a copy is a part of its first reader's."""
    making: Making = Making.DEFINITION
    source: str = ""
    """The stage that it was derived from, or the tensor that a cache read copies."""
    axis: int = -1
    """The dimension that an rfactor asked for: 0 the first, -1 the last."""


@dataclass(frozen=True, eq=False)
class Stage:
    """The loops that compute one tensor."""

    op: ComputeOp
    origin: Origin
    iterators: tuple[Loop, ...]
    relations: tuple[SplitRelation | FuseRelation, ...] = ()
    attach: Attach = Root()
    region: tuple[Extent, ...] = ()
    """The extent computed along each space axis: of the whole tensor, or of the region needed."""
    pragmas: tuple[tuple[str, int], ...] = ()
    is_output: bool = False
    """Whether a tensor that it computes is an output of the DAG."""
    scope: str = ""
    """The memory scope that a cache step asked for; empty for the default."""
    alignments: tuple[Alignment, ...] = ()
    """At most one for each axis."""
    panel: str = ""
    """The last iterator of a split axis: the tensor is stored in panels of its extent."""
    ring: Ring | None = None
    """How it keeps what earlier iterations of the loop around it made; None: it does not."""
    initial: str = ""
    """The iterator before whose loop a reduction stores its identities; empty: it is chosen."""

    @property
    def name(self) -> str:
        """The name of the tensor that the stage computes; of several, the first."""
        return self.op.name

    @property
    def is_inlined(self) -> bool:
        """Whether the stage has no loops of its own."""
        return isinstance(self.attach, Inlined)

    def is_ragged(self, iterator: Loop) -> bool:
        """Return whether an iterator runs over a range that is data."""
        ragged = self.op.ragged_axis
        return ragged is not None and iterator.name == ragged.name

    def loops_in_range(self) -> tuple[Loop, ...]:
        """Return the iterators inside a loop over a range that is data which it follows.

        There must be none.
        """
        ragged = self.op.ragged_axis
        position = None if ragged is None else self.position(ragged.name)
        if ragged is None or position is None:
            return ()
        rows = {name for bound in ragged.bounds for name in free_vars(bound)}
        return tuple(
            iterator
            for iterator in self.iterators[position + 1 :]
            if any(part.axis in rows for part in self.parts[iterator.name])
        )

    @property
    def is_shaped(self) -> bool:
        """Whether a step has divided, joined or marked its loops, or laid out its memory."""
        is_marked = any(iterator.mark is not Mark.NONE for iterator in self.iterators)
        return bool(self.relations or self.alignments or self.panel or self.initial) or is_marked

    @property
    def is_untouched(self) -> bool:
        """Whether no step has changed the loops of the stage."""
        return not self.is_shaped and isinstance(self.attach, Root)

    def changed_loops(self) -> tuple[Loop, ...]:
        """Return the iterators that a step has made or marked."""
        axes = {axis.name for axis in (*self.op.axes, *self.op.reduce_axes)}
        return tuple(
            iterator
            for iterator in self.iterators
            if iterator.mark is not Mark.NONE
            or iterator.name not in axes
            or iterator.name == self.initial
        )

    def position(self, iterator: str) -> int | None:
        """Return the position of `iterator` in the loop order, outermost 0, or None."""
        for position, candidate in enumerate(self.iterators):
            if candidate.name == iterator:
                return position
        return None

    def loop(self, axis: str, level: int = 0) -> str:
        """Return the name of the iterator that is part `level` of `axis`, or all of it (0).

        Raise KeyError if there is none.
        """
        for iterator in self.iterators:
            if iterator.axis == axis and iterator.level == level:
                return iterator.name
        raise KeyError(axis, level)

    def with_iterator(self, position: int, *new: Loop) -> Stage:
        """Return the stage with the iterator at `position` replaced by `new`, in order."""
        iterators = (*self.iterators[:position], *new, *self.iterators[position + 1 :])
        is_before = self.initial == self.iterators[position].name
        initial = new[0].name if is_before else self.initial
        return replace(self, iterators=iterators, initial=initial)

    def size_of(self, axis: Axis) -> Size | None:
        """Return the size that is computed along `axis`; None if the extent is known."""
        return size_within(axis, self.region[self.op.axes.index(axis)])

    @cached_property
    def parts(self) -> Mapping[str, tuple[Part, ...]]:
        """The shares of the axes that each iterator of the loop order moves."""
        parts: dict[str, tuple[Part, ...]] = {
            axis.name: (Part(axis.name, 1, extent),)
            for axis, extent in zip(self.op.axes, self.region, strict=True)
        }
        parts |= {a.name: (Part(a.name, 1, a.extent),) for a in self.op.reduce_axes}
        for relation in self.relations:
            if isinstance(relation, FuseRelation):
                shares = [part for parent in relation.parents for part in parts.pop(parent.name)]
                parts[relation.child.name] = tuple(shares)
            else:
                parts |= _split_parts(parts.pop(relation.parent.name), relation)
        return parts


def initial_stage(op: ComputeOp, origin: Origin, *, is_output: bool) -> Stage:
    """Return `op` as a root stage: one loop for each axis, space axes outside."""
    return Stage(
        op,
        origin,
        fresh_iterators(op, tuple(axis.extent for axis in op.axes)),
        region=tuple(axis.extent for axis in op.axes),
        is_output=is_output,
    )


def fresh_iterators(op: ComputeOp, region: tuple[Extent, ...]) -> tuple[Loop, ...]:
    """Return one iterator for each axis of `op` that loops run over.

    Those of its tensor run over `region`, but not along axes along which terms are scattered.
    """
    space = [
        Loop(axis.name, extent, _kind(op, axis), axis.name, size=size_within(axis, extent))
        for axis, extent in zip(op.axes, region, strict=True)
        if axis in op.loop_axes
    ]
    if op.scan is not None and op.mixed_axes:  # a step needs the states of all of them
        space.sort(key=lambda loop: loop.axis in op.mixed_axes)
    reduce = (Loop(a.name, a.extent, AxisKind.REDUCE, a.name, size=a.size) for a in op.reduce_axes)
    return (*space, *reduce)


def size_within(axis: Axis, extent: Extent) -> Size | None:
    """Return the size that `extent` of `axis` is; None if it is a part, whose extent is known."""
    if axis.size is None or not isinstance(extent, int) or extent < axis.extent:
        return None
    return axis.size


def _kind(op: ComputeOp, axis: Axis) -> AxisKind:
    return AxisKind.SCAN if axis.name == op.scan_axis else AxisKind.SPACE


def _split_parts(parts: tuple[Part, ...], relation: SplitRelation) -> dict[str, tuple[Part, ...]]:
    result: dict[str, tuple[Part, ...]] = {}
    for position, child in enumerate(relation.children):
        if len(parts) == 1 and parts[0].is_whole:
            inner = multiply(later.extent for later in relation.children[position + 1 :])
            share = Part(parts[0].axis, multiply((parts[0].stride, inner)), child.extent)
            result[child.name] = (share,)
        else:
            result[child.name] = tuple(replace(part, is_whole=False) for part in parts)
    return result
