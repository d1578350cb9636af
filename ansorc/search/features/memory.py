"""CacheFeatures and BufferFeatures: what a statement moves through caches, and for each tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

import numpy as np
import numpy.typing as npt

from ansorc.search.features.access import Access, Places, entries_at, refills, reuse_of
from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.loops import LoopFeatures
from ansorc.search.features.registers import Tile, Vectors
from ansorc.target import Target
from ansorc.target.ways import way_bytes


@dataclass(frozen=True, eq=False)
class CacheFeatures:
    """The cache levels under one statement. A level's place is the outermost one that fits it."""

    total_bytes: FloatArray = field(metadata=LOG)
    """Bytes that the statement touches."""
    l1_fill: FloatArray
    """The share of the first level that the lines touched inside its loop nest take."""
    l2_fill: FloatArray
    """The same for the second level."""
    l3_fill: FloatArray
    """The same for the third level, shared by the cores."""
    l1_iterations: FloatArray = field(metadata=LOG)
    """Iterations inside the place of the first level."""
    l2_iterations: FloatArray = field(metadata=LOG)
    """Iterations inside the place of the second level."""
    l3_iterations: FloatArray = field(metadata=LOG)
    """Iterations inside the place of the third level."""
    l1_bytes: FloatArray = field(metadata=LOG)
    """Bytes moved between the first and the second level over the whole statement, by all cores."""
    l2_bytes: FloatArray = field(metadata=LOG)
    """Bytes moved between the second and the third level."""
    l3_bytes: FloatArray = field(metadata=LOG)
    """Bytes moved between the third level and memory."""
    l2_pieces: FloatArray = field(metadata=LOG)
    """Pieces of memory, pages at most, that the bytes between the second and the third level are in
    the order in which they are touched."""
    l3_pieces: FloatArray = field(metadata=LOG)
    """Pieces of memory, pages at most, that those between the third level and memory are."""
    l1_intensity: FloatArray = field(metadata=LOG)
    """Float operations for each byte moved between the first and the second level."""
    l2_intensity: FloatArray = field(metadata=LOG)
    """Float operations for each byte moved between the second and the third level."""
    l3_intensity: FloatArray = field(metadata=LOG)
    """Float operations for each byte moved between the third level and memory."""
    intensity: FloatArray = field(metadata=LOG)
    """Float operations for each byte touched."""


@dataclass(frozen=True, eq=False)
class Level:
    """One cache level under one statement; arrays are [rows]."""

    fill: FloatArray
    iterations: FloatArray
    traffic: tuple[FloatArray, ...]
    """For each access the bytes moved between this level and the next."""
    pieces: FloatArray
    """Pieces of memory that these bytes are in the order in which they are touched."""

    @property
    def bytes(self) -> FloatArray:
        """Bytes moved for all accesses."""
        return sum(self.traffic[1:], self.traffic[0])


def levels_of(
    accesses: Sequence[Access], places: Places, loops: LoopFeatures, target: Target
) -> tuple[Level, ...]:
    """Return the three cache levels, each core holding its share of the last one."""
    first, second, third = target.cache_bytes
    second = second or first
    whole = np.ones(accesses[0].rows, dtype=np.float32)
    shared = third / np.minimum(loops.parallel_extent, target.cores) if third else second * whole
    moved = [access.lines * refills(access) * _count_moved_bytes(access) for access in accesses]
    levels: list[Level] = []
    shares: list[FloatArray] = []
    for capacity, way, spare in (
        (first * whole, way_bytes(first), way_bytes(first)),
        (second * whole, way_bytes(second), 0),  # pages lie anywhere in it
        (shared, 1, 0),  # it hashes addresses
    ):
        crowded = [access.find_cache_bytes(way, spare) for access in accesses]
        held = reduce(np.maximum, crowded, places.line_bytes)
        fitting = np.minimum((held > capacity).sum(axis=0), len(held) - 1)
        shares = shares or _begun(accesses, fitting, target.costs.streams)
        levels.append(_level(places, moved, held, capacity, fitting, shares))
    return tuple(levels)


def _begun(
    accesses: Sequence[Access], first: npt.NDArray[np.int64], most_streams: float
) -> list[FloatArray]:
    """For each access the pieces for each byte that it moves, [rows], `first` being the place of
    the first level.

    Pieces follow each other as the loops inside of it touch them. Where they are no more than the
    machine follows at a time, the loop around goes on with them.
    """
    entries = entries_at(first)
    streams = sum((access.pieces.take(entries) for access in accesses), np.float32(0))
    begun = entries_at(np.where(streams <= most_streams, np.maximum(first - 1, 0), first))
    return [
        access.pieces.take(begun) / (access.lines.take(begun) * _count_moved_bytes(access))
        for access in accesses
    ]


def _count_moved_bytes(access: Access) -> int:
    """Return the bytes moved for a line: what is written is read before."""
    return access.line_bytes * (2 if access.is_written else 1)


def cache_features(
    levels: Sequence[Level], places: Places, operations: FloatArray
) -> CacheFeatures:
    """Return the cache features of a statement of `operations` float operations, [rows]."""
    l1, l2, l3 = levels
    return CacheFeatures(
        total_bytes=places.bytes[0],
        l1_fill=l1.fill,
        l2_fill=l2.fill,
        l3_fill=l3.fill,
        l1_iterations=l1.iterations,
        l2_iterations=l2.iterations,
        l3_iterations=l3.iterations,
        l1_bytes=l1.bytes,
        l2_bytes=l2.bytes,
        l3_bytes=l3.bytes,
        l2_pieces=l2.pieces,
        l3_pieces=l3.pieces,
        l1_intensity=operations / l1.bytes,
        l2_intensity=operations / l2.bytes,
        l3_intensity=operations / l3.bytes,
        intensity=operations / places.bytes[0],
    )


def _level(
    places: Places,
    moved: Sequence[FloatArray],
    held: FloatArray,
    capacity: FloatArray,
    fitting: npt.NDArray[np.int64],
    begun: Sequence[FloatArray],
) -> Level:
    """The level of `capacity` bytes, [rows], which has the loops inside `place`.

    `held` [places, rows] is what places take of it, `moved` for each access the bytes that are
    fetched if a place is what stays in it, `begun` the pieces for each of these bytes.
    """
    entries = entries_at(fitting)
    fill = held.take(entries) / capacity
    traffic = tuple(each.take(entries) for each in moved)
    pieces = [bytes_ * share for bytes_, share in zip(traffic, begun, strict=True)]
    inside = places.inside.take(entries)
    return Level(np.minimum(fill, 1), inside, traffic, sum(pieces[1:], pieces[0]))


BUFFERS = 4
"""Tensors with features of their own: the one written, then those read, the largest first."""


@dataclass(frozen=True, eq=False)
class BufferFeatures:
    """One tensor of a statement; all 0 where it has fewer tensors."""

    is_updated: FloatArray
    """1 for a tensor that is read and written: the sums of a reduction."""
    is_local: FloatArray
    """1 for a tensor that is computed inside a loop, so that only a part of it is held."""
    bytes: FloatArray = field(metadata=LOG)
    """Bytes of different elements that the statement touches."""
    held_bytes: FloatArray = field(metadata=LOG)
    """Bytes of memory that hold it."""
    vector_stride: FloatArray = field(metadata=LOG)
    """Elements from one lane of a vector to the next; 0 if all lanes use one element."""
    inner_stride: FloatArray = field(metadata=LOG)
    """Elements from one iteration of the innermost loop to the next."""
    loads: FloatArray = field(metadata=LOG)
    """Instructions that load or store it in a step of the register tile."""
    reuse_iterations: FloatArray = field(metadata=LOG)
    """Iterations of the statement between two uses of an element; 0 without reuse in a loop."""
    reuse_bytes: FloatArray = field(metadata=LOG)
    """Bytes that the statement touches between two uses."""
    reuse_count: FloatArray = field(metadata=LOG)
    """Uses in the innermost loop that reuses elements; 0 without."""
    bytes_per_use: FloatArray = field(metadata=LOG)
    """Bytes of different elements for each of these uses."""
    l1_bytes: FloatArray = field(metadata=LOG)
    """Bytes of it moved between the first and the second cache level."""
    l2_bytes: FloatArray = field(metadata=LOG)
    """Bytes of it moved between the second and the third level."""
    l3_bytes: FloatArray = field(metadata=LOG)
    """Bytes of it moved between the third level and memory."""


def buffer_features(
    number: int,
    access: Access,
    places: Places,
    tile: Tile,
    vectors: Vectors,
    levels: Sequence[Level],
) -> BufferFeatures:
    """Return the features of access `number` of a statement."""
    reuse = reuse_of(access, places)
    unique = access.elements[0] * access.element_bytes
    l1, l2, l3 = (level.traffic[number] for level in levels)
    ones = np.ones(access.rows, dtype=np.float32)
    return BufferFeatures(
        is_updated=ones * (access.is_read and access.is_written),
        is_local=ones * access.is_local,
        bytes=unique,
        held_bytes=ones * prod(access.shape, start=1.0) * access.element_bytes,
        vector_stride=_vector_stride(access, vectors),
        inner_stride=_inner_stride(access),
        loads=tile.loads[number],
        reuse_iterations=reuse.iterations,
        reuse_bytes=reuse.bytes,
        reuse_count=reuse.count,
        bytes_per_use=unique / np.maximum(reuse.count, 1),
        l1_bytes=l1,
        l2_bytes=l2,
        l3_bytes=l3,
    )


def largest_first(accesses: Sequence[Access]) -> list[int]:
    """Return the numbers of the accesses with features of their own, the store first."""
    reads = sorted(range(1, len(accesses)), key=lambda number: -accesses[number].buffer.bytes)
    return [0, *reads][:BUFFERS]


def _vector_stride(access: Access, vectors: Vectors) -> FloatArray:
    if vectors.loop is None:
        return np.zeros(access.rows, dtype=np.float32)
    return np.where(vectors.extent > 1, access.strides[vectors.loop], 0)


def _inner_stride(access: Access) -> FloatArray:
    is_loop = access.nest.is_loop
    if not len(is_loop):
        return np.zeros(access.rows, dtype=np.float32)
    return access.strides.take(access.nest.innermost) * is_loop.any(axis=0)
