"""Measuring that can be trusted: candidates are built and run in processes that may die.

In: a task and candidates (schedule steps, or IR text). Out: timings, or typed failures.
"""

from ansorc.search.measure.measurer import Measurer
from ansorc.search.measure.options import MeasureOptions, RunOptions
from ansorc.search.measure.result import (
    BuildCost,
    Candidate,
    Failure,
    FailureKind,
    Measurement,
    MeasureResult,
)

__all__ = [
    "BuildCost",
    "Candidate",
    "Failure",
    "FailureKind",
    "MeasureOptions",
    "MeasureResult",
    "Measurement",
    "Measurer",
    "RunOptions",
]
