"""`python -m bench fleet_in_flight`: what it costs to choose programs before results have come.

Devices are simulated: each of those in flight takes as long as its trial took, by a clock that
stands while programs are chosen. One in flight is this machine, which measures in rounds. What a
program comes to is what was recorded of it; of others it is the time of the recorded program whose
features are the nearest, times what a model expects of the difference, which has not learned from
that one. So all runs of a task search the same landscape, without noise.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from ansorc.schedule import Names
from ansorc.search.cost_model import Float64Array, Sample
from ansorc.search.machines import Arrivals, MeasurerProgram, TaskMeasurer
from ansorc.search.measure import (
    CachePolicy,
    Measurement,
    MeasureOptions,
    Outcome,
    ProgramText,
    RunCost,
    Stopwatch,
    batch_begins,
    nothing,
)
from ansorc.search.model import Growth, TreeModel
from ansorc.search.model.training import sample_of, train_model
from ansorc.search.record import Environment, Record, Records
from ansorc.search.task import Task
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.target import Target
from ansorc.target.units import seconds_text

_FOLDS = 5
_BATCH = 16
"""Of the tuner, as on two cores."""


class Landscape:
    """What each program of a task comes to, recorded or made of what was recorded."""

    def __init__(self, task: Task, records: Sequence[Record]) -> None:
        known = [one for one in records if one.median_s is not None and one.checked]
        self.task, self.environment = task, known[0].environment
        self._names = Names(task.dag)
        self._known = {one.program_key: one.median_s or 0.0 for one in known}
        samples = [one for record in known if (one := self._sample(record)) is not None]
        folds: list[int] = (np.random.default_rng(0).permutation(len(samples)) % _FOLDS).tolist()
        self._models = [_model_without(fold, samples, folds) for fold in range(_FOLDS)]
        self._most = max(len(one.features) for one in samples)
        self._features = np.stack([self._row(one) for one in samples])
        self._scale = np.std(self._features, axis=0) + 1e-9
        self._corrections = [
            (fold, (one.seconds or 0.0) / self._expected(one, fold))
            for one, fold in zip(samples, folds, strict=True)
        ]
        """By recorded program: the model that has not seen it, and its time by the expected one."""
        self.error = float(np.std(np.log([error for _, error in self._corrections])))
        """Of the models, of programs that they have not seen: standard deviation of logarithms."""
        self.trial_s = median(one.build_s + one.run_s for one in known)

    def seconds(self, program: ProgramText) -> float:
        """Return the time of a call of the program."""
        if program.key not in self._known:
            record = Record(self.task.key, program.key, program.steps, "", self.environment, 1.0)
            sample = self._sample(record)
            assert sample is not None, "programs without steps are not simulated"
            away = np.abs((self._features - self._row(sample)) / self._scale).sum(axis=1)
            fold, correction = self._corrections[int(away.argmin())]
            self._known[program.key] = correction * self._expected(sample, fold)
        return self._known[program.key]

    def tried(self, program: ProgramText) -> tuple[Outcome, float]:
        """Return the outcome of a trial, and how long it takes a device."""
        digest = hashlib.sha256(program.key.encode()).digest()
        took = self.trial_s * (0.5 + digest[16] / 255)
        seconds = self.seconds(program)
        return Measurement((seconds,), checked=True, run=RunCost(repeats_s=took)), took

    def _row(self, sample: Sample) -> Float64Array:
        """The features of all statements; of those that a program lacks zeros."""
        found = sample.features[: self._most].ravel()
        return np.pad(
            found.astype(np.float64), (0, self._most * sample.features.shape[1] - len(found))
        )

    def _expected(self, sample: Sample, fold: int) -> float:
        return float(self._models[fold].predict_seconds(sample.features[None])[0])

    def _sample(self, record: Record) -> Sample | None:
        return sample_of(self.task, self._names, self.task.key, record)


def _model_without(fold: int, samples: Sequence[Sample], folds: Sequence[int]) -> TreeModel:
    """A model that has learned from the samples of all folds but one."""
    seen = [one for one, its in zip(samples, folds, strict=True) if its != fold]
    return train_model(seen, Growth(seed=0))


class SimulatedMeasurer:
    """Measures and ranks by the landscape, and chooses when `Measurer` does."""

    def __init__(self, landscape: Landscape, batch: int) -> None:
        self._landscape, self._batch = landscape, batch

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        """Yield what comes of `candidates`, in this order."""
        begins = batch_begins(len(candidates), self._batch)
        for number, program in enumerate(candidates):
            if number == begins[-1]:
                meanwhile()
            yield self._landscape.tried(program)[0]

    def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
        """Return what comes of `candidates`, in this order."""
        return [self._landscape.tried(program)[0] for program in candidates]

    def close(self) -> None:
        """There is nothing to free."""


class SimulatedMachines:
    """`MachinesAhead` with so many programs `ahead`, each of which has a device to itself."""

    notes: tuple[str, ...] = ()

    def __init__(self, landscape: Landscape, ahead: int) -> None:
        self._landscape, self.ahead = landscape, ahead

    def require(self, target: Target, cache: CachePolicy = "warm") -> None:
        """All can be measured."""

    def environment(self, threads: int, cache: CachePolicy, target: Target) -> Environment:
        """Return that of the records."""
        return self._landscape.environment

    def open(
        self, task: Task, options: MeasureOptions, best_s: float, watch: Stopwatch
    ) -> TaskMeasurer:
        """Return what measures."""
        return SimulatedMeasurer(self._landscape, options.batch)

    def stream(self, programs: Iterator[MeasurerProgram | None]) -> Arrivals:
        """Yield programs in the order in which devices end them."""
        now, count, is_more = 0.0, 0, True
        under_way: list[tuple[float, int, MeasurerProgram, Outcome]] = []
        while is_more or under_way:
            while is_more and len(under_way) < self.ahead:
                try:
                    pair = next(programs)
                except StopIteration:
                    is_more = False
                    break
                if pair is None:  # it is being chosen: the clock stands
                    time.sleep(1e-3)
                    continue
                outcome, took = self._landscape.tried(pair[1])
                count += 1
                heapq.heappush(under_way, (now + took, count, pair, outcome))
            if under_way:
                now, _, (measurer, program), outcome = heapq.heappop(under_way)
                yield measurer, program, outcome


@click.command("fleet_in_flight")
@click.option("--records", required=True, type=click.Path(path_type=Path, exists=True),
              help="Some hundred programs of each task that is to be searched.")  # fmt: skip
@click.option("--in-flight", default="1,8,64,128", show_default=True)
@click.option("--trials", default=200, show_default=True)
@click.option("--seeds", default=5, show_default=True)
def fleet_in_flight(*, records: Path, in_flight: str, trials: int, seeds: int) -> None:
    """Tune with more and more programs in flight, on simulated devices; compare the best times."""
    counts = [int(one) for one in in_flight.split(",")]
    with Records.open(records, read_only=True) as held:
        found = [(task, held.all(task.key)) for task in held.tasks()]
    table = Table(title=f"{trials} trials, {seeds} seeds: the best time, by that of one in flight")
    for heading in ("task", "records", "model's error", *(f"{one} in flight" for one in counts)):
        table.add_column(heading, justify="right")
    losses: dict[int, list[float]] = {count: [] for count in counts}
    for task, known in found:
        landscape = Landscape(task, known)
        best: dict[int, list[float]] = {count: [] for count in counts}
        for seed in range(seeds):
            for count in counts:
                best[count].append(_best(landscape, count, trials, seed))
                click.echo(f"{task.name}, seed {seed}, {count} in flight: "
                           f"{seconds_text(best[count][-1], 3)}", err=True)  # fmt: skip
        cells: list[str] = []
        for count in counts:
            ratios = [a / b for a, b in zip(best[count], best[counts[0]], strict=True)]
            losses[count] += ratios
            cells.append(f"{_mean(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
        table.add_row(task.name, str(len(known)), f"{landscape.error:.0%}", *cells)
    table.add_row("geometric mean", "", "", *(f"{_mean(losses[one]):.3f}" for one in counts))
    Console(width=150).print(table)


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _best(landscape: Landscape, ahead: int, trials: int, seed: int) -> float:
    """The best time of a call that a tuning with so many programs in flight finds."""
    with tempfile.TemporaryDirectory(prefix="ansorc-in-flight-") as place:
        options = TuneOptions(
            trials, Path(place) / "tune.db", seed=seed, threads=landscape.environment.threads,
            measurer=SimulatedMachines(landscape, ahead), measuring=MeasureOptions(batch=_BATCH),
        )  # fmt: skip
        result = tune_task(landscape.task, options)
    assert result.best is not None
    assert result.best.median_s is not None
    return result.best.median_s
