"""Labels: the throughput of each program as a share of the best of its task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import Sample


def best_seconds(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the least time of each task that has a success."""
    best: dict[str, float] = {}
    for sample in samples:
        if sample.seconds is not None:
            best[sample.task] = min(best.get(sample.task, np.inf), sample.seconds)
    return best


def labels_of(samples: Sequence[Sample]) -> npt.NDArray[np.float64]:
    """Return [samples]: the best time of the sample's task / its time; 0 for a failure."""
    best = best_seconds(samples)
    return np.array([0.0 if s.seconds is None else best[s.task] / s.seconds for s in samples])
