"""Measuring that can be trusted: candidates are built and run in processes that may die.

In: a task and candidates (schedule steps, or IR text). Out: timings, or typed failures.
"""

from ansorc.search.measure.concurrent import concurrently, nothing
from ansorc.search.measure.cost import BuildCost, RunCost, Stopwatch
from ansorc.search.measure.measurer import Measurer
from ansorc.search.measure.options import CachePolicy, MeasureOptions, RunOptions
from ansorc.search.measure.result import (
    Failure,
    FailureKind,
    Measurement,
    MeasureResult,
    Source,
)
from ansorc.search.measure.workers import Workers

__all__ = [
    "BuildCost",
    "CachePolicy",
    "Failure",
    "FailureKind",
    "MeasureOptions",
    "MeasureResult",
    "Measurement",
    "Measurer",
    "RunCost",
    "RunOptions",
    "Source",
    "Stopwatch",
    "Workers",
    "concurrently",
    "nothing",
]
