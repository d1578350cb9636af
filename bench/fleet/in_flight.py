"""`python -m bench fleet_in_flight`: what it costs to choose programs before results have come.

Devices are simulated: each of those in flight takes as long as its trial took, by a clock that
stands while programs are chosen. What a program comes to is what was recorded of it; of others it
is what a model expects that has learned from all records, with the errors that it makes on records
it has not seen, drawn by the program's key. So all runs of a task search the same landscape.
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
from ansorc.search.cost_model import Sample
from ansorc.search.machines import AnyPlanned, Arrivals, TaskMeasurer
from ansorc.search.measure import (
    CachePolicy,
    Measurement,
    MeasureOptions,
    MeasureResult,
    RunCost,
    Source,
    Stopwatch,
    nothing,
)
from ansorc.search.model import Growth
from ansorc.search.model.training import predictions, random_folds, sample_of, trained
from ansorc.search.record import Environment, Record, Records
from ansorc.search.task import Task
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.target import Target
from bench.fleet.simulated import ranked


class Landscape:
    """What each program of a task comes to, recorded or made of what was recorded."""

    def __init__(self, task: Task, records: Sequence[Record]) -> None:
        known = [one for one in records if one.median_s is not None and one.checked]
        self.task, self.environment = task, known[0].environment
        self._names = Names(task.dag)
        self._known = {one.program_key: one.median_s or 0.0 for one in known}
        samples = [one for record in known if (one := self._sample(record)) is not None]
        growth = Growth(seed=0)
        self._model = trained(samples, growth)
        held_out = predictions(samples, random_folds(len(samples), 0), ["test"], growth)
        self.error = float(np.std(np.log(held_out.predicted / held_out.actual)))
        """Of the model on programs that it has not seen: standard deviation of the logarithm."""
        self.trial_s = median(one.build_s + one.run_s for one in known)

    def seconds(self, source: Source) -> float:
        """Return the time of a call of the program."""
        if (found := self._known.get(source.key)) is None:
            digest = hashlib.sha256(source.key.encode()).digest()
            first, second = (
                (int.from_bytes(digest[at : at + 8], "big") + 0.5) / 2**64 for at in (0, 8)
            )
            normal = math.sqrt(-2 * math.log(first)) * math.cos(2 * math.pi * second)
            found = self._expected(source) * math.exp(self.error * normal)
            self._known[source.key] = found
        return found

    def tried(self, source: Source) -> tuple[MeasureResult, float]:
        """Return the result of a trial, and how long it takes a device."""
        digest = hashlib.sha256(source.key.encode()).digest()
        took = self.trial_s * (0.5 + digest[16] / 255)
        outcome = Measurement((self.seconds(source),), checked=True)
        return MeasureResult(source, outcome, run=RunCost(repeats_s=took)), took

    def _expected(self, source: Source) -> float:
        record = Record(self.task.key, source.key, source.steps, "", self.environment, 1.0)
        sample = self._sample(record)
        assert sample is not None, "programs without steps are not simulated"
        return float(self._model.expected_seconds(sample.features[None])[0])

    def _sample(self, record: Record) -> Sample | None:
        return sample_of(self.task, self._names, self.task.key, record)


class SimulatedMeasurer:
    """Ranks by the landscape."""

    def __init__(self, landscape: Landscape) -> None:
        self._landscape = landscape

    def measure(
        self, candidates: Sequence[Source], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[MeasureResult]:
        """Yield what comes of `candidates`, in this order."""
        meanwhile()
        for source in candidates:
            yield self._landscape.tried(source)[0]

    def rank(self, candidates: Sequence[Source]) -> list[MeasureResult]:
        """Return the results, the fastest first."""
        return ranked([self._landscape.tried(source)[0] for source in candidates])

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
        return SimulatedMeasurer(self._landscape)

    def stream(self, programs: Iterator[AnyPlanned | None]) -> Arrivals[AnyPlanned]:
        """Yield programs in the order in which devices end them."""
        now, count, is_more = 0.0, 0, True
        under_way: list[tuple[float, int, AnyPlanned, MeasureResult]] = []
        while is_more or under_way:
            while is_more and len(under_way) < self.ahead:
                try:
                    planned = next(programs)
                except StopIteration:
                    is_more = False
                    break
                if planned is None:  # it is being chosen: the clock stands
                    time.sleep(1e-3)
                    continue
                result, took = self._landscape.tried(planned.source)
                count += 1
                heapq.heappush(under_way, (now + took, count, planned, result))
            if under_way:
                now, _, planned, result = heapq.heappop(under_way)
                yield planned, result


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
                           f"{best[count][-1] * 1e6:.2f} µs", err=True)  # fmt: skip
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
            measurer=SimulatedMachines(landscape, ahead),
        )  # fmt: skip
        result = tune_task(landscape.task, options)
    assert result.best is not None
    assert result.best.median_s is not None
    return result.best.median_s
