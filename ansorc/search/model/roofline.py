"""RooflineModel: score programs by an analytic estimate of their time, before there is any data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import Sample
from ansorc.search.features import Features, estimated_cycles

SCALE_CYCLES = 1e6
"""The time of a program that scores one half."""


@dataclass(frozen=True)
class RooflineModel:
    """Scores by the cycles that `ansorc.search.features.estimate` expects; needs no training."""

    def predict(self, features: Features) -> npt.NDArray[np.float64]:
        """Return [rows] scores in (0, 1] that fall with the estimated time."""
        return SCALE_CYCLES / (SCALE_CYCLES + np.sum(estimated_cycles(features), axis=1))

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn nothing."""
