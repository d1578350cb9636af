"""RandomModel: what a search without a model does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import Sample
from ansorc.search.features import Features


@dataclass
class RandomModel:
    """Scores at random; what it returns depends on `rng` alone."""

    rng: np.random.Generator

    def predict(self, features: Features) -> npt.NDArray[np.float64]:
        """Return uniform scores in [0, 1)."""
        return self.rng.random(len(features))

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn nothing."""
