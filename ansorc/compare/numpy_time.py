"""NumPy beside an operator: what the reference runs, in the precision of the operator."""

from __future__ import annotations

import statistics
import time

import numpy as np

from ansorc.lang.reference import evaluate
from ansorc.search.measure.data import draw_inputs
from ansorc.search.task import Task

_NUMPY_REPEATS, _NUMPY_ENOUGH_S = 5, 2.0


def numpy_time(task: Task, rng: np.random.Generator) -> tuple[float, float]:
    """Return (median, spread) seconds of NumPy for the computation of `task` in float32.

    NumPy runs what the reference runs: array expressions and, where they fit, its matrix product.
    """
    inputs, _ = draw_inputs(task, rng)
    times: list[float] = []
    while len(times) < _NUMPY_REPEATS or (sum(times) < _NUMPY_ENOUGH_S / 10):
        begin = time.perf_counter()
        evaluate(task.dag, inputs, np.float32)
        times.append(time.perf_counter() - begin)
        if sum(times) > _NUMPY_ENOUGH_S and len(times) > 1:
            break
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return median, high - low
