"""CostModel: what scores programs that were not measured. The models are in ansorc/search/model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]

SCORED_SECONDS = 1e-3
"""The time of a program that scores 1."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One measured program."""

    task: str
    """The task that it belongs to, by key."""
    features: npt.NDArray[np.float32]
    """[statements, features], as in `ansorc.search.features`."""
    seconds: float | None
    """Its time; None if it failed."""


class CostModel(Protocol):
    """Scores programs by their features: the higher the faster, in one task."""

    def predict(self, features: npt.NDArray[np.float32]) -> Float64Array:
        """Return a finite score for each of `features` [rows, statements, features]: [rows]."""
        ...

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn from all programs measured so far, the ones seen before included."""
        ...
