"""BufferFeatures: how a statement uses one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ansorc.search.features.access import Access
from ansorc.search.features.caches import Level
from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.places import Places, at_place, reuse_of
from ansorc.search.features.tile import Tile, Vectors

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
    innermost = len(is_loop) - 1 - np.argmax(is_loop[::-1], axis=0)
    return at_place(access.strides, innermost) * is_loop.any(axis=0)
