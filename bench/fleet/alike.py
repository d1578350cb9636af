"""`python -m bench fleet_alike`: the same tuning on a fleet of this machine, and without one.

Times that are measured twice differ, and with them what is proposed after. So what was measured
without the fleet is also replayed by a device of a fleet: then the same programs must be proposed.
"""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import dataclass, replace
from operator import eq
from pathlib import Path
from statistics import geometric_mean

import click

import ansorc as ac
from ansorc.fleet.fleet import Fleet
from ansorc.search.machines import TaskMeasurer, ThisMachine
from ansorc.search.measure import (
    Measurement,
    MeasureOptions,
    Measurer,
    Outcome,
    ProgramText,
    Stopwatch,
    Workers,
)
from ansorc.search.measure.pool import Reply
from ansorc.search.record import Record, Records
from ansorc.search.task import Task
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.target.units import seconds_text
from bench.fleet.processes import LABEL, SimulatedFleet, WorkersHere

_CONTESTS = 5


@click.command("fleet_alike")
@click.option("--trials", default=200, show_default=True)
@click.option("--labels", default=4, show_default=True, help="Workers, each with its own label.")
@click.option("--first", default=0, show_default=True, help="The first label that is tuned on.")
@click.option("--tunings", default=4, show_default=True, help="On so many labels, one by one.")
def fleet_alike(*, trials: int, labels: int, first: int, tunings: int) -> None:
    """Tune a product with and without a fleet; time both winners in turns."""
    a, b = (ac.placeholder((256, 256), name=name) for name in "AB")
    task = Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")]), "native", "product")
    names = [f"label{number}" for number in range(labels)]
    ratios: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="ansorc-fleet-") as place,
        WorkersHere(Path(place), names) as here,
    ):
        for seed in range(first, first + tunings):
            directory = Path(place) / str(seed)
            directory.mkdir()
            options = TuneOptions(trials, directory / "here.db", seed)
            with Fleet(here.address, names[seed % labels], key=here.key) as fleet:
                path = directory / "fleet.db"
                there = tuned(task, replace(options, records=path, measurer=fleet))
            with NotingMachine() as machine:
                alone = tuned(task, replace(options, measurer=machine))
                machine.write(directory / "noted.db", task)
            again = replayed(task, directory, replace(options, records=directory / "again.db"))
            ratios.append(_in_turns(task, there.best, alone.best))
            equal = sum(map(eq, again.programs, alone.programs))
            words = f"the fleet's best takes {ratios[-1]:.3f} of the time of that of here"
            click.echo(f"seed {seed}, {names[seed % labels]}: {words}; replayed, {equal} of "
                       f"{len(alone.programs)} programs are the same in their order")  # fmt: skip
            for name, run in (("fleet", there), ("here", alone), ("replayed", again)):
                click.echo(f"  {name}: {seconds_text(run.trial_s, 3)} a trial, "
                           f"{seconds_text(run.idle_s, 3)} of it between trials")  # fmt: skip
    click.echo(f"geometric mean of {len(ratios)}: {geometric_mean(ratios):.3f}")


@dataclass(frozen=True)
class Tuned:
    """What a tuning came to."""

    best: Record
    programs: tuple[str, ...]
    """Their keys, in the order of the trials."""
    trial_s: float
    """Between two results."""
    idle_s: float
    """Of it, while nothing was built or run."""


def tuned(task: Task, options: TuneOptions) -> Tuned:
    """Tune `task`; say what and how fast."""
    ends: list[float] = []
    result = tune_task(task, options, lambda _: ends.append(time.monotonic()))
    assert result.best is not None
    with Records.open(options.records, read_only=True) as records:
        found = records.all(task.key)
    trial_s = (ends[-1] - ends[0]) / (len(ends) - 1)
    busy_s = sum(one.build_s + one.run_s for one in found) / len(found)
    keys = tuple(one.program_key for one in found)
    return Tuned(result.best, keys, trial_s, trial_s - busy_s)


class NotingMachine(ThisMachine):
    """This machine, which keeps each outcome as it was learned: the contest times winners again."""

    def __init__(self) -> None:
        super().__init__(MeasureOptions())
        self._noted: list[tuple[ProgramText, Outcome]] = []

    def open(
        self, task: Task, options: MeasureOptions, best_s: float, watch: Stopwatch
    ) -> TaskMeasurer:
        """Start the workers where they are not."""
        return _NotingMeasurer(self._noted, self, (task, options, best_s, watch))

    def write(self, path: Path, task: Task) -> None:
        """Make a record file of what was measured."""
        environment = self.environment(0, "warm", task.target)
        with Records.open(path) as records:
            records.add_task(task)
            for program, outcome in self._noted:
                records.add(Record.of(task.key, program, outcome, environment))


class _NotingMeasurer(Measurer):
    def __init__(
        self,
        noted: list[tuple[ProgramText, Outcome]],
        workers: Workers,
        asked: tuple[Task, MeasureOptions, float, Stopwatch],
    ) -> None:
        super().__init__(*asked, workers)
        self._noted = noted

    def measure_built(self, candidate: ProgramText, built: Reply) -> Outcome:
        outcome = super().measure_built(candidate, built)
        self._noted.append((candidate, outcome))
        return outcome


def replayed(task: Task, directory: Path, options: TuneOptions) -> Tuned:
    """Tune on a device that takes as long as noted, and answers what was noted."""
    place = directory / "replayed"
    place.mkdir()
    with (
        SimulatedFleet(place, directory / "noted.db", 1) as here,
        Fleet(here.address, LABEL, key=here.key) as fleet,
    ):
        return tuned(task, replace(options, measurer=fleet))


def _in_turns(task: Task, one: Record, other: Record) -> float:
    """How many times as long `one` takes as `other`, timed in turns, by the best of some contests.

    In one process of three one of two programs was seen to take several times as long as in others.
    """
    if one.program_key == other.program_key:
        return 1.0
    programs = one.program, other.program
    best = [math.inf] * len(programs)
    for _ in range(_CONTESTS):
        options = MeasureOptions()
        with ThisMachine(options) as here:
            measurer = here.open(task, options, other.median_s or 0.0, Stopwatch())
            for number, outcome in enumerate(measurer.rank(programs)):
                assert isinstance(outcome, Measurement), outcome
                best[number] = min(best[number], outcome.median_s)
            measurer.close()
    return best[0] / best[1]
