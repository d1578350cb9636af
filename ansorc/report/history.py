"""The records of one task in one environment, in the order in which they were made."""

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
from ansorc.search.model.training import Metrics, metrics, sample_of, train_model
from ansorc.search.programs import ChosenSchedule, default_program, program_key
from ansorc.search.record import Environment, Record, Records
from ansorc.search.record.database import Holding
from ansorc.search.task import Task

PAUSE_S = 120.0
"""A longer time between two trials is a pause in which nothing was measured."""
_OWN_BACK_ENDS = "ansorc.codegen."
_ENOUGH = 8
"""The least number of timed programs with which a model is trained."""


@dataclass(frozen=True)
class RoundQuality:
    """The ranking quality, in one round, of a model that knew only earlier trials."""

    first: int
    """The number of the round's first trial, from 1."""
    quality: Metrics


@dataclass(frozen=True)
class Forecast:
    """The predicted and the measured time of a program."""

    trial: int
    predicted_s: float
    measured_s: float


@dataclass(frozen=True)
class History:
    """The trials of one task in one environment."""

    name: str
    task: Task | None
    """None if the file's text of the task cannot be read, or is for an unknown back end."""
    environment: Environment
    records: tuple[Record, ...]
    """Oldest first."""
    best: Record | None

    @staticmethod
    def of(records: Records, holding: Holding) -> History:
        """Return the history of a task in an environment."""
        try:
            task = records.task(holding.task_key)
            if not task.target.real.backend.startswith(_OWN_BACK_ENDS):
                task = None  # no module is imported because a record file names it
        except AnsorcError:
            task = None
        records_ = tuple(records.all(holding.task_key, holding.environment))
        return History(holding.name or holding.task_key, task, holding.environment, records_,
                       holding.best)  # fmt: skip

    @cached_property
    def curve(self) -> tuple[float | None, ...]:
        """Seconds of the fastest checked program after each trial; None before there is one."""
        best: float | None = None
        curve: list[float | None] = []
        for record in self.records:
            if record.checked and record.median_s is not None:
                best = record.median_s if best is None else min(best, record.median_s)
            curve.append(best)
        return tuple(curve)

    @cached_property
    def failures(self) -> Counter[str]:
        """Failed trials by class."""
        return Counter(
            record.failure.value for record in self.records if record.failure is not None
        )

    def example(self, failure: str) -> str:
        """Return the message of the first failure of a class."""
        kind = FailureKind(failure)
        return next(record.message for record in self.records if record.failure is kind)

    @cached_property
    def busy_s(self) -> float:
        """Seconds from the first trial to the last, without pauses of more than `PAUSE_S`."""
        times = sorted(record.created for record in self.records)
        steps = np.diff(np.array(times)) if len(times) > 1 else np.zeros(0)
        return float(np.sum(steps[steps <= PAUSE_S]))

    @cached_property
    def default(self) -> ChosenSchedule | None:
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
        matches = (record for record in self.records if record.program_key == key)
        return next((record for record in matches if record.median_s is not None), None)

    @cached_property
    def rounds(self) -> tuple[tuple[int, int], ...]:
        """The first and the last trial of each round and one more, from 0.

        Programs that were chosen with the same number of known trials form one round.
        """
        begins = [
            number
            for number, record in enumerate(self.records)
            if number == 0 or record.known != self.records[number - 1].known
        ]
        return tuple(zip(begins, [*begins[1:], len(self.records)], strict=True))


def retrain(history: History) -> tuple[list[Forecast], list[RoundQuality]]:
    """Return forecasts for each round by models that are trained on earlier trials only.

    The forecasts of the run itself are not recorded. Early rounds without enough trials, and
    programs that this version cannot read, are left out.
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
        model = train_model(before, Growth())
        forecasts_: list[Forecast] = []
        for number in range(begin, end):
            sample = samples[number]
            if sample is not None and sample.seconds is not None:
                expected = float(model.predict_seconds(sample.features[None])[0])
                forecasts_.append(Forecast(number + 1, expected, sample.seconds))
        forecasts += forecasts_
        if len(forecasts_) > 1:
            qualities.append(RoundQuality(begin + 1, _quality(forecasts_)))
    return forecasts, qualities


def _quality(forecasts: Sequence[Forecast]) -> Metrics:
    predicted = np.array([forecast.predicted_s for forecast in forecasts])
    measured = np.array([forecast.measured_s for forecast in forecasts])
    best = float(measured.min())
    return metrics(best / predicted, best / measured)
