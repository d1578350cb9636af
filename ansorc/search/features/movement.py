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
        moved = np.zeros((len(self.steps) + 1, self.extents.shape[1]))
        for loop, step in enumerate(self.steps):
            if step is not None:
                np.multiply(np.abs(step), self.extents[loop] - 1, out=moved[loop])
        return _from_inside(np.add, moved)

    @cached_property
    def values(self) -> FloatArray:
        """[places, rows]: iterations inside each place of the loops that move it."""
        found = np.ones((len(self.steps) + 1, self.extents.shape[1]))
        for loop, step in enumerate(self.steps):
            if step is not None:
                found[loop] = self.extents[loop]
        return _from_inside(np.multiply, found)


def inside_of(extents: FloatArray) -> FloatArray:
    """Return [loops + 1, rows]: the iterations inside each place, for [loops, rows] extents."""
    ones = np.ones((1, extents.shape[1]))
    return _from_inside(np.multiply, np.concatenate([extents, ones]))


def outside_of(extents: FloatArray) -> FloatArray:
    """Return [loops + 1, rows]: the iterations of the loops outside each place."""
    ones = np.ones((1, extents.shape[1]))
    return np.multiply.accumulate(np.concatenate([ones, extents]), axis=0)


def stacked_extents(extents: Sequence[FloatArray], rows: int) -> FloatArray:
    """Return [loops, rows]."""
    return np.array(extents, dtype=np.float64).reshape(len(extents), rows)


def _from_inside(combine: np.ufunc, values: FloatArray) -> FloatArray:
    return combine.accumulate(values[::-1], axis=0)[::-1]
