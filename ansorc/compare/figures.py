"""The arithmetic of the comparison: errors, medians, ratios, geometric means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import numpy as np

from ansorc.ir.aligned import Array


def largest_error(result: Array, expected: Array) -> float:
    """Return the largest deviation as a share of the largest element expected."""
    wide = expected.astype(np.float64)
    largest = float(np.max(np.abs(wide), initial=1e-30))
    return float(np.max(np.abs(result - wide), initial=0.0)) / largest


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the quartiles of one or more values."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive values; NaN if there are none."""
    logarithms = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logarithms)) if logarithms else math.nan


def median_ratio(times: Sequence[float], others: Sequence[float]) -> float:
    """Return the median of other / time over the turns that both had.

    Within a turn both ran on the machine as it was then: its clock cancels out.
    """
    return statistics.median(b / a for a, b in zip(times, others, strict=False))
