"""Time programs against each other: times of different minutes do not compare to the percent."""

from __future__ import annotations

from collections.abc import Iterable

from ansorc.search.measure import Failure, Measurement, Measurer, ProgramText
from ansorc.search.task import Task
from ansorc.search.tune_options import TuneOptions

_ATTEMPTS = 3
"""Programs that were measured before fail again only where the machine was overloaded."""


def timed_in_turns(
    task: Task, programs: Iterable[ProgramText], options: TuneOptions
) -> dict[ProgramText, float]:
    """Return the median seconds of `programs`, timed in turns in one process.

    Exit with the failures if not all of them can be timed.
    """
    wanted = list(dict.fromkeys(programs))
    failures: list[str] = []
    for _ in range(_ATTEMPTS):
        with Measurer(task, options.for_workers()) as measurer:
            outcomes = measurer.rank(wanted)
        times = {
            program: outcome.median_s
            for program, outcome in zip(wanted, outcomes, strict=True)
            if isinstance(outcome, Measurement)
        }
        if len(times) == len(wanted):
            return times
        failures += [
            f"{outcome.kind.value}, {outcome.message}"
            for outcome in outcomes
            if isinstance(outcome, Failure)
        ]
    reasons = "; ".join(dict.fromkeys(failures)) or "the worker was lost"
    raise SystemExit(f"{task.name}: not all of the best programs ran again: {reasons}")
