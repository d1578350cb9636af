"""Judge: the scores of programs, and which of their statements takes the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import CostModel
from ansorc.search.features import Features, estimated_cycles
from ansorc.search.model.trees import SCORED_SECONDS

FloatArray = npt.NDArray[np.float64]

MIN_SECONDS = 1e-12


@runtime_checkable
class StatementModel(Protocol):
    """A cost model that knows the time of each statement.

    Its `predict` is SCORED_SECONDS by the sum of these times.
    """

    def predict_statements(self, features: Features) -> FloatArray:
        """Return the expected seconds of each statement: [rows, statements]."""
        ...


@dataclass(frozen=True, eq=False)
class Judgement:
    """What is thought of some programs."""

    scores: FloatArray
    """[rows]: the model's, the higher the faster."""
    times: FloatArray
    """[rows, statements] in any unit, for comparing the same statement of two programs."""


def judged(model: CostModel, features: Features) -> Judgement:
    """Return what `model` says of programs, the analytic estimate where it knows no statements."""
    if isinstance(model, StatementModel):
        times = model.predict_statements(features)
        return Judgement(SCORED_SECONDS / np.maximum(times.sum(axis=1), MIN_SECONDS), times)
    return Judgement(model.predict(features), estimated_cycles(features))


def drafted(features: Features, share: float) -> npt.NDArray[np.intp]:
    """Return the places of the `share` of programs with the best analytic estimates, in order."""
    cycles = estimated_cycles(features).sum(axis=1)
    count = int(np.ceil(share * len(features)))
    return np.sort(np.argsort(cycles, kind="stable")[:count])
