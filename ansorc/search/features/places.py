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
from ansorc.search.features.nest import Loop


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


def places_of(loops: Sequence[Loop], accesses: Sequence[Access]) -> Places:
    """Return the places of a statement."""
    inside = [np.ones(accesses[0].rows)]
    for loop in reversed(loops):
        inside.append(inside[-1] * loop.extent)
    touched = [access.elements * access.element_bytes for access in accesses]
    lines = [access.lines * access.line_bytes for access in accesses]
    return Places(sum(touched[1:], touched[0]), sum(lines[1:], lines[0]), np.stack(inside[::-1]))


def reuse_of(access: Access, places: Places) -> Reuse:
    """Return the innermost reuse of the tensor of `access`."""
    zeros = np.zeros(access.rows)
    reuse = Reuse(zeros, zeros, zeros)
    is_open = np.ones(access.rows, dtype=np.bool_)
    for place in reversed(range(len(access.loops))):
        if access.is_moved_by(place):
            continue
        extent = access.loops[place].extent
        found = is_open & (extent > 1)
        is_open = is_open & ~found
        reuse = Reuse(
            np.where(found, places.inside[place + 1], reuse.iterations),
            np.where(found, places.bytes[place + 1], reuse.bytes),
            np.where(found, extent, reuse.count),
        )
    return reuse


def at_place(values: FloatArray, place: npt.NDArray[np.int64]) -> FloatArray:
    """Return [rows]: the values [places, rows] at one place for each row."""
    return np.take_along_axis(values, place[None, :], axis=0)[0]


def refills(access: Access) -> FloatArray:
    """Return [places, rows]: how often the loops outside a place replace what it touches.

    Directly around the place, loops that do not move the access find it in the cache again, and
    one that moves it by less than a cache line finds most of it.
    """
    times = np.ones(access.rows)
    kept = np.ones(access.rows)
    found = [times]
    for place, loop in enumerate(access.loops):
        times = times * loop.extent
        if access.is_moved_by(place):
            stride_bytes = np.maximum(access.stride(place) * access.element_bytes, 1)
            shared = np.clip(access.line_bytes / stride_bytes, 1, loop.extent)
            kept = np.where(loop.extent > 1, shared, kept)
        else:
            kept = kept * loop.extent
        found.append(times / kept)
    return np.stack(found)
