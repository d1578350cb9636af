"""What the records of one task in one environment say, in the order in which they were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ansorc.errors import AnsorcError
from ansorc.schedule import Names
from ansorc.search.measure import FailureKind
from ansorc.search.model import Growth
from ansorc.search.model.training import Metrics, metrics, sample_of, trained
from ansorc.search.programs import Program, default_program, program_key
from ansorc.search.record import Environment, Record, Records
from ansorc.search.record.database import Holding
from ansorc.search.task import Task

PAUSE_S = 120.0
"""Nobody measured between two trials that are this far apart."""
_OWN_BACK_ENDS = "ansorc.codegen."
_ENOUGH = 8
"""Programs with times that a model needs before it is asked."""


@dataclass(frozen=True)
class RoundQuality:
    """How well a model that knew the trials before ranked those of one round."""

    first: int
    """The number of the round's first trial, from 1."""
    quality: Metrics


@dataclass(frozen=True)
class Forecast:
    """What a model expected of a program before it was measured, beside what was measured."""

    trial: int
    predicted_s: float
    measured_s: float


@dataclass(frozen=True)
class History:
    """The trials of one task in one environment."""

    name: str
    task: Task | None
    """None if the file does not say it readably, or for another's back end."""
    environment: Environment
    records: tuple[Record, ...]
    """Oldest first."""
    best: Record | None

    @staticmethod
    def of(records: Records, holding: Holding) -> History:
        """Return what `records` say of a task in an environment."""
        try:
            task = records.task(holding.task_key)
            if not task.target.real.backend.startswith(_OWN_BACK_ENDS):
                task = None  # no module is imported because a record file names it
        except AnsorcError:
            task = None
        found = tuple(records.all(holding.task_key, holding.environment))
        return History(holding.name or holding.task_key, task, holding.environment, found,
                       holding.best)  # fmt: skip

    @cached_property
    def curve(self) -> tuple[float | None, ...]:
        """Seconds of the fastest checked program after each trial; None before there is one."""
        best: float | None = None
        found: list[float | None] = []
        for record in self.records:
            if record.checked and record.median_s is not None:
                best = record.median_s if best is None else min(best, record.median_s)
            found.append(best)
        return tuple(found)

    @cached_property
    def failures(self) -> Counter[str]:
        """Failed trials by class."""
        return Counter(one.failure.value for one in self.records if one.failure is not None)

    def example(self, failure: str) -> str:
        """Return the message of the first failure of a class."""
        kind = FailureKind(failure)
        return next(one.message for one in self.records if one.failure is kind)

    @cached_property
    def busy_s(self) -> float:
        """Seconds from the first trial to the last, without pauses of more than `PAUSE_S`."""
        times = sorted(record.created for record in self.records)
        steps = np.diff(np.array(times)) if len(times) > 1 else np.zeros(0)
        return float(np.sum(steps[steps <= PAUSE_S]))

    @cached_property
    def default(self) -> Program | None:
        """The untuned default of the task for its threads; None if it cannot be made here."""
        if self.task is None:
            return None
        try:
            return default_program(self.task.with_threads(self.environment.running))
        except AnsorcError:
            return None

    @cached_property
    def default_record(self) -> Record | None:
        """The record of the untuned default, if it was measured."""
        if self.task is None or self.default is None:
            return None
        key = program_key(self.task, self.default)
        found = (one for one in self.records if one.program_key == key)
        return next((one for one in found if one.median_s is not None), None)

    @cached_property
    def rounds(self) -> tuple[tuple[int, int], ...]:
        """The first and the last trial of each round and one more, from 0.

        Programs that were chosen when equally many trials were known are of one round.
        """
        begins = [
            place
            for place, record in enumerate(self.records)
            if place == 0 or record.known != self.records[place - 1].known
        ]
        return tuple(zip(begins, [*begins[1:], len(self.records)], strict=True))


def retrained(history: History) -> tuple[list[Forecast], list[RoundQuality]]:
    """Return what models expect of each round that know the trials before it alone.

    What the run itself expected is not in the records. Rounds before there is enough to learn from
    are left out, and programs that this version cannot read.
    """
    task = history.task
    if task is None:
        return [], []
    names = Names(task.dag)
    samples = [sample_of(task, names, task.key, record) for record in history.records]
    forecasts: list[Forecast] = []
    qualities: list[RoundQuality] = []
    for begin, end in history.rounds:
        before = [one for one in samples[:begin] if one is not None]
        if sum(one.seconds is not None for one in before) < _ENOUGH:
            continue
        model = trained(before, Growth())
        own: list[Forecast] = []
        for place in range(begin, end):
            sample = samples[place]
            if sample is not None and sample.seconds is not None:
                expected = float(model.expected_seconds(sample.features[None])[0])
                own.append(Forecast(place + 1, expected, sample.seconds))
        forecasts += own
        if len(own) > 1:
            qualities.append(RoundQuality(begin + 1, _quality(own)))
    return forecasts, qualities


def _quality(own: Sequence[Forecast]) -> Metrics:
    predicted = np.array([one.predicted_s for one in own])
    measured = np.array([one.measured_s for one in own])
    best = float(measured.min())
    return metrics(best / predicted, best / measured)
