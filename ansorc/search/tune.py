"""Tune tasks: propose programs, measure them, learn, keep the best; go on where it stopped.

sketches -> [ evolve by the cost model -> measure -> record -> learn ] -> best program
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Unpack, overload

from ansorc.errors import MeasureError, OptionError
from ansorc.search.live_line import show_in_notebooks
from ansorc.search.machines import Machines, MachinesAhead, choose_in_thread, machines_for
from ansorc.search.measure import nothing
from ansorc.search.measure.drawn_data import require_inputs
from ansorc.search.model import Growth, TreeModel, import_ahead, require_model, what_is_missing
from ansorc.search.record import Records
from ansorc.search.space import require_options
from ansorc.search.task import Task
from ansorc.search.tune_options import TuneOptions, TuneSettings
from ansorc.search.tune_result import RunProgress, TuneResult
from ansorc.search.tuning_run import Batch, TuningRun, ignore

_LEAST_AHEAD = 8
"""Programs that are chosen at once for machines that measure few at a time."""
_ONE_DEVICE = 2
"""Programs in flight of a device alone: it is driven as this machine, and gets the same ones."""


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
    seconds for all tasks together. cache="warm": what the caches hold when a call is timed, also
    "cold" and "cold-weights". measure="kernel": what is timed; "call": a call with other work
    between it and the one before, as a user's. cost_model="trees": what scores programs, also
    "roofline", "random" or an object like `ansorc.search.cost_model.CostModel`. measurer=None:
    where programs are measured, such as an `ac.Fleet`, instead of this machine. After Ctrl-C the
    results are those of the tasks that were begun. inputs={}: arrays by the names of inputs, to
    measure with; others are drawn, what says places over all that there are.
    """
    options = TuneOptions.of(settings)
    dags = [each.dag for each in ([task] if isinstance(task, Task) else task)]
    for dag in dags:
        if dag.dims:
            names = ", ".join(f"{dim.name!r}: …" for dim in dag.dims)
            raise OptionError(
                "programs are measured at one size: tune it at sizes that matter, "
                f"Task(dag.at({{{names}}})), and build the definition with these records"
            )
    options = replace(options, inputs=require_inputs(dags, options.inputs))
    if isinstance(task, Task):
        return tune_task(task, options, show_in_notebooks(task))
    return tune_tasks(task, options)


def tune_tasks(tasks: Sequence[Task], options: TuneOptions) -> list[TuneResult]:
    """Tune one task after the other; each gets its share of the time that is left.

    One cost model learns from all of them (paper §5.2), and the same workers measure them.
    """
    begin = time.monotonic()
    if options.search.cost_model == "trees" and not what_is_missing():
        shared = replace(options.search, cost_model=TreeModel(Growth(seed=options.seed)))
        options = replace(options, search=shared)
    results: list[TuneResult] = []
    with machines_for(options.measurer, options.for_workers()) as machines:
        for number, task in enumerate(tasks):
            share = None
            if options.time_budget is not None:
                left = options.time_budget - (time.monotonic() - begin)
                share = max(0.0, left) / (len(tasks) - number)
            tell = show_in_notebooks(task)
            results.append(_tune_one(task, replace(options, time_budget=share), machines, tell))
            if results[-1].interrupted:
                break
    return results


def tune_task(
    task: Task, options: TuneOptions, on_trial: Callable[[RunProgress], None] = ignore
) -> TuneResult:
    """Tune `task` until `options.trials` programs are recorded, the time is up, or none is new.

    `on_trial` is told of every trial. Ctrl-C ends the run with what is recorded. Raise TargetError
    for a target that is not this machine, RecordError for a record file that cannot be used,
    OptionError for a cost model that is none and for options that the target's programs do not
    have, MeasureError if nothing at all can be measured.
    """
    with machines_for(options.measurer, options.for_workers()) as machines:
        return _tune_one(task, options, machines, on_trial)


def _tune_one(
    task: Task, options: TuneOptions, machines: Machines, on_trial: Callable[[RunProgress], None]
) -> TuneResult:
    machines.require(task.target, options.cache)
    require_model(options.search.cost_model)
    require_options(options.search, task.target)
    with Records.open(options.records) as records:
        with closing(TuningRun(task, options, records, machines, on_trial)) as run:
            try:
                _drive(run, options, machines)
            except KeyboardInterrupt:
                run.is_interrupted = True
        return run.result()


def _drive(run: TuningRun, options: TuneOptions, machines: Machines) -> None:
    """Measure until `options` want no more, then let the best compete.

    The first round is chosen while the workers start.
    """
    if run.is_over:
        return
    ahead: list[Batch] = []

    def choose() -> None:
        ahead.append(run.propose(run.round_size))

    are_many = _are_many(machines)
    run.start(nothing if are_many else choose)
    try:
        if not are_many:
            _measure_rounds(run, ahead, choose, options, machines)
            are_many = _are_many(machines) and not run.is_late
        if are_many and isinstance(machines, MachinesAhead):
            _measure_ahead(run, ahead, machines)
    except MeasureError as error:
        if run.best is None:
            raise
        run.tell(f"stopped early: {error}")
    run.finish()
    run.choose_threads()


def _are_many(machines: Machines) -> bool:
    return isinstance(machines, MachinesAhead) and machines.ahead > _ONE_DEVICE


def _measure_rounds(
    run: TuningRun,
    ahead: list[Batch],
    choose: Callable[[], None],
    options: TuneOptions,
    machines: Machines,
) -> None:
    """Measure what is `ahead` and `choose` more, round by round, unless there come many machines.

    After a large round the next is chosen while its last programs are built, and without knowing
    them: they are those that the model thought least of. LightGBM is imported only for a model that
    chooses one more round.
    """
    learns = options.search.cost_model == "trees"
    while not run.is_late and not _are_many(machines) and (batch := ahead.pop()):
        is_large = len(batch) > options.measuring.batch
        prepare = import_ahead if learns and run.round_size else nothing
        run.measure(batch, choose if is_large else prepare)
        if not ahead:
            choose()


def _measure_ahead(run: TuningRun, ahead: list[Batch], machines: MachinesAhead) -> None:
    """Keep `machines` busy until no more is wanted, beginning with what was chosen `ahead`.

    Programs are chosen by what has come when those before are handed out. In what order results
    come differs from run to run, so what is proposed does, too; the law by which it is does not.
    """
    is_over = False

    def choose() -> Batch:
        nonlocal is_over
        count = run.round_ahead(max(_LEAST_AHEAD, machines.ahead))
        batch = ahead.pop() if ahead else run.propose(count)
        is_over = not batch
        return batch

    choosing = choose_in_thread(lambda: None if is_over else choose, run.with_measurer)
    with closing(choosing) as chosen, closing(machines.stream(chosen)) as arrivals:
        for _, program, outcome in arrivals:
            run.take(program, outcome)
            if run.is_late:
                break
