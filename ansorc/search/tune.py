"""Tune tasks: propose programs, measure them, learn, keep the best; go on where it stopped.

sketches -> [ evolve by the cost model -> measure -> record -> learn ] -> best program
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ansorc.search.record import Records
from ansorc.search.task import Task
from ansorc.search.trial import Trial
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import TuneResult
from ansorc.search.tuning_run import TuningRun


def ignore(trial: Trial) -> None:
    """Show nothing of `trial`."""


def tune(
    task: Task,
    *,
    trials: int = 200,
    records: str | Path = "tune.db",
    seed: int = 0,
    threads: int = 0,
    time_budget: float | None = None,
) -> TuneResult:
    """Find a fast program for `task` on this machine; see `tune_task`."""
    options = TuneOptions(
        trials=trials, records=Path(records), seed=seed, threads=threads, time_budget=time_budget
    )
    return tune_task(task, options)


def tune_task(
    task: Task, options: TuneOptions, on_trial: Callable[[Trial], None] = ignore
) -> TuneResult:
    """Tune `task` until `options.trials` programs are recorded, the time is up, or none is new.

    `on_trial` is told of every trial. Ctrl-C ends the run with what is recorded. Raise RecordError
    for a record file that cannot be used, MeasureError if nothing at all can be measured.
    """
    with Records.open(options.records) as records:
        records.add_task(task)
        run = TuningRun(task, options, records, on_trial)
        try:
            run.measure()
        except KeyboardInterrupt:
            run.is_interrupted = True
        return run.result()
