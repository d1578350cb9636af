"""One run of one task: rounds of proposing, measuring, recording and learning."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ansorc.schedule import Step, steps_from_json, steps_to_json
from ansorc.search.measure import Candidate, Measurer, MeasureResult
from ansorc.search.programs import default_program
from ansorc.search.proposals import Proposals
from ansorc.search.record import Record, Records, current_environment
from ansorc.search.task import Task
from ansorc.search.trial import Trial
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import TuneResult

_FIRST_ROUND = 16
"""Programs measured before the model is first asked: the earlier it learns, the more it helps."""


class TuningRun:
    """Measures programs of `task` until there are enough; every trial is on disk at once."""

    def __init__(
        self, task: Task, options: TuneOptions, records: Records, on_trial: Callable[[Trial], None]
    ) -> None:
        self._task, self._options, self._records = task, options, records
        self._on_trial = on_trial
        self._environment = current_environment(options.threads)
        self._earlier = records.all(task.key, self._environment)
        self._best = records.best(task.key, self._environment)
        self._keys = records.measured(task.key, self._environment)
        self._curve = _curve(self._earlier)
        self._failures: Counter[str] = Counter()
        self._begin = time.monotonic()
        self._measured = 0
        self._default = default_program(task).steps
        self._notes: list[str] = []
        self.is_exhausted = False
        self.is_interrupted = False

    def measure(self) -> None:
        """Measure until the options' number of trials, or their time, is reached."""
        if self._left() <= 0:
            return
        rng = np.random.default_rng([self._options.seed, len(self._earlier)])
        proposals = Proposals(self._task, self._options.search, rng)
        self._notes += proposals.notes
        for record in self._earlier:
            steps = steps_from_json(json.loads(record.steps))
            proposals.learn(steps, record.median_s)
        best_s = self._best.median_s if self._best is not None else None
        with Measurer(self._task, self._options.for_workers(), best_s or 0.0) as measurer:
            if not self._is_known(self._default):
                self._round(measurer, proposals, [self._default])
            while self._left() > 0 and not self._is_late():
                batch = self._unmeasured(proposals)
                if not batch:
                    self.is_exhausted = True
                    return
                self._round(measurer, proposals, batch)

    def result(self) -> TuneResult:
        """Return what was found so far, in this and in earlier runs."""
        key = _candidate(self._default).key
        known = self._records.all(self._task.key, self._environment)
        default = next((record for record in known if record.program_key == key), None)
        return TuneResult(
            task=self._task,
            best=self._best,
            default=default,
            curve=tuple(self._curve),
            trials=len(known),
            measured_now=self._measured,
            elapsed_s=time.monotonic() - self._begin,
            failures=dict(self._failures),
            exhausted=self.is_exhausted,
            interrupted=self.is_interrupted,
            notes=(*self._notes, *self._elsewhere()),
        )

    def _round(
        self, measurer: Measurer, proposals: Proposals, batch: Sequence[tuple[Step, ...]]
    ) -> None:
        candidates = [_candidate(steps) for steps in batch]
        for steps, result in zip(batch, measurer.measure(candidates), strict=True):
            self._note(result)
            proposals.learn(steps, result.measurement and result.measurement.median_s)

    def _note(self, result: MeasureResult) -> None:
        """Record one result and tell of it."""
        record = Record.of_result(
            self._task.key, result, self._environment, seed=self._options.seed
        )
        self._records.add(record)
        self._keys.add(record.program_key)
        self._measured += 1
        if record.failure is not None:
            self._failures[record.failure.value] += 1
        is_new_best = _is_better(record, self._best)
        if is_new_best:
            self._best = record
            self._curve.append((self._done(), record.median_s or 0.0))
        self._on_trial(
            Trial(
                done=self._done(),
                total=self._options.trials,
                best_s=self._best.median_s if self._best is not None else None,
                is_new_best=is_new_best,
                failures=dict(self._failures),
                elapsed_s=time.monotonic() - self._begin,
                measured_now=self._measured,
            )
        )

    def _unmeasured(self, proposals: Proposals) -> list[tuple[Step, ...]]:
        """The next round's programs: fewer while there is little to learn from."""
        size = max(_FIRST_ROUND, self._done() // 2)
        wanted = min(self._left(), size, self._options.search.trials_per_round)
        return proposals.propose(wanted, self._is_known)

    def _is_known(self, steps: tuple[Step, ...]) -> bool:
        return _candidate(steps).key in self._keys

    def _done(self) -> int:
        return len(self._earlier) + self._measured

    def _left(self) -> int:
        return self._options.trials - self._done()

    def _is_late(self) -> bool:
        budget = self._options.time_budget
        return budget is not None and time.monotonic() - self._begin >= budget

    def _elsewhere(self) -> list[str]:
        found = self._records.elsewhere(self._task.key, self._environment)
        if not found.count:
            return []
        return [f"{found.count} records of this task come from another machine or another number "
                "of threads; they were not used"]  # fmt: skip


def _candidate(steps: tuple[Step, ...]) -> Candidate:
    return Candidate.of_steps(steps_to_json(steps))


def _is_better(record: Record, best: Record | None) -> bool:
    if record.median_s is None or not record.checked:
        return False
    return best is None or best.median_s is None or record.median_s < best.median_s


def _curve(records: Sequence[Record]) -> list[tuple[int, float]]:
    """(trial, seconds) at each improvement among `records`, oldest first."""
    curve: list[tuple[int, float]] = []
    for trial, record in enumerate(records, 1):
        if record.median_s is None or not record.checked:
            continue
        if not curve or record.median_s < curve[-1][1]:
            curve.append((trial, record.median_s))
    return curve
