"""Movement: how far the loops of a nest move one index, and over how many values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ansorc.search.features.columns import FloatArray

Step: TypeAlias = FloatArray | None
"""How far one iteration of a loop moves an index; None where it never does."""


@dataclass(frozen=True, eq=False)
class Movement:
    """One index of a tensor; arrays over places are [loops + 1, rows], as in `Access`."""

    steps: tuple[Step, ...]
    """How far one iteration of each loop moves it."""
    extents: FloatArray
    """[loops, rows]: those of the loops."""

    @cached_property
    def reach(self) -> FloatArray:
        """[places, rows]: how far the loops inside each place move it."""
        found = _places_of(self.extents, 0.0)
        for loop in reversed(range(len(self.steps))):
            step, within = self.steps[loop], found[loop + 1]
            if step is None:
                found[loop] = within
            else:
                np.add(within, np.abs(step) * (self.extents[loop] - 1), out=found[loop])
        return found

    @cached_property
    def values(self) -> FloatArray:
        """[places, rows]: iterations inside each place of the loops that move it."""
        found = _places_of(self.extents, 1.0)
        for loop in reversed(range(len(self.steps))):
            if self.steps[loop] is None:
                found[loop] = found[loop + 1]
            else:
                np.multiply(found[loop + 1], self.extents[loop], out=found[loop])
        return found


def inside_of(extents: FloatArray) -> FloatArray:
    """Return [loops + 1, rows]: the iterations inside each place, for [loops, rows] extents."""
    found = _places_of(extents, 1.0)
    for loop in reversed(range(len(extents))):
        np.multiply(found[loop + 1], extents[loop], out=found[loop])
    return found


def outside_of(extents: FloatArray) -> FloatArray:
    """Return [loops + 1, rows]: the iterations of the loops outside each place."""
    found = _places_of(extents, 1.0)
    found[0] = 1.0
    for loop, extent in enumerate(extents):
        np.multiply(found[loop], extent, out=found[loop + 1])
    return found


def stacked_extents(extents: Sequence[FloatArray], rows: int) -> FloatArray:
    """Return [loops, rows]."""
    return np.array(extents, dtype=np.float32).reshape(len(extents), rows)


def _places_of(extents: FloatArray, innermost: float) -> FloatArray:
    """An array [loops + 1, rows] to be filled, the last place known."""
    loops, rows = extents.shape
    found = np.empty((loops + 1, rows), dtype=np.float32)
    found[loops] = innermost
    return found
