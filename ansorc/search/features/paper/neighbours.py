"""Neighbours: the statements that run before another one in iterations of the same loops.

What one of them wrote or read in an iteration, the next one finds in the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ansorc.schedule.stage import Stage
from ansorc.search.features.access import Access, accesses_of
from ansorc.search.features.columns import BoolArray, FloatArray
from ansorc.search.features.nest import Loop, Nest, Nests
from ansorc.search.features.places import Places, places_of


@dataclass(frozen=True, eq=False)
class Neighbour:
    """A statement before another one."""

    shared: int
    """The loops around both."""
    accesses: Sequence[Access]
    places: Places

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of each tensor that it touches."""
        return sum(access.element_bytes for access in self.accesses)

    def touched(self, buffer: str, place: int) -> FloatArray | None:
        """Return [rows]: elements of a tensor touched inside a place; None if not of that one."""
        found = [a.elements[place] for a in self.accesses if a.buffer.name == buffer]
        return np.maximum.reduce(found) if found else None

    def is_inside(self, loops: Sequence[Loop], place: int) -> BoolArray:
        """Return [rows]: whether it shares a loop, of more than one iteration, from `place` on."""
        extents = [loop.extent > 1 for loop in loops[place : self.shared]]
        return (
            np.logical_or.reduce(extents)
            if extents
            else np.zeros(len(self.places.inside[0]), dtype=np.float32) > 0
        )


def neighbours_of(nests: Nests, nest: Nest, line_bytes: int) -> list[Neighbour]:
    """Return the statements before that of `nest` which share loops with it."""
    found: list[Neighbour] = []
    for stage in nests.state.stages:
        if stage is nest.stage:
            break
        shared = 0 if stage.is_inlined else _shared(nests, stage, nest.stage)
        if shared:
            other = nests.nest(stage)
            accesses = accesses_of(nests, other, line_bytes, is_held=False)
            found.append(Neighbour(shared, accesses, places_of(other, accesses)))
    return found


def _shared(nests: Nests, first: Stage, second: Stage) -> int:
    """The number of loops around both stages."""
    count = 0
    for one, other in zip(_path(nests, first), _path(nests, second), strict=False):
        if one != other:
            break
        owner, iterator = one
        count = nests.nest(nests.state.stage(owner)).ends[iterator]
    return count


def _path(nests: Nests, stage: Stage) -> list[tuple[str, str]]:
    around = [(owner.name, iterator.name) for owner, iterator in nests.state.around(stage)]
    return around + [(stage.name, iterator.name) for iterator in stage.iterators]
