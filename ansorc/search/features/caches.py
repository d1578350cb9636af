"""CacheFeatures: what a statement keeps in the caches, and what it fetches into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from ansorc.search.features.access import Access
from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.loops import LoopFeatures
from ansorc.search.features.places import Places, at_place, refills
from ansorc.target import Target
from ansorc.target.ways import way_bytes


@dataclass(frozen=True, eq=False)
class CacheFeatures:
    """The cache levels under one statement. A level's place is the outermost one that fits it."""

    total_bytes: FloatArray = field(metadata=LOG)
    """Bytes that the statement touches."""
    l1_fill: FloatArray
    """What the lines touched inside the place of the first level take of it, as a share."""
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
    own = np.ones(accesses[0].rows, dtype=np.float32)
    shared = third / np.minimum(loops.parallel_extent, target.cores) if third else second * own
    moved = [
        access.lines * refills(access) * (access.line_bytes * (2 if access.is_written else 1))
        for access in accesses
    ]
    levels: list[Level] = []
    for capacity, way, spare in (
        (first * own, way_bytes(first), way_bytes(first)),
        (second * own, way_bytes(second), 0),  # pages lie anywhere in it
        (shared, 1, 0),  # it hashes addresses
    ):
        crowded = [access.crowded_bytes(way, spare) for access in accesses]
        held = reduce(np.maximum, crowded, places.line_bytes)
        levels.append(_level(places, moved, held, capacity))
    return tuple(levels)


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
        l1_intensity=operations / l1.bytes,
        l2_intensity=operations / l2.bytes,
        l3_intensity=operations / l3.bytes,
        intensity=operations / places.bytes[0],
    )


def _level(
    places: Places, moved: Sequence[FloatArray], held: FloatArray, capacity: FloatArray
) -> Level:
    """The level of `capacity` bytes, [rows].

    `held` [places, rows] is what places take of it, `moved` for each access the bytes that are
    fetched if a place is what stays in it.
    """
    place = np.minimum((held > capacity).sum(axis=0), len(held) - 1)
    fill = at_place(held, place) / capacity
    traffic = tuple(at_place(each, place) for each in moved)
    return Level(np.minimum(fill, 1), at_place(places.inside, place), traffic)
