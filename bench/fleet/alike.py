"""`python -m bench fleet_alike`: the same tuning on a fleet of this machine, and without one."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import click

import ansorc as ac
from ansorc.fleet.fleet import Fleet
from ansorc.search.machines import ThisMachine
from ansorc.search.measure import MeasureOptions, Source, Stopwatch
from ansorc.search.record import Record, Records
from ansorc.search.task import Task
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from bench.fleet.processes import WorkersHere


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
            with Fleet(here.address, names[seed % labels], key=here.key) as fleet:
                runs = [
                    _tuned(task, TuneOptions(trials, directory / "fleet.db", seed, measurer=fleet)),
                    _tuned(task, TuneOptions(trials, directory / "here.db", seed)),
                ]
            ratios.append(_in_turns(task, runs[0][0], runs[1][0]))
            words = ", ".join(
                f"{name} {1e3 * run[1]:.0f} ms a trial, {1e3 * run[2]:.0f} ms of it between trials"
                for name, run in zip(("fleet", "here"), runs, strict=True)
            )
            click.echo(f"seed {seed}, {names[seed % labels]}: the fleet's best takes "
                       f"{ratios[-1]:.3f} of the time of that of here; {words}")  # fmt: skip
    click.echo(f"median of {len(ratios)}: {median(ratios):.3f}")


def _tuned(task: Task, options: TuneOptions) -> tuple[Record, float, float]:
    """The best record; the seconds between two results; those in which no device worked."""
    ends: list[float] = []
    result = tune_task(task, options, lambda _: ends.append(time.monotonic()))
    assert result.best is not None
    with Records.open(options.records, read_only=True) as records:
        found = records.all(task.key)
    wall_s = (ends[-1] - ends[0]) / (len(ends) - 1)
    return result.best, wall_s, wall_s - sum(one.build_s + one.run_s for one in found) / len(found)


def _in_turns(task: Task, one: Record, other: Record) -> float:
    """How many times as long `one` takes as `other`, timed in turns."""
    if one.program_key == other.program_key:
        return 1.0
    options = MeasureOptions()
    with ThisMachine(options) as here:
        measurer = here.open(task, options, other.median_s or 0.0, Stopwatch())
        found: dict[Source, float] = {}
        for result in measurer.rank([one.source, other.source]):
            assert result.measurement is not None, result.failure
            found[result.source] = result.measurement.median_s
        measurer.close()
    return found[one.source] / found[other.source]
