"""RooflineModel: score programs by an analytic estimate of their time, before there is any data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import Sample
from ansorc.search.features import FEATURE_NAMES, Features

SCALE_CYCLES = 1e6
"""The time of a program that scores one half."""

_CYCLES = FEATURE_NAMES.index("estimate.total_cycles")


@dataclass(frozen=True)
class RooflineModel:
    """Scores by the cycles that `ansorc.search.features.estimate` expects; needs no training."""

    def predict(self, features: Features) -> npt.NDArray[np.float64]:
        """Return [rows] scores in (0, 1] that fall with the estimated time."""
        return SCALE_CYCLES / (SCALE_CYCLES + estimated_cycles(features))

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn nothing."""


def estimated_cycles(features: Features) -> npt.NDArray[np.float64]:
    """Return [rows]: the estimated cycles of programs [rows, statements, features]."""
    logs = features[:, :, _CYCLES].astype(np.float64)
    return (np.exp2(logs) - 1).sum(axis=1)
