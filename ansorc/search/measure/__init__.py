"""Measuring that can be trusted: candidates are built and run in processes that may die.

In: a task and candidates (schedule steps, or IR text). Out: an `Outcome` of each, which is its
times or a typed failure.

Who starts whom: a `Measurer` of one task uses `Workers`, which may serve many. These keep a
`WorkerPool` of each role and one `ZygoteProcess`, which runs `zygote.py`. It forks the pools'
workers (`worker.py`): a `Builder` makes object code of programs, a `Runner` checks and times it.
"""

from ansorc.search.measure.measurer import Measurer, batch_begins, concurrently, nothing
from ansorc.search.measure.options import CachePolicy, MeasuredCall, MeasureOptions, RunOptions
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.measure.result import (
    BuildCost,
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    RunCost,
    Stopwatch,
)
from ansorc.search.measure.workers import Workers

__all__ = [
    "BuildCost",
    "CachePolicy",
    "Failure",
    "FailureKind",
    "MeasureOptions",
    "MeasuredCall",
    "Measurement",
    "Measurer",
    "Outcome",
    "ProgramText",
    "RunCost",
    "RunOptions",
    "Stopwatch",
    "Workers",
    "batch_begins",
    "concurrently",
    "nothing",
]
