"""Measuring that can be trusted: candidates are built and run in processes that may die.

In: a task and candidates (schedule steps, or IR text). Out: timings, or typed failures.
"""

from ansorc.search.measure.cost import BuildCost, RunCost
from ansorc.search.measure.measurer import Measurer
from ansorc.search.measure.options import CachePolicy, MeasureOptions, RunOptions
from ansorc.search.measure.result import (
    Candidate,
    Failure,
    FailureKind,
    Measurement,
    MeasureResult,
)
from ansorc.search.measure.stopwatch import Stopwatch

__all__ = [
    "BuildCost",
    "CachePolicy",
    "Candidate",
    "Failure",
    "FailureKind",
    "MeasureOptions",
    "MeasureResult",
    "Measurement",
    "Measurer",
    "RunCost",
    "RunOptions",
    "Stopwatch",
]
