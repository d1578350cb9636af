"""`python -m bench fleet`: one tuner and simulated devices, from one to many."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ansorc.fleet.connection import FleetOptions
from ansorc.fleet.fleet import Fleet
from ansorc.search.record import Records
from ansorc.search.task import Task
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress
from ansorc.target.units import seconds_text
from bench.fleet.processes import LABEL, SimulatedFleet
from bench.fleet.simulated import RecordedTimes

_SAMPLE_S = 0.01
_MOST_ROWS = 12


@dataclass
class FleetRun:
    """What a tuning on simulated devices came to."""

    devices: int
    rate: float = 0.0
    """Trials a second, while all devices have work."""
    ideal: float = 0.0
    tuner_share: float = 0.0
    """Of one core, the tuner's process; then the scheduler, and all devices."""
    scheduler_share: float = 0.0
    devices_share: float = 0.0
    sent: float = 0.0
    """Bytes a trial."""
    received: float = 0.0
    samples: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True)
class _Simulated:
    records: Path
    devices: int
    slower: float


@click.command()
@click.option("--records", required=True, type=click.Path(path_type=Path, exists=True),
              help="Its first task is tuned, each trial as long as recorded.")  # fmt: skip
@click.option("--devices", default="1,8,64,256", show_default=True)
@click.option("--seconds", default=15.0, show_default=True, help="About so long is each run.")
@click.option("--slower", default=1.0, show_default=True,
              help="Devices take so many times as long as recorded.")  # fmt: skip
@click.option("--profile", is_flag=True, help="Say where the tuner's threads were found.")
def fleet(*, records: Path, devices: str, seconds: float, slower: float, profile: bool) -> None:
    """Tune on simulated devices: trials a second, who works how much, bytes a trial."""
    times = RecordedTimes(records, slower)
    with Records.open(records, create=False) as held:
        task = held.tasks()[0]
    click.echo(f"{task.name}: {seconds_text(times.mean_s, 3)} a trial, {os.cpu_count()} cores "
               "for tuner, scheduler and devices")  # fmt: skip
    runs = [
        _measured(task, times, _Simulated(records, int(count), slower), seconds, profile=profile)
        for count in devices.split(",")
    ]
    _print(runs)


def _measured(
    task: Task, times: RecordedTimes, of: _Simulated, seconds: float, *, profile: bool
) -> FleetRun:
    devices = of.devices
    run = FleetRun(devices, ideal=devices / times.mean_s)
    stamps: list[float] = []
    own: list[float] = []
    with tempfile.TemporaryDirectory(prefix="ansorc-fleet-") as place:
        directory = Path(place)
        with (
            SimulatedFleet(directory, of.records, devices, of.slower) as here,
            Fleet(here.address, LABEL, key=here.key, options=FleetOptions()) as made,
            _sampled(run.samples, is_on=profile),
        ):
            used: list[tuple[float, float]] = []

            def note(trial: RunProgress) -> None:
                del trial
                stamps.append(time.monotonic())
                own.append(time.process_time())
                if len(stamps) in (first, last):
                    used.append(here.used())

            first = 2 * devices + 1
            last = first + max(24, int(run.ideal * seconds))
            last = min(last, first + 6000)
            options = TuneOptions(last + 2 * devices, directory / "tune.db", measurer=made)
            tune_task(task, options, note)
            sent, received = made.traffic_bytes
    begin, end = stamps[first - 1], stamps[last - 1]
    run.rate = (last - first) / (end - begin)
    run.tuner_share = (own[last - 1] - own[first - 1]) / (end - begin)
    run.scheduler_share = (used[1][0] - used[0][0]) / (end - begin)
    run.devices_share = (used[1][1] - used[0][1]) / (end - begin)
    run.sent, run.received = sent / len(stamps), received / len(stamps)
    return run


@contextmanager
def _sampled(found: Counter[str], *, is_on: bool) -> Generator[None]:
    """Count where the threads of this process are, every 10 ms."""
    ended = threading.Event()

    def sample() -> None:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        while not ended.wait(_SAMPLE_S):
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():  # pyright: ignore[reportPrivateUsage]
                name = names.get(ident, "?")
                if name.startswith(("MainThread", "ansorc")):
                    places: list[str] = []
                    while frame is not None and len(places) < 1:
                        file = frame.f_code.co_filename
                        if "site-packages" in file or "ansorc" in file:
                            places.append(f"{Path(file).stem}.{frame.f_code.co_name}")
                        frame = frame.f_back  # noqa: PLW2901 - up the stack
                    found[f"{name.rstrip('0123456789_')}: {' < '.join(places) or 'waits'}"] += 1

    thread = threading.Thread(target=sample, daemon=True)
    if is_on:
        thread.start()
    try:
        yield
    finally:
        ended.set()


def _print(runs: list[FleetRun]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table()
    for heading in ("devices", "trials/s", "ideal", "of the ideal", "of one's rate", "overhead",
                    "tuner", "scheduler", "devices' processes", "sent", "received"):  # fmt: skip
        table.add_column(heading, justify="right")
    for run in runs:
        one = runs[0].rate / runs[0].devices * run.devices
        each_s = run.devices / run.rate - run.devices / run.ideal
        table.add_row(
            str(run.devices), f"{run.rate:.1f}", f"{run.ideal:.1f}", f"{run.rate / run.ideal:.0%}",
            f"{run.rate / one:.0%}", seconds_text(each_s, 3), f"{run.tuner_share:.0%}",
            f"{run.scheduler_share:.0%}", f"{run.devices_share:.0%}", f"{run.sent:.0f} B",
            f"{run.received:.0f} B",
        )  # fmt: skip
    console.print(table)
    for run in runs:
        if total := sum(run.samples.values()):
            click.echo(f"{run.devices} devices, where the tuner's threads were:")
            for name, count in run.samples.most_common(_MOST_ROWS):
                click.echo(f"  {count / total:6.1%} {name}")
