"""StorageFeatures and NestFeatures: where the result of a statement is held, and its loops."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ansorc.schedule.memory import memory_shape
from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.nest import Nest, Nests, product


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


def storage_features(nests: Nests, nest: Nest) -> StorageFeatures:
    """Return the storage features of the statement of `nest`."""
    zeros = np.zeros(nests.rows, dtype=np.float32)
    if nest.stage.is_output:
        return StorageFeatures(zeros, zeros, zeros, zeros)
    elements = product([nests.array(extent) for extent in memory_shape(nest.stage)], nests.rows)
    outside = product([loop.extent for loop in nest.loops[: nest.own]], nests.rows)
    inside = product([loop.extent for loop in nest.loops[nest.own :]], nests.rows)
    size = nest.stage.op.buffer.dtype.bytes
    return StorageFeatures(elements * size, elements * outside, outside, inside)


def nest_features(nests: Nests, nest: Nest, iterations: FloatArray) -> NestFeatures:
    """Return the loop features of the statement of `nest`."""
    counts = [loop.extent > 1 for loop in nest.loops]
    limit = nests.array(nests.unroll_limit(nest.stage))
    return NestFeatures(
        iterations, np.sum(counts, axis=0) + np.zeros(nests.rows, dtype=np.float32), limit
    )
