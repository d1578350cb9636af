"""PAPER_FEATURES: the 164 numbers of one statement (the paper's appendix B).

They are in the order of the paper's implementation, as a second feature set for comparisons;
`docs/features.md` lists both. Where that implementation has faults, these are the numbers that were
meant: the type of a position is told apart, a cache line counts once however the loops reach it,
and a loop that was unrolled by the limit is an unrolled one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ansorc.schedule.memory import memory_shape
from ansorc.search.features.access import Places, accesses_of, places_of
from ansorc.search.features.columns import (
    LOG,
    BoolArray,
    Column,
    FloatArray,
    columns_of,
    values_of,
)
from ansorc.search.features.feature_set import FeatureSet
from ansorc.search.features.loop_nest import LoopNest, LoopNests, product
from ansorc.search.features.operations import operation_counts
from ansorc.target import Target
from bench.search.paper_accesses import (
    BUFFERS,
    AccessFeatures,
    PaperOperations,
    access_columns,
    earlier_statements,
    paper_operations,
)

POSITIONS = (
    "inner_space", "middle_space", "outer_space", "inner_reduce", "middle_reduce", "outer_reduce",
    "mixed",
)  # fmt: skip
"""Which axis a loop moves: the last, a middle or the first one of its kind; mixed if several."""
SAMPLES = 10
_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class MarkFeatures:
    """The loops with one mark; a loop of extent 1 has none, a fused one counts as its parts."""

    count: FloatArray = field(metadata=LOG)
    """Marked loops."""
    product: FloatArray = field(metadata=LOG)
    """Product of their extents; 0 without any."""
    innermost: FloatArray = field(metadata=LOG)
    """Extent of the innermost one; 0 without any."""
    nowhere: FloatArray
    """1 if no loop is marked, else 0, as in the following."""
    inner_space: FloatArray
    """1 if they move the last space axis alone (the only one where there is one)."""
    middle_space: FloatArray
    """1 if they move a space axis in the middle alone."""
    outer_space: FloatArray
    """1 if they move the first space axis alone."""
    inner_reduce: FloatArray
    """1 if they move the last reduce axis alone (the only one where there is one)."""
    middle_reduce: FloatArray
    """1 if they move a reduce axis in the middle alone."""
    outer_reduce: FloatArray
    """1 if they move the first reduce axis alone."""
    mixed: FloatArray
    """1 if they move several axes, or none of this statement."""


def mark_features(nest: LoopNest, marked: Sequence[BoolArray], rows: int) -> MarkFeatures:
    """Return the features of the loops of `nest` that are `marked`, [rows] for each loop."""
    count, total, innermost = (
        np.zeros(rows, dtype=np.float32),
        np.ones(rows, dtype=np.float32),
        np.zeros(rows, dtype=np.float32),
    )
    found = {position: np.zeros(rows, dtype=np.bool_) for position in POSITIONS}
    for place, (loop, mark) in enumerate(zip(nest.loops, marked, strict=True)):
        is_marked = mark & (loop.extent > 1)
        count = count + is_marked
        total = np.where(is_marked, total * loop.extent, total)
        innermost = np.where(is_marked, loop.extent, innermost)
        position = _position(nest, place)
        found[position] = found[position] | is_marked
    different = np.sum(list(found.values()), axis=0)
    is_mixed = found.pop("mixed") | (different > 1)
    alone = {name: (there & ~is_mixed).astype(np.float32) for name, there in found.items()}
    return MarkFeatures(
        count=count,
        product=np.where(count > 0, total, 0),
        innermost=innermost,
        nowhere=(count == 0).astype(np.float32),
        **alone,
        mixed=is_mixed.astype(np.float32),
    )


def _position(nest: LoopNest, loop: int) -> str:
    op = nest.stage.op
    found: list[str] = []
    for kind, axes in (("space", op.axes), ("reduce", op.reduce_axes)):
        for place, axis in enumerate(axes):
            if nest.axes[axis.name][loop] is not None:
                found.append(f"{_side(place, len(axes))}_{kind}")
    return found[0] if len(found) == 1 else "mixed"


def _side(place: int, count: int) -> str:
    if place == count - 1:
        return "inner"
    return "middle" if place else "outer"


@dataclass(frozen=True, eq=False)
class ThreadFeatures:
    """The extents bound to each index of a GPU; 1 where no loop is."""

    is_gpu: FloatArray
    """1 if the program is for a GPU, else 0."""
    block_x: FloatArray = field(metadata=LOG)
    """Blocks along blockIdx.x."""
    block_y: FloatArray = field(metadata=LOG)
    """Blocks along blockIdx.y."""
    block_z: FloatArray = field(metadata=LOG)
    """Blocks along blockIdx.z."""
    thread_x: FloatArray = field(metadata=LOG)
    """Threads of a block along threadIdx.x."""
    thread_y: FloatArray = field(metadata=LOG)
    """Threads of a block along threadIdx.y."""
    thread_z: FloatArray = field(metadata=LOG)
    """Threads of a block along threadIdx.z."""
    virtual: FloatArray = field(metadata=LOG)
    """Virtual threads, whose statements take turns in one thread."""


def thread_features(nest: LoopNest, target: Target, rows: int) -> ThreadFeatures:
    """Return the thread features of the statement of `nest`."""

    def bound(thread: str) -> FloatArray:
        return product([loop.extent for loop in nest.loops if loop.thread == thread], rows)

    return ThreadFeatures(
        is_gpu=np.full(rows, float(target.is_gpu), dtype=np.float32),
        block_x=bound("blockIdx.x"),
        block_y=bound("blockIdx.y"),
        block_z=bound("blockIdx.z"),
        thread_x=bound("threadIdx.x"),
        thread_y=bound("threadIdx.y"),
        thread_z=bound("threadIdx.z"),
        virtual=bound("vthread"),
    )


@dataclass(frozen=True, eq=False)
class CurveFeatures:
    """Float operations for each byte touched, at shares of all operations; 0 without operations.

    Each loop of more than one iteration is a point of the curve: what it and the loops inside it do
    and touch. Between the points the intensity goes linearly with the operations.
    """

    at_1: FloatArray = field(metadata=LOG)
    """The intensity at a tenth of the operations."""
    at_2: FloatArray = field(metadata=LOG)
    """At two tenths."""
    at_3: FloatArray = field(metadata=LOG)
    """At three tenths."""
    at_4: FloatArray = field(metadata=LOG)
    """At four tenths."""
    at_5: FloatArray = field(metadata=LOG)
    """At half of them."""
    at_6: FloatArray = field(metadata=LOG)
    """At six tenths."""
    at_7: FloatArray = field(metadata=LOG)
    """At seven tenths."""
    at_8: FloatArray = field(metadata=LOG)
    """At eight tenths."""
    at_9: FloatArray = field(metadata=LOG)
    """At nine tenths."""
    at_10: FloatArray = field(metadata=LOG)
    """At all of them."""


def curve_features(places: Places, operations: float) -> CurveFeatures:
    """Return the curve of a statement of so many float operations in one iteration."""
    rows = len(places.inside[0])
    shares = np.arange(1, SAMPLES + 1, dtype=np.float32)[:, None] / SAMPLES
    at = shares * (operations * places.inside[0])
    samples = np.zeros((SAMPLES, rows), dtype=np.float32)
    is_open = np.ones((SAMPLES, rows), dtype=np.bool_)
    before: FloatArray = np.zeros(rows, dtype=np.float32)
    low: FloatArray = np.zeros(rows, dtype=np.float32)
    for place in reversed(range(len(places.inside) - 1)):
        done = operations * places.inside[place]
        intensity = done / places.bytes[place]
        is_point = places.inside[place] > places.inside[place + 1]
        is_first = is_point & (before == 0)
        share = np.minimum((at - before) / np.maximum(done - before, _TOLERANCE), 1)
        between = np.where(is_first, intensity, _between(low, intensity, share))
        is_reached = is_open & is_point & (done >= at - _TOLERANCE)
        samples = np.where(is_reached, between, samples)
        is_open = is_open & ~is_reached
        before = np.where(is_point, done, before)
        low = np.where(is_point, intensity, low)
    return (
        CurveFeatures(*samples)
        if operations
        else CurveFeatures(*np.zeros((SAMPLES, rows), dtype=np.float32))
    )


def _between(low: FloatArray, high: FloatArray, share: FloatArray) -> FloatArray:
    return low + (high - low) * share


@dataclass(frozen=True, eq=False)
class StorageFeatures:
    """The memory of what the statement computes; all 0 for an output of the program."""

    bytes: FloatArray = field(metadata=LOG)
    """Bytes that one allocation holds."""
    total: FloatArray = field(metadata=LOG)
    """Elements of all allocations together."""
    count: FloatArray = field(metadata=LOG)
    """Allocations: iterations of the loops around."""
    inside: FloatArray = field(metadata=LOG)
    """Iterations of the statement for each allocation."""


@dataclass(frozen=True, eq=False)
class NestFeatures:
    """All loops around the statement."""

    iterations: FloatArray = field(metadata=LOG)
    """Product of their extents."""
    count: FloatArray = field(metadata=LOG)
    """Loops of more than one iteration."""
    unroll_limit: FloatArray = field(metadata=LOG)
    """The `auto_unroll_max_step` of the stage."""


def storage_features(nests: LoopNests, nest: LoopNest) -> StorageFeatures:
    """Return the storage features of the statement of `nest`."""
    zeros = np.zeros(nests.rows, dtype=np.float32)
    if nest.stage.is_output:
        return StorageFeatures(zeros, zeros, zeros, zeros)
    elements = product([nests.array(extent) for extent in memory_shape(nest.stage)], nests.rows)
    outside = product([loop.extent for loop in nest.loops[: nest.own]], nests.rows)
    inside = product([loop.extent for loop in nest.loops[nest.own :]], nests.rows)
    size = nest.stage.op.buffer.dtype.bytes
    return StorageFeatures(elements * size, elements * outside, outside, inside)


def nest_features(nests: LoopNests, nest: LoopNest, iterations: FloatArray) -> NestFeatures:
    """Return the loop features of the statement of `nest`."""
    counts = [loop.extent > 1 for loop in nest.loops]
    limit = nests.array(nests.unroll_limit(nest.stage))
    return NestFeatures(
        iterations, np.sum(counts, axis=0) + np.zeros(nests.rows, dtype=np.float32), limit
    )


COLUMNS: tuple[Column, ...] = (
    *columns_of(PaperOperations, "operations"),
    *columns_of(MarkFeatures, "vectorised"),
    *columns_of(MarkFeatures, "unrolled"),
    *columns_of(MarkFeatures, "parallel"),
    *columns_of(ThreadFeatures, "threads"),
    *(c for place in range(BUFFERS) for c in columns_of(AccessFeatures, f"access{place}")),
    *columns_of(CurveFeatures, "curve"),
    *columns_of(StorageFeatures, "storage"),
    *columns_of(NestFeatures, "nest"),
)


def _describe(nests: LoopNests, nest: LoopNest, target: Target) -> Iterator[FloatArray]:
    rows, loops = nests.rows, nest.loops
    accesses = accesses_of(nests, nest, target, is_held=False)
    earlier = earlier_statements(nests, nest, target)
    places = places_of(nest, accesses)
    vectorised = [np.full(rows, loop.is_vector) for loop in loops]
    unrolled = [np.full(rows, not loop.is_vector) & loop.is_unrolled for loop in loops]
    parallel = [loop.is_parallel for loop in loops]
    yield from values_of(paper_operations(nest, places.inside[0]))
    for marked in (vectorised, unrolled, parallel):
        yield from values_of(mark_features(nest, marked, rows))
    yield from values_of(thread_features(nest, target, rows))
    yield from access_columns(accesses, places, earlier)
    operations = operation_counts(nest.stage.op).total
    yield from values_of(curve_features(places, operations))
    yield from values_of(storage_features(nests, nest))
    yield from values_of(nest_features(nests, nest, places.inside[0]))


PAPER_FEATURES = FeatureSet("paper", 1, COLUMNS, _describe)
