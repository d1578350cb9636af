"""Metrics: how well predicted scores agree with measured ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

MAX_PAIRS = 2000
"""Programs of which all pairs are compared; of more, the first so many."""


@dataclass(frozen=True)
class Metrics:
    """Agreement of predictions with labels (1 = the best program), as in the paper, §5.2."""

    rmse: float
    """Root of the mean squared difference."""
    r2: float
    """Share of the labels' variance that is explained; 1 is perfect, 0 the mean, below is worse."""
    pairwise: float
    """Share of the pairs with different labels that are ordered rightly; ties count one half."""
    recall: float
    """Share of the k best programs that is among the k best predicted."""
    peak: float
    """The best label among the k best predicted, for each unit of the best label."""
    k: int
    """How many programs `recall` and `peak` look at."""


def metrics(predicted: FloatArray, actual: FloatArray, k: int = 30) -> Metrics:
    """Return how well `predicted` [programs] agrees with `actual` [programs] ≥ 0."""
    k = min(k, len(actual))
    error = predicted - actual
    variance = float(np.var(actual))
    chosen = np.argsort(-predicted, kind="stable")[:k]
    best = np.argsort(-actual, kind="stable")[:k]
    highest = float(actual.max())
    return Metrics(
        rmse=float(np.sqrt(np.mean(error**2))),
        r2=1 - float(np.mean(error**2)) / variance if variance > 0 else 0.0,
        pairwise=_pairwise(predicted[:MAX_PAIRS], actual[:MAX_PAIRS]),
        recall=float(np.isin(chosen, best).sum()) / k,
        peak=float(actual[chosen].max()) / highest if highest > 0 else 0.0,
        k=k,
    )


def _pairwise(predicted: FloatArray, actual: FloatArray) -> float:
    ahead = np.sign(actual[:, None] - actual[None, :])
    said = np.sign(predicted[:, None] - predicted[None, :])
    counted = ahead > 0
    if not counted.any():
        return 1.0
    return float(np.mean((said[counted] + 1) / 2))
