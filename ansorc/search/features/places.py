"""Places: what a statement touches inside each of its loops, all tensors together.

Arrays over places are [loops + 1, rows], as in `ansorc.search.features.access`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.search.features.access import Access
from ansorc.search.features.columns import FloatArray
from ansorc.search.features.nest import Nest


@dataclass(frozen=True, eq=False)
class Places:
    """What all accesses of a statement touch inside each place."""

    bytes: FloatArray
    """Bytes of different elements."""
    line_bytes: FloatArray
    """Bytes of different cache lines."""
    inside: FloatArray
    """Iterations inside the place."""


@dataclass(frozen=True, eq=False)
class Reuse:
    """When a statement comes back to elements of a tensor; arrays are [rows].

    The loop of the reuse is the innermost one in whose iterations it touches the same elements.
    """

    iterations: FloatArray
    """Iterations of the statement between two uses; 0 without reuse."""
    bytes: FloatArray
    """Bytes that it touches between two uses."""
    count: FloatArray
    """Uses: the iterations of the loop; 0 without reuse."""


def places_of(nest: Nest, accesses: Sequence[Access]) -> Places:
    """Return the places of the statement of `nest`."""
    touched = [access.elements * access.element_bytes for access in accesses]
    lines = [access.lines * access.line_bytes for access in accesses]
    return Places(sum(touched[1:], touched[0]), sum(lines[1:], lines[0]), nest.inside)


def reuse_of(access: Access, places: Places) -> Reuse:
    """Return the innermost reuse of the tensor of `access`."""
    nest = access.nest
    still = np.flatnonzero(~np.array(access.moving, dtype=np.bool_))
    if not len(still):
        zeros = np.zeros(access.rows, dtype=np.float32)
        return Reuse(zeros, zeros, zeros)
    repeats = nest.is_loop[still]
    found = repeats.any(axis=0)
    loop = still[len(still) - 1 - np.argmax(repeats[::-1], axis=0)]
    return Reuse(
        at_place(places.inside, loop + 1) * found,
        at_place(places.bytes, loop + 1) * found,
        at_place(nest.extents, loop) * found,
    )


def at_place(values: FloatArray, place: npt.NDArray[np.int64]) -> FloatArray:
    """Return [rows]: the values [places, rows] at one place for each row."""
    return values[place, np.arange(len(place))]


def refills(access: Access) -> FloatArray:
    """Return [places, rows]: how often the loops outside a place replace what it touches.

    Directly around the place, loops that do not move the access find it in the cache again, and
    one that moves it by less than a cache line finds most of it.
    """
    nest = access.nest
    step_bytes = np.maximum(access.strides * access.element_bytes, 1)
    shared = np.clip(access.line_bytes / step_bytes, 1, nest.extents)
    kept = np.ones_like(nest.inside)
    for loop, is_moving in enumerate(access.moving):
        if is_moving:
            kept[loop + 1] = np.where(nest.is_loop[loop], shared[loop], kept[loop])
        else:
            np.multiply(kept[loop], nest.extents[loop], out=kept[loop + 1])
    return nest.outside / kept
