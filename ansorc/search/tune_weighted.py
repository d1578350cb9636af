"""Tune the tasks of several networks together: the task scheduler drives many tuning runs."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from ansorc.errors import AnsorcError, MeasureError, OptionError, RecordError
from ansorc.search.contest import CONTENDERS
from ansorc.search.machines import (
    Machines,
    MachinesAhead,
    MeasurerProgram,
    TaskMeasurer,
    choose_in_thread,
    machines_for,
)
from ansorc.search.measure import nothing
from ansorc.search.model import import_ahead, require_model
from ansorc.search.options import Scheduling
from ansorc.search.record import Records
from ansorc.search.space import require_options
from ansorc.search.task import Task
from ansorc.search.task_scheduler import Round, TaskProgress, TaskScheduler, TaskStatus
from ansorc.search.transfer import structure_of
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress, TuneResult
from ansorc.search.tuning_run import Batch, TuningRun, curve_of
from ansorc.target.units import seconds_text

_CONTEST_SHARE, _MOST_CONTEST_SHARE = 0.1, 0.5
"""Shares of a limited time for the contests: the least, and where they need more, the most."""
_Choice: TypeAlias = tuple[int, Batch]
"""The number of a task, and its next programs."""


@dataclass(frozen=True)
class WeightedTasks:
    """A network as the tuner sees it: tasks, and how often each is run for one inference."""

    name: str
    tasks: tuple[tuple[Task, float], ...]
    """Tasks of equal keys, here or in another network, are tuned once."""

    def __post_init__(self) -> None:
        """Raise OptionError for a network without tasks, or weights that are not positive."""
        if not self.tasks or any(weight <= 0 for _, weight in self.tasks):
            raise OptionError(f"'{self.name}' needs tasks, with weights of more than 0")


@dataclass(frozen=True)
class TaskReport:
    """How far one task is."""

    task: Task
    trials: int
    """Those of earlier runs included."""
    best_s: float | None
    share: float
    """The share of the time of all networks together, 0 to 1."""
    expected_gain: float
    """The share of the objective that its next round should save, by the scheduler's estimate."""
    status: TaskStatus


@dataclass(frozen=True)
class RoundReport:
    """The state of tuning after one round."""

    tasks: tuple[TaskReport, ...]
    """In the order in which the networks name them first."""
    measured: int
    """The number of the task whose round it was."""
    latencies: tuple[float, ...]
    """Seconds of each network; inf while one of its tasks has no program."""
    objective: float
    trials: int
    """The trials of all tasks, those of earlier runs included."""
    total: int
    elapsed_s: float
    eta_s: float
    """Seconds until `total` is reached or the time is up; tuning may end before."""


@dataclass(frozen=True)
class CurvePoint:
    """Latencies of the networks after so many trials of all tasks."""

    trials: int
    elapsed_s: float
    latencies: tuple[float, ...]


@dataclass(frozen=True)
class ScheduledResult:
    """The best programs of the tasks of some networks."""

    networks: tuple[WeightedTasks, ...]
    results: tuple[TuneResult, ...]
    """The result of each task, in the order in which the networks name them first."""
    curve: tuple[CurvePoint, ...]
    """After each round of this process in which all tasks had a program."""
    elapsed_s: float
    interrupted: bool = False
    trials_spared: int = 0
    """Trials left of those asked for, as no task was expected to gain by them."""

    def __repr__(self) -> str:
        times = zip(self.networks, self.latencies, strict=True)
        words = ", ".join(f"{network.name} {seconds_text(latency)}" for network, latency in times)
        return f"<ScheduledResult: {words}; {len(self.results)} tasks>"

    def __str__(self) -> str:
        return "\n".join((repr(self), *map(str, self.results)))

    def result_of(self, task: Task) -> TuneResult:
        """Return the result of `task`; raise KeyError if it is in none of the networks."""
        return {result.task.key: result for result in self.results}[task.key]

    @property
    def latencies(self) -> tuple[float, ...]:
        """Seconds of each network: of its best programs, as often as it runs them."""
        seconds = {result.task.key: _seconds(result) for result in self.results}
        return tuple(
            sum(weight * seconds[task.key] for task, weight in network.tasks)
            for network in self.networks
        )


def _seconds(result: TuneResult) -> float:
    return (result.best and result.best.median_s) or math.inf


def ignore_round(report: RoundReport) -> None:
    """Show nothing of `report`."""


def ignore_trial(task: Task, progress: RunProgress) -> None:
    """Show nothing of `progress`."""


def tune_weighted(
    networks: Sequence[WeightedTasks],
    options: TuneOptions,
    scheduling: Scheduling | None = None,
    on_round: Callable[[RoundReport], None] = ignore_round,
    on_trial: Callable[[Task, RunProgress], None] = ignore_trial,
) -> ScheduledResult:
    """Tune the tasks of `networks` with one budget of trials, those first that make them faster.

    `scheduling.trials` programs are measured in all, or until `options.time_budget` is up or no
    task has anything to gain. Then each task has its contest, those first that take most of the
    networks' time, each with its share of the time that is left; so much is kept that all can be
    held. What is decided follows from the records and the seed: a run that was killed goes on as
    it would have, at most one trial of each worker is lost. Ctrl-C ends it with what is recorded. A
    task that cannot be tuned is given up, with a note in its result.

    Raise TargetError for a target that is not this machine, RecordError for a record file that
    cannot be used, OptionError for options that make no sense; what a task failed by, usually
    MeasureError, if all of them did.
    """
    tasks = _distinct(networks)
    if not tasks:
        raise OptionError("there are no networks to tune")
    require_model(options.search.cost_model)
    for task in tasks:
        require_options(options.search, task.target)
    scheduler = _scheduler(networks, tasks, options, scheduling or Scheduling())
    with (
        machines_for(options.measurer, options.for_workers()) as machines,
        Records.open(options.records) as records,
    ):
        for task in tasks:
            machines.require(task.target, options.cache)
        driver = _Driver(tasks, scheduler, options, records, machines, on_round, on_trial)
        try:
            if isinstance(machines, MachinesAhead):
                driver.tune_ahead(machines)
            else:
                driver.tune()
            driver.finish()
        except KeyboardInterrupt:
            driver.is_interrupted = True
        finally:
            driver.close()
        return ScheduledResult(
            tuple(networks), driver.results(), tuple(driver.curve), driver.elapsed_s,
            driver.is_interrupted, driver.trials_spared,
        )  # fmt: skip


def _distinct(networks: Sequence[WeightedTasks]) -> list[Task]:
    by_key: dict[str, Task] = {}
    for network in networks:
        for task, _ in network.tasks:
            by_key.setdefault(task.key, task)
    return list(by_key.values())


def _scheduler(
    networks: Sequence[WeightedTasks],
    tasks: Sequence[Task],
    options: TuneOptions,
    scheduling: Scheduling,
) -> TaskScheduler:
    numbers = {task.key: number for number, task in enumerate(tasks)}
    weights = [[0.0] * len(tasks) for _ in networks]
    for row, network in zip(weights, networks, strict=True):
        for task, weight in network.tasks:
            row[numbers[task.key]] += weight
    trials = options.trials * len(tasks) if scheduling.trials is None else scheduling.trials
    scheduler = TaskScheduler(
        scheduling, tuple(map(tuple, weights)), trials, options.seed, options.search.polish_share
    )
    scheduler.value([TaskProgress()] * len(tasks))  # raises what the options should not be
    return scheduler


@dataclass(eq=False)
class _Driver:
    """Does the rounds that a scheduler chooses, by a run for each task that is begun."""

    tasks: list[Task]
    scheduler: TaskScheduler
    options: TuneOptions
    records: Records
    machines: Machines
    on_round: Callable[[RoundReport], None]
    on_trial: Callable[[Task, RunProgress], None]
    curve: list[CurvePoint] = field(default_factory=list[CurvePoint])
    is_interrupted: bool = False
    is_short_of_time: bool = False
    """Whether a task was given up because the time was not enough for one more program."""

    def __post_init__(self) -> None:
        self._begin = time.monotonic()
        if (budget := self.options.time_budget) is not None:
            measuring, share_s = self.options.measuring, _CONTEST_SHARE * budget / len(self.tasks)
            run = replace(measuring.run, rank_total_s=min(measuring.run.rank_total_s, share_s))
            self.options = replace(self.options, measuring=replace(measuring, run=run))
        options, target = self.options, self.tasks[0].target
        self._environment = self.machines.environment(options.threads, options.cache, target)
        self._runs: dict[int, TuningRun] = {}
        self._errors: dict[int, AnsorcError] = {}
        self._groups = [structure_of(task.dag) for task in self.tasks]
        self._progress = [self._read_progress(number) for number in range(len(self.tasks))]
        self._before = tuple(task.trials for task in self._progress)

    @property
    def elapsed_s(self) -> float:
        """Seconds since tuning began."""
        return time.monotonic() - self._begin

    @property
    def trials_spared(self) -> int:
        """The trials that are left where the scheduler wants no more of them."""
        is_cut_off = self.is_interrupted or self.is_short_of_time
        is_over = not is_cut_off and self.scheduler.next(self._progress) is None
        return max(0, self.scheduler.trials - self._trials) if is_over else 0

    @property
    def _trials(self) -> int:
        return sum(task.trials for task in self._progress)

    def tune(self) -> None:
        """Do rounds until the scheduler wants no more, or the time is up."""
        while self._rounds_left_s() != 0.0:
            chosen = self.scheduler.next(self._progress)
            if chosen is None:
                break
            is_over = False
            try:
                is_over = not self._measure(chosen)
            except RecordError:
                raise
            except AnsorcError as error:
                self._errors[chosen.task] = error
                is_over = True
            self._progress[chosen.task] = self._read_progress(chosen.task, is_over=is_over)
            self._rest()
            self._report(chosen.task)
        if len(self._errors) == len(self.tasks) and not any(task.curve for task in self._progress):
            raise next(iter(self._errors.values()))

    def tune_ahead(self, machines: MachinesAhead) -> None:
        """As `tune`, with so many programs in flight as the machines want, of several tasks."""
        while self._measure_ahead(machines):
            pass
        if len(self._errors) == len(self.tasks) and not any(task.curve for task in self._progress):
            raise next(iter(self._errors.values()))

    def _measure_ahead(self, machines: MachinesAhead) -> bool:
        """Measure until the scheduler wants no more for now; whether there was anything."""
        flying, numbers = Counter[int](), dict[TaskMeasurer, int]()
        choosing = choose_in_thread(
            partial(self._next_ahead, flying), partial(self._plan, flying, numbers)
        )
        with closing(choosing) as chosen, closing(machines.stream(chosen)) as arrivals:
            for measurer, program, outcome in arrivals:
                number = numbers[measurer]
                flying[number] -= 1
                try:
                    self._run(number).take(program, outcome)
                except MeasureError as error:
                    self._errors[number] = error
                is_over = number in self._errors or self._progress[number].is_over
                self._progress[number] = self._read_progress(number, is_over=is_over)
                if not flying[number]:  # a round of it has ended
                    self._report(number)
                if self._rounds_left_s() == 0.0:
                    return False
        return bool(flying)

    def _next_ahead(self, flying: Counter[int]) -> Callable[[], _Choice] | None:
        """Return the proposer of the next round, those under way counted; None: no round now."""
        progress = [
            replace(task, trials=task.trials + flying[number])
            for number, task in enumerate(self._progress)
        ]
        if self._rounds_left_s() == 0.0 or (chosen := self.scheduler.next(progress)) is None:
            return None
        run = self._run(chosen.task)

        def propose() -> _Choice:
            batch: Batch = ()
            try:
                batch = run.propose(chosen.trials, is_local_search=chosen.is_local_search)
            except AnsorcError as error:
                self._errors[chosen.task] = error
            return chosen.task, batch

        return propose

    def _plan(
        self, flying: Counter[int], numbers: dict[TaskMeasurer, int], choice: _Choice
    ) -> list[MeasurerProgram]:
        """Return the programs of a round, which is under way from now on."""
        number, batch = choice
        run = self._run(number)
        try:
            if batch:
                run.start()
        except RecordError:
            raise
        except AnsorcError as error:
            self._errors[number] = error
            batch = ()
        if not batch:
            self._progress[number] = self._read_progress(number, is_over=True)
        else:
            numbers[run.measurer] = number
        flying[number] += len(batch)
        return run.with_measurer(batch)

    def finish(self) -> None:
        """Let the best programs of each task compete, as long as the time allows, once at least."""
        seconds = self.scheduler.task_seconds(self._progress)
        rest = sum(seconds)
        for number in sorted(range(len(self.tasks)), key=lambda n: -seconds[n]):
            if not self._progress[number].curve:
                continue
            run, left = self._run(number), self._remaining_s()
            share, rest = seconds[number] / rest if rest > 0 else 0.0, rest - seconds[number]
            try:
                run.finish(math.inf if left is None else share * left)
            except RecordError:
                raise
            except AnsorcError as error:
                run.tell(f"the best programs were not compared: {error}")
            run.close()

    def close(self) -> None:
        """Free what the runs hold."""
        for run in self._runs.values():
            run.close()

    def results(self) -> tuple[TuneResult, ...]:
        """Return the result of each task, begun or not."""
        status = self.scheduler.status(self._progress)
        results: list[TuneResult] = []
        for number in range(len(self.tasks)):
            run = self._run(number)
            run.is_interrupted = self.is_interrupted
            if number in self._errors:
                run.tell(f"given up: {self._errors[number]}")
            elif status[number] == "failed":
                run.tell(f"given up: none of its {run.trials} programs has a time")
            results.append(run.result())
        return tuple(results)

    def _measure(self, chosen: Round) -> bool:
        """Do one round; return whether there was anything to measure, and time for it."""
        run, proposed = self._run(chosen.task), list[Batch]()

        def choose() -> None:
            proposed.append(run.propose(chosen.trials, is_local_search=chosen.is_local_search))

        run.start(choose)
        (batch,) = proposed
        if not batch:
            return False
        learns, before = self.options.search.cost_model == "trees", run.trials
        run.measure(batch, import_ahead if learns else nothing)
        is_measured = run.trials > before
        self.is_short_of_time |= not is_measured
        return is_measured

    def _run(self, number: int) -> TuningRun:
        """The run of a task, made when it is first wanted: it profits from what others found."""
        if (run := self._runs.get(number)) is None:
            task = self.tasks[number]
            left_s = self._rounds_left_s()
            options = replace(self.options, trials=self.scheduler.trials, time_budget=left_s)

            def tell(progress: RunProgress) -> None:
                self.on_trial(task, progress)

            run = TuningRun(task, options, self.records, self.machines, tell)
            self._runs[number] = run
        return run

    def _remaining_s(self) -> float | None:
        """Seconds until the time is up; None where it is not limited."""
        budget = self.options.time_budget
        return None if budget is None else max(0.0, budget - self.elapsed_s)

    def _rounds_left_s(self) -> float | None:
        """Seconds until the contests have to begin; None where the time is not limited."""
        if (budget := self.options.time_budget) is None:
            return None
        needed = min(max(_CONTEST_SHARE * budget, self._contests_s()), _MOST_CONTEST_SHARE * budget)
        return max(0.0, budget - needed - self.elapsed_s)

    def _contests_s(self) -> float:
        """Seconds that a contest of each task takes: its programs are built, and run some times."""
        new = [task.trials - old for task, old in zip(self._progress, self._before, strict=True)]
        each_s = self.elapsed_s / max(sum(new), 1)
        least = self.options.measuring.run.rank_least_rounds
        return sum(
            min(task.trials, CONTENDERS + 1) * max(each_s, 2 * least * task.best_s)
            for task, count in zip(self._progress, new, strict=True)
            if count and task.trials > 1 and task.curve
        )

    def _read_progress(self, number: int, *, is_over: bool = False) -> TaskProgress:
        task = self.tasks[number]
        known = self.records.all(task.key, self._environment)
        return TaskProgress(
            len(known), curve_of(known), task.dag.flops, self._groups[number], is_over
        )

    def _rest(self) -> None:
        """Free the memory of tasks that get no rounds for now."""
        for number, status in enumerate(self.scheduler.status(self._progress)):
            if status != "active" and number in self._runs:
                self._runs[number].close()

    def _report(self, measured: int) -> None:
        scheduler, progress = self.scheduler, self._progress
        latencies, value = scheduler.latencies(progress), scheduler.value(progress)
        if all(math.isfinite(latency) for latency in latencies):
            self.curve.append(CurvePoint(self._trials, self.elapsed_s, latencies))
        report = RoundReport(
            self._task_reports(value), measured, latencies, value, self._trials, scheduler.trials,
            self.elapsed_s, self._eta_s(),
        )  # fmt: skip
        self.on_round(report)

    def _task_reports(self, value: float) -> tuple[TaskReport, ...]:
        seconds = self.scheduler.task_seconds(self._progress)
        gradients = self.scheduler.gradients(self._progress)
        status = self.scheduler.status(self._progress)
        whole, reports = sum(seconds) or 1.0, list[TaskReport]()
        for number, known in enumerate(self._progress):
            best_s = known.best_s if known.curve else None
            gain = abs(gradients[number] / value) if status[number] == "active" else 0.0
            share = seconds[number] / whole
            reports.append(
                TaskReport(self.tasks[number], known.trials, best_s, share, gain, status[number])
            )
        return tuple(reports)

    def _eta_s(self) -> float:
        """Seconds that the rest takes at the rate so far, or until the time is up."""
        rate = (self._trials - sum(self._before)) / max(self.elapsed_s, 1e-9)
        rest = (self.scheduler.trials - self._trials) / rate if rate else 0.0
        left = self._remaining_s()
        return rest if left is None else min(rest, left)
