"""Tune the tasks of networks together: rounds of trials go where they are expected to pay."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from ansorc.errors import MeasureError
from ansorc.search.measure import Workers, nothing
from ansorc.search.model import require_model
from ansorc.search.programs import require_this_machine
from ansorc.search.record import Record, Records, current_environment
from ansorc.search.task import Task
from ansorc.search.task_scheduler import SchedulerOptions, TaskProgress, TaskScheduler
from ansorc.search.transfer import definition_without_numbers
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import Trial, TuneResult
from ansorc.search.tuning_run import TuningRun, ignore

_LARGEST_ROUND, _LEAST_ROUND = 32, 8
"""Programs a round; fewer if the trials are for many tasks, so that each gets a few rounds."""
_LOCAL_SEARCH_EVERY, _FIRST_LOCAL_SEARCH = 4, 3
"""Every so many rounds of a task, the first after so many, are a search near its best programs."""


@dataclass(frozen=True)
class Round:
    """One round of one task, for those who watch."""

    task: Task
    number: int
    """Of the task, in the order of the tasks."""
    tasks: int
    gained_s: float
    """How much faster all networks together became by it."""
    latencies: tuple[float, ...]
    """Of the networks, in seconds: the sum of weight x best time; infinite until all have one."""
    trials: int
    total: int
    elapsed_s: float
    bests: tuple[float, ...]
    """Seconds of each task's best program."""
    expected: tuple[float, ...]
    """Seconds that each task's next round is expected to gain, all networks together."""

    @property
    def eta_s(self) -> float:
        """Seconds until all trials are spent, as it goes on so far."""
        return self.elapsed_s / max(self.trials, 1) * max(0, self.total - self.trials)


@dataclass(frozen=True)
class ScheduledResult:
    """What the tuning of networks found."""

    results: tuple[TuneResult, ...]
    """One for each task that was begun."""
    latencies: tuple[float, ...]
    """Of the networks: the sum of weight x best time, in seconds."""
    curve: tuple[tuple[int, tuple[float, ...]], ...]
    """(trials, latencies) after each round."""
    elapsed_s: float
    is_interrupted: bool = False
    notes: tuple[str, ...] = ()


@dataclass
class _Member:
    """A task, its run once it was begun, and its progress."""

    task: Task
    progress: TaskProgress
    run: TuningRun | None = None
    had: int = 0
    """Trials of earlier runs."""


@dataclass
class ScheduledTuning:
    """Tunes `tasks`, each run `networks[j][key]` times in network j; see `run`."""

    tasks: Mapping[str, Task]
    """By their keys."""
    networks: Sequence[Mapping[str, int]]
    """For each network how often it runs each task, by its key."""
    options: TuneOptions
    """`trials` are those of all tasks together."""
    scheduling: SchedulerOptions = field(default_factory=SchedulerOptions)
    on_round: Callable[[Round], None] = lambda _: None
    on_trial: Callable[[Trial], None] = ignore

    def run(self) -> ScheduledResult:
        """Measure until the trials or the time are spent, then let each task's best compete.

        Records of earlier runs count as trials. Ctrl-C ends the run with what is recorded; a later
        one goes on from there. A task of which nothing can be measured is given up with a note.
        Raise TargetError, RecordError, OptionError as `tune_task` does, and MeasureError if no task
        can be measured.
        """
        for task in self.tasks.values():
            require_this_machine(task.target, self.options.cache)
        require_model(self.options.search.cost_model)
        with ExitStack() as stack:
            self._records = stack.enter_context(Records.open(self.options.records))
            self._workers = stack.enter_context(Workers(self.options.for_workers()))
            self._begin = time.monotonic()
            self._curve: list[tuple[int, tuple[float, ...]]] = []
            self._notes: list[str] = []
            self._members = [self._member(key) for key in self.tasks]
            keys = {key: number for number, key in enumerate(self.tasks)}
            numbered = [{keys[k]: w for k, w in network.items()} for network in self.networks]
            rng = np.random.default_rng(self.options.seed)
            self._scheduler = TaskScheduler(numbered, self.scheduling, rng)
            is_interrupted = self._drive(stack)
            return self._result(is_interrupted=is_interrupted)

    @property
    def _round_size(self) -> int:
        each = self.options.trials // max(1, 4 * len(self.tasks))
        return min(_LARGEST_ROUND, max(_LEAST_ROUND, each))

    def _member(self, key: str) -> _Member:
        """A task with the progress that is recorded, as if it had been made in rounds."""
        task, size = self.tasks[key], self._round_size
        environment = current_environment(self.options.threads, self.options.cache)
        best, bests = math.inf, list[float]()
        for record in self._records.all(key, environment):
            if record.checked and record.median_s is not None:
                best = min(best, record.median_s)
            bests.append(best)
        history = [bests[end - 1] for end in range(size, len(bests) + 1, size)]
        if bests and len(bests) % size:
            history.append(bests[-1])
        similar = definition_without_numbers(task.dag)
        return _Member(task, TaskProgress(task.dag.flops, similar, history), had=len(bests))

    def _drive(self, stack: ExitStack) -> bool:
        """Measure round after round, then hold the contests; return whether it was interrupted."""
        try:
            while (size := self._left()) > 0 and not self._is_late():
                number = self._scheduler.next([member.progress for member in self._members])
                if number is None:
                    break
                self._measure(number, min(size, self._round_size), stack)
            for member in self._members:
                if member.run is not None and member.run.best is not None:
                    member.run.finish()
        except KeyboardInterrupt:
            return True
        if all(member.progress.best == math.inf for member in self._members):
            raise MeasureError(self._notes[0] if self._notes else "no program could be measured")
        return False

    def _measure(self, number: int, size: int, stack: ExitStack) -> None:
        """Give one task a round."""
        member = self._members[number]
        progress, before = member.progress, member.progress.best
        run = member.run or self._begun(member, stack)
        rounds = progress.rounds
        is_local = rounds >= _FIRST_LOCAL_SEARCH and rounds % _LOCAL_SEARCH_EVERY == 0
        try:
            batch = run.propose(size, is_local_search=is_local)
            if not len(batch) and is_local:
                batch = run.propose(size, is_local_search=False)
            run.measure(batch, nothing)
            progress.is_over = run.is_exhausted or self._has_its_share(member)
        except MeasureError as error:
            self._notes.append(f"'{member.task.name}' was given up: {error}")
            progress.is_over = True
        best = run.best
        seconds = best.median_s if best is not None and best.median_s else math.inf
        progress.history.append(seconds)
        if progress.is_over:
            run.close()
        self._tell(number, before)

    def _has_its_share(self, member: _Member) -> bool:
        """Whether a task that gets its trials in one piece has had them."""
        if self.scheduling.allocation != "one-by-one" or member.run is None:
            return False
        return member.run.trials >= self.options.trials // len(self.tasks)

    def _begun(self, member: _Member, stack: ExitStack) -> TuningRun:
        """Make the run of a task, late: it begins with what was found for similar ones."""
        options = replace(self.options, trials=self.options.trials // len(self.tasks))
        run = TuningRun(member.task, options, self._records, self._workers, self.on_trial)
        stack.callback(run.close)
        member.run = run
        return run

    def _tell(self, number: int, before: float) -> None:
        progresses = [member.progress for member in self._members]
        seconds = [progress.best for progress in progresses]
        latencies = tuple(self._scheduler.latencies(seconds))
        trials = self._spent()
        self._curve.append((trials, latencies))
        weight = sum(network.get(self._members[number].task.key, 0) for network in self.networks)
        gained = before - seconds[number] if math.isfinite(before) else 0.0
        self.on_round(
            Round(
                self._members[number].task, number, len(self._members), weight * gained, latencies,
                trials, self.options.trials, time.monotonic() - self._begin, tuple(seconds),
                tuple(self._scheduler.gains(progresses)),
            )
        )  # fmt: skip

    def _spent(self) -> int:
        return sum(
            member.had if member.run is None else member.run.trials for member in self._members
        )

    def _left(self) -> int:
        return self.options.trials - self._spent()

    def _is_late(self) -> bool:
        budget = self.options.time_budget
        return budget is not None and time.monotonic() - self._begin >= budget

    def _result(self, *, is_interrupted: bool) -> ScheduledResult:
        results = [member.run.result() for member in self._members if member.run is not None]
        environment = current_environment(self.options.threads, self.options.cache)
        bests = [self._records.best(key, environment) for key in self.tasks]
        latencies = self._scheduler.latencies([_seconds(best) for best in bests])
        return ScheduledResult(
            tuple(results), tuple(latencies), tuple(self._curve),
            time.monotonic() - self._begin, is_interrupted, tuple(self._notes),
        )  # fmt: skip


def _seconds(best: Record | None) -> float:
    return best.median_s if best is not None and best.median_s else math.inf
