"""One run of one task: rounds of proposing, measuring, recording and learning."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property

import numpy as np

from ansorc.errors import MeasureError
from ansorc.schedule import Step, steps_from_json, steps_to_json
from ansorc.search.contest import Ranking
from ansorc.search.final import Final
from ansorc.search.measure import (
    BuildCost,
    Candidate,
    Failure,
    Measurer,
    MeasureResult,
    RunCost,
    Stopwatch,
)
from ansorc.search.measure.beside import beside
from ansorc.search.model import import_ahead
from ansorc.search.programs import default_program
from ansorc.search.proposals import Proposals
from ansorc.search.record import Record, Records, current_environment
from ansorc.search.task import Task
from ansorc.search.time_spent import TimeSpent
from ansorc.search.transfer import related_programs
from ansorc.search.trial import Trial
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import TuneResult

_FIRST_ROUND = 16
"""Programs measured before the model is first asked: the earlier it learns, the more it helps."""
_POLISH_ROUNDS, _POLISH_ROUND = 4, 6
"""So many rounds at the end polish what was found, with so many programs each at least."""
_HOPELESS = 64
"""So many failures without one success end the run: the fault is not the programs'."""

Steps = tuple[Step, ...]


class TuningRun:
    """Measures programs of `task` until there are enough; every trial is on disk at once."""

    def __init__(
        self, task: Task, options: TuneOptions, records: Records, on_trial: Callable[[Trial], None]
    ) -> None:
        self._task, self._options, self._records = task, options, records
        self._on_trial = on_trial
        self._environment = current_environment(options.threads, options.cache)
        self._shared = task.with_threads(self._environment.running)
        self._earlier = records.all(task.key, self._environment)
        self._best = records.best(task.key, self._environment)
        self._keys = records.measured(task.key, self._environment)
        self._related: list[Steps] = []
        self._failures: Counter[str] = Counter()
        self._first_failure: Failure | None = None
        self._begin = time.monotonic()
        self._watch = Stopwatch()
        self._builds: list[BuildCost] = []
        self._runs: list[RunCost] = []
        self._measured = 0
        self._proposed = 0
        self._ranking: Ranking | None = None
        self._notes: list[str] = []
        self.is_exhausted = False
        self.is_interrupted = False

    def measure(self) -> None:
        """Measure until the options' trials or time are reached, then let the best compete."""
        if self._left() <= 0 and self._final.is_decided:
            return
        options, best_s = self._options.for_workers(), (self._best and self._best.median_s) or 0.0
        if not self._earlier:  # read here: the records serve one thread
            most = self._options.search.transferred
            self._related = related_programs(self._records, self._task, self._environment, most)
        batch: list[Steps] = []
        with ExitStack() as stack:  # the first round is chosen while the workers start
            with self._watch.phase("search"), beside(lambda: batch.extend(self._next())):
                measurer = Measurer(self._task, options, best_s, self._watch)
                stack.enter_context(measurer)
            try:
                while batch:
                    batch = self._round(measurer, batch)
            except MeasureError as error:
                if self._best is None:
                    raise
                self._notes.append(f"stopped early: {error}")
            with self._watch.phase("contest"):
                self._ranking = self._final.hold(measurer, self._recorded)

    def result(self) -> TuneResult:
        """Return what was found so far, in this and in earlier runs."""
        known = self._records.all(self._task.key, self._environment)
        key = _candidate(self._default).key
        return TuneResult(
            task=self._task,
            best=self._records.best(self._task.key, self._environment),
            default=next((record for record in known if record.program_key == key), None),
            curve=_curve(known),
            trials=len(known),
            measured_now=self._measured,
            elapsed_s=(elapsed_s := time.monotonic() - self._begin),
            spent=TimeSpent.of(
                self._watch, elapsed_s, BuildCost.sum(self._builds), RunCost.sum(self._runs)
            ),
            ranking=self._ranking,
            failures=dict(self._failures),
            first_failure=self._first_failure.message if self._first_failure else "",
            exhausted=self.is_exhausted,
            interrupted=self.is_interrupted,
            notes=(*self._notes, *self._elsewhere()),
        )

    @cached_property
    def _default(self) -> Steps:
        """The untuned default."""
        search = self._options.search
        redefine = search.redefine and search.space == "full"
        return default_program(
            self._shared, rewrite_layout=search.rewrite_layout, redefine=redefine
        ).steps

    @cached_property
    def _final(self) -> Final:
        """The end of the run, in which the best programs and the default compete."""
        default = _candidate(self._default).key
        return Final(self._records, self._task.key, self._environment, default)

    @cached_property
    def _proposals(self) -> Proposals:
        """The search, which knows what earlier runs measured."""
        rng = np.random.default_rng(self._options.seed)
        proposals = Proposals(self._shared, self._options.search, rng)
        self._notes = proposals.notes  # which grow while the search goes on
        for record in self._earlier:
            if not record.function:
                proposals.learn(steps_from_json(json.loads(record.steps)), record.median_s)
        return proposals

    def _next(self) -> list[Steps]:
        """The next round's programs, fewer while there is little to learn from; none at the end."""
        if self._left() <= 0 or self.is_exhausted or self._is_late():
            return []
        wanted = self._size()
        is_wanted = self._options.search.starts_from_default and not self._is_known(self._default)
        first = [self._default] if is_wanted else []
        if not self._planned():
            first += self._transferred(wanted - len(first))
        self._keys.update(_candidate(steps).key for steps in first)
        more = wanted - len(first)
        polish = self._left() <= self._polish_trials()
        proposed = (
            self._proposals.propose(more, self._is_known, is_polish=polish) if more > 0 else []
        )
        self._keys.update(_candidate(steps).key for steps in proposed)
        self.is_exhausted = more > 0 and not proposed
        self._proposed += len(first) + len(proposed)
        return first + proposed

    def _size(self) -> int:
        """How many programs to measure in the next round."""
        left, last = self._left(), self._polish_trials()
        if left <= last:  # each round goes on from what the one before found
            return min(left, max(_POLISH_ROUND, math.ceil(last / _POLISH_ROUNDS)))
        most = self._options.search.trials_per_round
        size = min(max(_FIRST_ROUND, self._planned() // 2), most)
        unpolished = left - last
        is_last = unpolished < size + size // 4  # a few more are not worth a round
        return min(unpolished, most) if is_last else size

    def _polish_trials(self) -> int:
        """How many of the trials, the last ones, polish the best programs."""
        return int(self._options.search.polish_share * self._options.trials)

    def _transferred(self, most: int) -> list[Steps]:
        """What was fast for other extents, adapted to these; `most` programs, or fewer."""
        related = self._related[: max(most, 0)]
        return self._proposals.transferred(related, lambda steps: steps == self._default)

    def _round(self, measurer: Measurer, batch: Sequence[Steps]) -> list[Steps]:
        """Measure `batch`, but no longer than there is time; return the next round's programs.

        In a large round these are chosen while its last programs are built, and without knowing
        them: they are the ones that the model thought least of.
        """
        ahead: list[list[Steps]] = []

        def look_ahead() -> None:
            ahead.append(self._next())

        is_large = len(batch) > self._options.measuring.batch
        meanwhile = look_ahead if is_large else self._preparation
        results = measurer.measure([_candidate(steps) for steps in batch], meanwhile)
        for steps, result in zip(batch, results, strict=True):
            self._note(result)
            self._proposals.learn(steps, result.measurement and result.measurement.median_s)
            if self._is_late():
                return []
        with self._watch.phase("search"):
            return ahead[0] if ahead else self._next()

    def _preparation(self) -> None:
        """Do what the next choice needs and can be done before anything is known."""
        if self._options.search.cost_model == "trees":
            import_ahead()

    def _note(self, result: MeasureResult) -> None:
        """Record one result and tell of it."""
        record = self._recorded(result)
        self._builds.append(result.build)
        self._runs.append(result.run)
        self._keys.add(record.program_key)
        self._measured += 1
        if (failure := result.failure) is not None:
            self._failures[failure.kind.value] += 1
            self._first_failure = self._first_failure or failure
        is_new_best = _is_better(record, self._best)
        if is_new_best:
            self._best = record
        self._on_trial(self._trial(is_new_best=is_new_best))
        self._require_hope()

    def _recorded(self, result: MeasureResult) -> Record:
        key, seed = self._task.key, self._options.seed
        record = Record.of_result(key, result, self._environment, seed=seed)
        self._records.add(record)
        return record

    def _trial(self, *, is_new_best: bool) -> Trial:
        return Trial(
            done=self._done(),
            total=self._options.trials,
            best_s=self._best.median_s if self._best is not None else None,
            is_new_best=is_new_best,
            failures=dict(self._failures),
            elapsed_s=time.monotonic() - self._begin,
            measured_now=self._measured,
        )

    def _require_hope(self) -> None:
        failed = self._failures.total()
        if failed == self._measured >= _HOPELESS and self._best is None:
            assert self._first_failure is not None
            raise MeasureError(
                f"all of the first {failed} programs of '{self._task.name}' failed; the first one: "
                f"{self._first_failure.kind.value}, {self._first_failure.message}"
            )

    def _is_known(self, steps: Steps) -> bool:
        return _candidate(steps).key in self._keys

    def _done(self) -> int:
        return len(self._earlier) + self._measured

    def _planned(self) -> int:
        return len(self._earlier) + self._proposed

    def _left(self) -> int:
        return self._options.trials - self._planned()

    def _is_late(self) -> bool:
        budget = self._options.time_budget
        return budget is not None and time.monotonic() - self._begin >= budget

    def _elsewhere(self) -> list[str]:
        found = self._records.elsewhere(self._task.key, self._environment)
        if not found.count:
            return []
        return [f"{found.count} records of this task come from another machine, number of "
                "threads or cache policy; their times were not used"]  # fmt: skip


def _candidate(steps: Steps) -> Candidate:
    return Candidate.of_steps(steps_to_json(steps))


def _is_better(record: Record, best: Record | None) -> bool:
    if record.median_s is None or not record.checked:
        return False
    return best is None or best.median_s is None or record.median_s < best.median_s


def _curve(records: Sequence[Record]) -> tuple[tuple[int, float], ...]:
    """(trial, seconds) at each improvement among `records`, oldest first."""
    curve: list[tuple[int, float]] = []
    for trial, record in enumerate(records, 1):
        if record.median_s is None or not record.checked:
            continue
        if not curve or record.median_s < curve[-1][1]:
            curve.append((trial, record.median_s))
    return tuple(curve)
