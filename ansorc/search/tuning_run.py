"""One task being tuned, round by round: proposing, measuring, recording and learning."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ansorc.errors import MeasureError
from ansorc.schedule import Names
from ansorc.schedule.names import Steps
from ansorc.search.contest import Final, Ranking
from ansorc.search.machines import Machines, MeasurerProgram, TaskMeasurer
from ansorc.search.measure import (
    BuildCost,
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    ProgramText,
    RunCost,
    Stopwatch,
    concurrently,
    nothing,
)
from ansorc.search.measure.drawn_data import describe_data
from ansorc.search.programs import default_program
from ansorc.search.proposals import Proposals
from ansorc.search.record import Record, Records
from ansorc.search.task import Task
from ansorc.search.thread_count_op import choose_threads, estimate_choosing_s, find_threads
from ansorc.search.time_budget import TimeBudget
from ansorc.search.transfer import find_related_programs
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress, TimeSpent, TuneResult
from ansorc.target.units import seconds_text

_LOG = logging.getLogger(__name__)
_FIRST_ROUND = 16
"""Programs measured before the model is first asked: the earlier it learns, the more it helps."""
_LOCAL_SEARCHES, _LEAST_NEIGHBOURS = 4, 6
"""So many rounds at the end are local searches around what was found, of so many programs each at
least."""
_ALL_FAILED = 64
"""So many failures without one success end the run: the fault is not the programs'."""


Batch: TypeAlias = Sequence[ProgramText]
"""Programs that one run has chosen, to be measured in this order."""


def ignore(progress: RunProgress) -> None:
    """Show nothing of `progress`."""


class TuningRun:
    """Tunes one task, as far and as fast as its driver wants; every trial is on disk at once.

    To make a run measures nothing and starts no process. Any number of runs may take turns, with
    the same worker processes and the same record file:

        with Records.open(path) as records, ThisMachine() as machines:
            runs = [TuningRun(task, options, records, machines) for task in tasks]
            while (run := choose(runs)) is not None:  # by their `best`, `curve`, `is_exhausted`
                run.measure(run.propose(16))
            for run in runs:
                run.finish()  # the fastest programs compete
                run.close()
            results = [run.result() for run in runs]

    Runs share nothing else, unless their options hold one cost model, so that each proposes what it
    would alone. What a run knows follows from its options and the records: it may be dropped after
    any round, and one made later goes on where it was. `close` frees what proposing and measuring
    need, which the next round makes again.

    A run belongs to one thread, but `propose` may be called in another one during `measure`.
    `options.trials` and `options.time_budget` are what `round_size` and the local search go by; a
    driver may ask for other rounds. `on_trial` is told of every trial.
    """

    def __init__(
        self,
        task: Task,
        options: TuneOptions,
        records: Records,
        machines: Machines,
        on_trial: Callable[[RunProgress], None] = ignore,
    ) -> None:
        self._task, self._options, self._records = task, options, records
        self._machines, self._on_trial = machines, on_trial
        self._data = describe_data(task.dag, options.inputs)
        self._environment = machines.environment(options.threads, options.cache, task.target)
        self._shared = task.with_threads(self._environment.running)
        records.add_task(task)
        self._known = records.all(task.key, self._environment)
        self._earlier = len(self._known)
        self._best = records.best(task.key, self._environment)
        self._keys = records.measured(task.key, self._environment)
        self._chosen_at: dict[str, int] = {}
        """By the keys of programs that are chosen and not measured: `Record.known` of each."""
        self._related: list[Steps] = []
        self._read_related()
        self._measurer: TaskMeasurer | None = None
        self._failures: Counter[str] = Counter()
        self._first_failure: Failure | None = None
        self._budget = TimeBudget(options.time_budget)
        self._watch = Stopwatch()
        self._builds: list[BuildCost] = []
        self._runs: list[RunCost] = []
        self._proposed = 0
        self._ranking: Ranking | None = None
        self._notes = list(records.notes)
        self.is_exhausted = False
        """Whether nothing was left to propose."""
        self.is_interrupted = False
        _LOG.info(
            "tuning %s for %s: %d programs recorded, %d asked for",
            task.name, task.target.text, self._earlier, options.trials,
        )  # fmt: skip

    @property
    def task(self) -> Task:
        """The task that is tuned."""
        return self._task

    @property
    def best(self) -> Record | None:
        """The fastest checked program so far, those of earlier runs included."""
        return self._best

    @property
    def _best_s(self) -> float:
        """The time of the fastest one; 0 if there is none."""
        return (self._best and self._best.median_s) or 0.0

    @property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """(trial, best seconds so far) at each improvement, as `TuneResult.curve`."""
        return curve_of(self._records.all(self._task.key, self._environment))

    @property
    def measurer(self) -> TaskMeasurer:
        """The measurer of its programs, from `start` on until `close`."""
        assert self._measurer is not None
        return self._measurer

    @property
    def trials(self) -> int:
        """Programs of the task that are recorded, those of earlier runs included."""
        return len(self._known)

    @property
    def is_over(self) -> bool:
        """Return whether its options ask for nothing more, neither trials nor a contest."""
        return self._count_remaining() <= 0 and self._final.is_decided

    @property
    def is_late(self) -> bool:
        """Return whether the time that its options give it is up."""
        return self._budget.is_late

    @property
    def round_size(self) -> int:
        """How many programs its options want in the next round; 0 at the end.

        Fewer while there is little to learn from, and in the local search at the end.
        """
        left, last = self._count_remaining(), self._local_search_trials()
        if left <= 0 or self.is_exhausted or self.is_late:
            return 0
        if left <= last:  # each round goes on from what the one before found
            return min(left, max(_LEAST_NEIGHBOURS, math.ceil(last / _LOCAL_SEARCHES)))
        most = self._options.search.trials_per_round
        size = min(max(_FIRST_ROUND, self._count_planned() // 2), most)
        before_last = left - last
        is_last = before_last < size + size // 4  # a few more are not worth a round
        return min(before_last, most) if is_last else size

    def round_ahead(self, ahead: int) -> int:
        """As `round_size`, for machines that have `ahead` programs in flight: as many as these."""
        return min(ahead, self._count_remaining()) if self.round_size else 0

    def propose(self, count: int, *, is_local_search: bool | None = None) -> Batch:
        """Return the next programs to measure, `count` of them or what there is.

        The first ones of a task are the untuned default and what was fast for related tasks.
        `is_local_search` asks for neighbours of the fastest programs; None: if the last trials of
        the options have come.
        """
        if count <= 0:
            return []
        with self._watch.phase("search"):
            known, is_last = self.trials, self._count_remaining() <= self._local_search_trials()
            first = self._first(count)
            self._keys.update(program.key for program in first)
            more = count - len(first)
            proposed: list[ProgramText] = []
            if more > 0:
                is_local = is_last if is_local_search is None else is_local_search
                proposed = self._proposals.propose(more, self._keys, is_local_search=is_local)
                self.is_exhausted = not proposed
            self._keys.update(program.key for program in proposed)
            batch = [*first, *proposed]
            self._chosen_at.update((program.key, known) for program in batch)
            self._proposed += len(batch)
            _LOG.info(
                "%s: %d programs chosen after %d trials, %s", self._task.name,
                len(batch), known, "by local search" if is_last else "by the model",
            )  # fmt: skip
            return batch

    def start(self, meanwhile: Callable[[], None] = nothing) -> None:
        """Make ready to measure, and do `meanwhile` in another thread; `measure` would, too.

        Raise MeasureError if the workers do not start.
        """
        self._read_related()
        with self._watch.phase("search"), concurrently(meanwhile):
            if self._measurer is None:
                options = self._options.for_workers()
                self._measurer = self._machines.open(self._task, options, self._best_s, self._watch)

    def measure(self, batch: Batch, meanwhile: Callable[[], None] = nothing) -> None:
        """Measure `batch`, record each outcome as it comes, and learn from it.

        `meanwhile` is done in another thread while its last programs are built. Stops when what is
        left of the time of the options is not enough for one more, or for the contest. Raise
        MeasureError where nothing but failures comes.
        """
        self.start()
        waiting = list(batch)
        while waiting and not self.is_late:
            builders = self._options.measuring.builders
            count = self._budget.affordable(len(waiting), builders, self._best_s)
            part, waiting = waiting[:count], waiting[count:]
            if part:
                self._measure_part(part, nothing if waiting else meanwhile)

    def _measure_part(self, part: Batch, meanwhile: Callable[[], None]) -> None:
        """Measure programs for which there should be time, and note what they cost."""
        begin = self._budget.elapsed_s
        outcomes = self.measurer.measure(part, meanwhile)
        for number, (program, outcome) in enumerate(zip(part, outcomes, strict=True), 1):
            self.take(program, outcome)
            if self.is_late:
                self._budget.note(number, self._budget.elapsed_s - begin)
                return
        self._budget.note(len(part), self._budget.elapsed_s - begin)

    def with_measurer(self, batch: Batch) -> list[MeasurerProgram]:
        """Return `batch` as machines that measure ahead take it; the run has started."""
        return [(self.measurer, program) for program in batch]

    def take(self, program: ProgramText, outcome: Outcome) -> None:
        """Record what came of a program of this run, and learn from it; raise as `measure`."""
        self._note(program, outcome)
        if isinstance(outcome, Measurement):
            self._proposals.learn(program, outcome.median_s)
        elif outcome.kind is not FailureKind.UNTIMED:
            self._proposals.learn(program, None)

    def finish(self, limit_s: float | None = None) -> None:
        """Time the fastest programs against each other, unless that is decided already.

        After `limit_s` they are not timed again; None: after the time of the options.
        """
        if self._final.is_decided:
            return
        self.start()
        with self._watch.phase("contest"):
            limit_s = self._budget.left_s if limit_s is None else limit_s
            self._ranking = self._final.hold(self.measurer, self._record, limit_s)
        self._best = self._records.best(self._task.key, self._environment)
        if self._best is not None:
            _LOG.info(
                "%s: %s wins the contest, %s", self._task.name, self._best.program_key,
                seconds_text(self._best.median_s),
            )  # fmt: skip

    def choose_threads(self) -> None:
        """Measure with how many threads the best program is the fastest, unless that is known.

        Where the time of the options is up, that is not measured of a program that takes long.
        """
        if self._best is None or self._measurer is None:
            return
        if self._budget.has_time_for(estimate_choosing_s(self._best)):
            choose_threads(self._measurer, self._records, self._best)
        else:
            self.tell("no time was left to compare numbers of threads")

    def close(self) -> None:
        """Free what proposing and measuring need; the workers are the driver's.

        May be called twice. What was proposed must have been measured.
        """
        vars(self).pop("_proposals", None)
        if self._measurer is not None:
            self._measurer.close()
            self._measurer = None

    def tell(self, note: str) -> None:
        """Add what the user should know to the result."""
        _LOG.info("%s: %s", self._task.name, note)
        self._notes.append(note)

    def result(self) -> TuneResult:
        """Return what was found so far, in this and in earlier runs."""
        known = self._records.all(self._task.key, self._environment)
        key, best = self._default.key, self._records.best(self._task.key, self._environment)
        return TuneResult(
            task=self._task,
            best=best,
            threads=find_threads(self._records, best) if best else 0,
            default=next((record for record in known if record.program_key == key), None),
            curve=curve_of(known),
            trials=len(known),
            measured_now=self._measured,
            elapsed_s=(elapsed_s := self._budget.elapsed_s),
            spent=TimeSpent.of(
                self._watch, elapsed_s, BuildCost.sum(self._builds), RunCost.sum(self._runs)
            ),
            ranking=self._ranking,
            failures=dict(self._failures),
            first_failure=self._first_failure.message if self._first_failure else "",
            exhausted=self.is_exhausted,
            interrupted=self.is_interrupted,
            notes=(*self._notes, *self._elsewhere(), *self._machines.notes),
        )

    @cached_property
    def _default(self) -> ProgramText:
        """The untuned default."""
        search = self._options.search
        redefine = search.redefine and search.space == "full"
        program = default_program(
            self._shared, rewrite_layout=search.rewrite_layout, redefine=redefine
        )
        return ProgramText.encode(program.steps, Names(self._task.dag))

    @cached_property
    def _final(self) -> Final:
        """The end of the run, in which the best programs and the default compete."""
        return Final(self._records, self._task.key, self._environment, self._default.key)

    @cached_property
    def _proposals(self) -> Proposals:
        """The search, which knows what was measured before, as that was learned."""
        rng = np.random.default_rng(self._options.seed)
        proposals = Proposals(self._shared, self._options.search, rng)
        proposals.notes[:] = dict.fromkeys((*self._notes, *proposals.notes))
        self._notes = proposals.notes  # which grow while the search goes on
        learned_at = {record.known for record in self._known}
        proposals.expect(record.program for record in self._known if _is_instructive(record))
        for number, record in enumerate(self._known):
            if number in learned_at:
                proposals.update()
            if _is_instructive(record):
                proposals.learn(record.program, record.median_s)
        return proposals

    def _first(self, most: int) -> list[ProgramText]:
        """Return the untuned default, and what was fast for related tasks; at most `most`."""
        first: list[ProgramText] = []
        if self._options.search.starts_from_default and self._default.key not in self._keys:
            self._proposals.expect([self._default])
            first.append(self._default)
        if self._count_planned() <= 1 < most:
            related = self._related[: max(most - len(first), 0)]
            first += self._proposals.transfer(related, {self._default.key, *self._keys})
        return first

    def _read_related(self) -> None:
        """Read what `_first` proposes, in the driver's thread: the records serve that one alone."""
        if len(self._known) <= 1:  # of which one is the default
            most = self._options.search.transferred
            self._related = find_related_programs(
                self._records, self._task, self._environment, most
            )

    def _local_search_trials(self) -> int:
        """How many of the trials, the last ones, search near the best programs."""
        return int(self._options.search.polish_share * self._options.trials)

    def _note(self, program: ProgramText, outcome: Outcome) -> None:
        """Record one outcome and tell of it."""
        record = self._record(program, outcome, self._chosen_at.pop(program.key))
        self._builds.append(outcome.build)
        self._runs.append(outcome.run)
        self._keys.add(record.program_key)
        self._known.append(record)
        if isinstance(outcome, Failure):
            self._failures[outcome.kind.value] += 1
            self._first_failure = self._first_failure or outcome
        is_new_best = _is_better(record, self._best)
        if is_new_best:
            self._best = record
        _log_trial(self._task.name, record, is_new_best=is_new_best)
        self._on_trial(self._progress(is_new_best=is_new_best))
        self._require_success()

    def _record(self, program: ProgramText, outcome: Outcome, known: int = 0) -> Record:
        record = Record.of(
            self._task.key, program, outcome, self._environment, seed=self._options.seed,
            known=known, data=self._data,
        )  # fmt: skip
        self._records.add(record)
        return record

    def _progress(self, *, is_new_best: bool) -> RunProgress:
        return RunProgress(
            done=self.trials,
            total=self._options.trials,
            best_s=self._best.median_s if self._best is not None else None,
            is_new_best=is_new_best,
            failures=dict(self._failures),
            elapsed_s=self._budget.elapsed_s,
            measured_now=self._measured,
        )

    def _require_success(self) -> None:
        failed = self._failures.total() - self._failures[FailureKind.UNTIMED.value]
        if failed == self._measured >= _ALL_FAILED and self._best is None:
            assert self._first_failure is not None
            raise MeasureError(
                f"all of the first {failed} programs of '{self._task.name}' failed; the first one: "
                f"{self._first_failure.kind.value}, {self._first_failure.message}"
            )

    @property
    def _measured(self) -> int:
        return len(self._known) - self._earlier

    def _count_planned(self) -> int:
        return self._earlier + self._proposed

    def _count_remaining(self) -> int:
        return self._options.trials - self._count_planned()

    def _elsewhere(self) -> list[str]:
        elsewhere = self._records.elsewhere(self._task.key, self._environment)
        if not elsewhere.count:
            return []
        return [f"{elsewhere.count} records of this task come from another machine, number of "
                "threads or cache policy; their times were not used"]  # fmt: skip


def _log_trial(name: str, record: Record, *, is_new_best: bool) -> None:
    if not _LOG.isEnabledFor(logging.INFO):
        return
    if record.failure is not None:
        words = f"{record.failure.value}: {record.message}"
    else:
        words = f"{seconds_text(record.median_s)}{', the best so far' if is_new_best else ''}"
    level = logging.INFO if is_new_best or record.failure is not None else logging.DEBUG
    _LOG.log(level, "%s: program %s: %s", name, record.program_key, words)


def _is_instructive(record: Record) -> bool:
    """Return whether the search learns from `record`; loops are of no sketch."""
    return not record.function and record.failure is not FailureKind.UNTIMED


def _is_better(record: Record, best: Record | None) -> bool:
    if record.median_s is None or not record.checked:
        return False
    return best is None or best.median_s is None or record.median_s < best.median_s


def curve_of(records: Sequence[Record]) -> tuple[tuple[int, float], ...]:
    """Return (trial, best seconds so far) at each improvement among `records`, oldest first."""
    curve: list[tuple[int, float]] = []
    for trial, record in enumerate(records, 1):
        if record.median_s is None or not record.checked:
            continue
        if not curve or record.median_s < curve[-1][1]:
            curve.append((trial, record.median_s))
    return tuple(curve)
