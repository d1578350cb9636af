"""The labels of the cost model, and its loss: how wrong it is, and in which direction.

The paper's loss is the weighted squared error of the sum of what the statements score, weighted by
the throughput. Here the sum is of times, and the error that of its logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import Float64Array, Sample

MIN_WEIGHT = 0.1
"""The weight of slow and failed programs. Weighted by speed alone, failures would teach nothing."""
FAILED_TIME = 10.0
"""A failed program is learned to take at least this many times the best time of its task."""


def best_seconds(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the least time of each task that has a success."""
    best: dict[str, float] = {}
    for sample in samples:
        if sample.seconds is not None:
            best[sample.task] = min(best.get(sample.task, np.inf), sample.seconds)
    return best


def labels_of(samples: Sequence[Sample]) -> Float64Array:
    """Return [samples]: the best time of the sample's task / its time; 0 for a failure."""
    best = best_seconds(samples)
    return np.array([0.0 if s.seconds is None else best[s.task] / s.seconds for s in samples])


@dataclass(frozen=True, eq=False)
class SumOfStatementsLoss:
    """The weighted squared error of the logarithm of a program's time."""

    owner: npt.NDArray[np.int64]
    """[statements]: the program of each."""
    times: Float64Array
    """[statements]: what is expected before the trees correct it, in seconds."""
    logs: Float64Array
    """[programs]: the logarithm of the measured time, for failures of the time they must exceed."""
    is_failed: npt.NDArray[np.bool_]
    weights: Float64Array
    """[programs], 1 on average."""
    factor: float
    """What the times before were too short by, on the whole; `times` has it in it."""

    @staticmethod
    def of(samples: Sequence[Sample], times: Float64Array) -> SumOfStatementsLoss:
        """Return the loss for samples of tasks that have a success each.

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
        return SumOfStatementsLoss(owner, times * factor, logs, ~worked, weights, factor)

    def __call__(
        self, corrections: Float64Array, data: object
    ) -> tuple[Float64Array, Float64Array]:
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
