"""Tune tasks: propose programs, measure them, learn, keep the best; go on where it stopped.

sketches -> [ evolve by the cost model -> measure -> record -> learn ] -> best program
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack, overload

from ansorc.search.model import require_model
from ansorc.search.programs import require_this_machine
from ansorc.search.record import Records
from ansorc.search.task import Task
from ansorc.search.trial import Trial
from ansorc.search.tune_options import TuneOptions, TuneSettings
from ansorc.search.tune_result import TuneResult
from ansorc.search.tuning_run import TuningRun


def ignore(trial: Trial) -> None:
    """Show nothing of `trial`."""


@overload
def tune(task: Task, **settings: Unpack[TuneSettings]) -> TuneResult: ...


@overload
def tune(task: Sequence[Task], **settings: Unpack[TuneSettings]) -> list[TuneResult]: ...


def tune(
    task: Task | Sequence[Task], **settings: Unpack[TuneSettings]
) -> TuneResult | list[TuneResult]:
    """Find a fast program for `task`, or for each of several, on this machine; see `tune_task`.

    trials=200: programs to measure for each task. records="tune.db": the file that keeps them.
    seed=0: of all random choices. threads=0: of the kernels, 0 means all cores. time_budget=None:
    seconds for all tasks together. cache="warm": what the caches hold when a call is timed, or
    "cold". cost_model="trees": what scores programs, also "roofline",
    "random" or an object like `ansorc.search.cost_model.CostModel`. After Ctrl-C the results are
    those of the tasks that were begun.
    """
    options = TuneOptions.of(settings)
    return tune_task(task, options) if isinstance(task, Task) else tune_tasks(task, options)


def tune_tasks(tasks: Sequence[Task], options: TuneOptions) -> list[TuneResult]:
    """Tune one task after the other; each gets its share of the time that is left."""
    begin = time.monotonic()
    results: list[TuneResult] = []
    for number, task in enumerate(tasks):
        share = None
        if options.time_budget is not None:
            left = options.time_budget - (time.monotonic() - begin)
            share = max(0.0, left) / (len(tasks) - number)
        results.append(tune_task(task, replace(options, time_budget=share)))
        if results[-1].interrupted:
            break
    return results


def tune_task(
    task: Task, options: TuneOptions, on_trial: Callable[[Trial], None] = ignore
) -> TuneResult:
    """Tune `task` until `options.trials` programs are recorded, the time is up, or none is new.

    `on_trial` is told of every trial. Ctrl-C ends the run with what is recorded. Raise TargetError
    for a target that is not this machine, RecordError for a record file that cannot be used,
    OptionError for a cost model that is none, MeasureError if nothing at all can be measured.
    """
    require_this_machine(task.target)
    require_model(options.search.cost_model)
    with Records.open(options.records) as records:
        records.add_task(task)
        run = TuningRun(task, options, records, on_trial)
        try:
            run.measure()
        except KeyboardInterrupt:
            run.is_interrupted = True
        return run.result()
