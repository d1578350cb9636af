"""Metrics: how well predicted throughputs agree with measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ansorc.search.cost_model import Float64Array

_BLOCK = 512
"""Programs that are compared with all others at once."""


@dataclass(frozen=True)
class Metrics:
    """Agreement of predictions with labels, which are throughputs from 0 to 1, the best program's.

    As in the paper, §5.2 and §7.4. The paper's figures are of the programs of all tasks together.
    """

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
    """How many programs `recall` and `peak` look at: fewer where there are fewer."""


def metrics(predicted: Float64Array, actual: Float64Array, k: int = 30) -> Metrics:
    """Return how well `predicted` [programs] agrees with the labels `actual` [programs].

    There is at least one program.
    """
    k = min(k, len(actual))
    error = float(np.mean((predicted - actual) ** 2))
    variance = float(np.var(actual))
    chosen = np.argsort(-predicted, kind="stable")[:k]
    best = np.argsort(-actual, kind="stable")[:k]
    highest = float(actual.max())
    return Metrics(
        rmse=error**0.5,
        r2=1 - error / variance if variance > 0 else 0.0,
        pairwise=_pairwise(predicted, actual),
        recall=float(np.isin(chosen, best).sum()) / k,
        peak=float(actual[chosen].max()) / highest if highest > 0 else 0.0,
        k=k,
    )


def mean_by_task(
    predicted: Float64Array, actual: Float64Array, tasks: Sequence[str], k: int = 30
) -> Metrics:
    """Return the metrics of the programs of each of `tasks` [programs] alone, on average.

    Tasks with fewer than `k` programs are left out, unless all are so small: to find the k best of
    no more than k is no feat.
    """
    names = np.array(tasks)
    counts = dict(zip(*np.unique(names, return_counts=True), strict=True))
    large = [name for name, count in counts.items() if count >= k]
    found = [
        metrics(predicted[names == name], actual[names == name], k) for name in large or counts
    ]
    return Metrics(
        rmse=fmean(one.rmse for one in found),
        r2=fmean(one.r2 for one in found),
        pairwise=fmean(one.pairwise for one in found),
        recall=fmean(one.recall for one in found),
        peak=fmean(one.peak for one in found),
        k=max(one.k for one in found),
    )


def _pairwise(predicted: Float64Array, actual: Float64Array) -> float:
    right, pairs = 0.0, 0
    for begin in range(0, len(actual), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        is_faster = actual[block, None] > actual
        said = np.sign(predicted[block, None] - predicted)[is_faster]
        right += float(np.sum(said + 1)) / 2
        pairs += len(said)
    return right / pairs if pairs else 1.0
