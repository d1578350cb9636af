"""PaperReuse: when the elements of a tensor are used next, by which statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ansorc.search.features.access import Access
from ansorc.search.features.columns import FloatArray
from ansorc.search.features.paper.neighbours import Neighbour
from ansorc.search.features.places import Places


@dataclass(frozen=True, eq=False)
class PaperReuse:
    """The reuse of the innermost loop that has one; arrays are [rows], 0 without any."""

    is_loop: FloatArray
    """1 if the next use is in the next iteration of a loop, else 0."""
    is_serial: FloatArray
    """1 if statements before touch the tensor in the same iteration of a loop, else 0."""
    iterations: FloatArray
    bytes: FloatArray
    count: FloatArray


def paper_reuse(access: Access, places: Places, neighbours: Sequence[Neighbour]) -> PaperReuse:
    """Return how the tensor of `access` is used again, by its statement or its `neighbours`."""
    zeros = np.zeros(access.rows, dtype=np.float32)
    reuse = PaperReuse(zeros, zeros, zeros, zeros, zeros)
    is_open = np.ones(access.rows, dtype=np.bool_)
    for place in reversed(range(len(access.nest.loops))):
        is_moved = access.moving[place]
        found = (_serial if is_moved else _repeated)(access, places, neighbours, place)
        if found is None:
            continue
        chosen = is_open & (access.nest.loops[place].extent > 1)
        is_open = is_open & ~chosen
        reuse = PaperReuse(
            np.where(chosen, not is_moved, reuse.is_loop),
            np.where(chosen, is_moved, reuse.is_serial),
            np.where(chosen, found[0], reuse.iterations),
            np.where(chosen, found[1], reuse.bytes),
            np.where(chosen, found[2], reuse.count),
        )
    return reuse


def _repeated(
    access: Access, places: Places, neighbours: Sequence[Neighbour], place: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The reuse of a loop that does not move the access: all that its body touches lies between."""
    inside = places.inside[place + 1]
    between = places.bytes[place + 1]
    for neighbour in (n for n in neighbours if n.shared > place):
        is_deeper = neighbour.is_inside(access.nest.loops, place + 1)
        within = neighbour.places.bytes[min(place + 1, neighbour.shared)]
        alone = np.where(inside == 1, neighbour.element_bytes, 0)
        between = between + np.where(is_deeper, within, alone)
    return inside, between, access.nest.loops[place].extent


def _serial(
    access: Access, places: Places, neighbours: Sequence[Neighbour], place: int
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """The reuse of what statements before touched in the same iteration; None without any."""
    least = access.elements[place]
    between = places.bytes[place]
    uses = 0
    for neighbour in (n for n in neighbours if n.shared > place):
        between = between + neighbour.places.bytes[place]
        touched = neighbour.touched(access.buffer.name, place)
        if touched is not None:
            least = np.minimum(least, touched)
            uses += 1
    extent = access.nest.loops[place].extent
    return (least / extent, between / extent, extent * 0 + uses) if uses else None
