"""SumObjective: how wrong the trees are, and in which direction, statement by statement.

The paper's loss is the weighted squared error of the sum of what the statements score, weighted by
the throughput. Here the sum is of times, and the error that of its logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import Sample
from ansorc.search.model.labels import best_seconds, labels_of

FloatArray = npt.NDArray[np.float64]

MIN_WEIGHT = 0.1
"""The weight of slow and failed programs. Weighted by speed alone, failures would teach nothing."""
FAILED_TIME = 10.0
"""A failed program is learned to take at least this many times the best time of its task."""


@dataclass(frozen=True, eq=False)
class SumObjective:
    """The weighted squared error of the logarithm of a program's time."""

    owner: npt.NDArray[np.int64]
    """[statements]: the program of each."""
    times: FloatArray
    """[statements]: what is expected before the trees correct it, in seconds."""
    logs: FloatArray
    """[programs]: the logarithm of the measured time, for failures of the time they must exceed."""
    is_failed: npt.NDArray[np.bool_]
    weights: FloatArray
    """[programs], 1 on average."""
    factor: float
    """What the times before were too short by, on the whole; `times` has it in it."""

    @staticmethod
    def of(samples: Sequence[Sample], times: FloatArray) -> SumObjective:
        """Return the objective for samples of tasks that have a success each.

        `times` [statements] are the times that are expected so far, in any unit.
        """
        best, labels = best_seconds(samples), labels_of(samples)
        logs = np.log([s.seconds or FAILED_TIME * best[s.task] for s in samples])
        weights = np.maximum(labels, MIN_WEIGHT)
        weights = weights / np.mean(weights)
        owner = np.repeat(np.arange(len(samples)), [len(s.features) for s in samples])
        gaps = logs - np.log(np.bincount(owner, times))
        worked = labels > 0
        factor = float(np.exp(np.average(gaps[worked], weights=weights[worked])))
        return SumObjective(owner, times * factor, logs, ~worked, weights, factor)

    def __call__(self, corrections: FloatArray, data: object) -> tuple[FloatArray, FloatArray]:
        """Return the first and second derivative for each statement.

        The second one is put at its upper bound for all: LightGBM counts the rows of a leaf by it
        and stops with an error where these counts come out wrong (its issue 4739).
        """
        times = self.times * np.exp(corrections)
        total = np.bincount(self.owner, times, minlength=len(self.logs))
        error = np.log(total) - self.logs
        error = self.weights * np.where(self.is_failed, np.minimum(error, 0), error)
        share = times / total[self.owner]
        return error[self.owner] * share, np.ones_like(times)
