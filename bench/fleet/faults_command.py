"""`python -m bench fleet_faults`: a fleet of this machine, with random faults."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import click

from bench.fleet.fault_report import Account
from bench.fleet.fault_tuner import TunerProcess
from bench.fleet.faults import Disturbance
from bench.fleet.faulty_fleet import SIMULATED, FaultyFleet

_END_S = 120.0
"""A tuning that is under way ends in this time once all faults are mended."""


@click.command("fleet_faults")
@click.option("--faults", default=500, show_default=True, type=click.IntRange(min=1))
@click.option("--minutes", default=25.0, show_default=True, help="In which they come.")
@click.option("--seed", default=0, show_default=True)
@click.option("--devices", default=6, show_default=True, help="Simulated ones.")
@click.option("--real", default=2, show_default=True, help="Devices that really measure.")
@click.option("--trial-s", default=1.0, show_default=True, help="A simulated trial takes so long.")
@click.option("--keep", type=click.Path(path_type=Path), help="A new directory for all logs.")
def fleet_faults(
    *, faults: int, minutes: float, seed: int, devices: int, real: int, trial_s: float,
    keep: Path | None,
) -> None:  # fmt: skip
    """Tune on a fleet whose devices, scheduler, network and tuners fail; count what is wrong."""
    with tempfile.TemporaryDirectory(prefix="ansorc-faults-") as temporary:
        directory = keep or Path(temporary)
        directory.mkdir(exist_ok=True)
        with FaultyFleet(directory, devices, real, trial_s) as fleet:
            begin = time.monotonic()
            found, begun = disturbed(fleet, directory, faults, 60 * minutes, seed)
            seconds = time.monotonic() - begin
    click.echo(f"{sum(begun.values())} faults in {seconds / 60:.1f} minutes: "
               + ", ".join(f"{count} {name}" for name, count in begun.items()))  # fmt: skip
    click.echo(f"{found.trials} trials in {found.tunings} tunings that ended; {found.ends} ended "
               f"in words; {found.given_up} programs were given up")  # fmt: skip
    click.echo(f"records lost {len(found.lost)}, doubled {len(found.doubled)}, wrong "
               f"{len(found.wrong)}; hangs {len(found.hangs)}; states wrong at the end "
               f"{len(found.states)}")  # fmt: skip
    for words in found.defects[:40]:
        click.echo(f"  {words}")
    if found.defects:
        raise SystemExit(1)


def disturbed(
    fleet: FaultyFleet, directory: Path, faults: int, seconds: float, seed: int,
    shortened: float = 1.0, trials: int = 100,
) -> tuple[Account, dict[str, int]]:  # fmt: skip
    """Let `faults` come in about so many seconds; return what is wrong in the end, and which came.

    Tuners of `trials` programs a task work meanwhile, and end theirs once all is mended.
    """
    labels = dict.fromkeys(device.order.known.label for device in fleet.devices)
    tuners = [
        TunerProcess(fleet.tuners_address, fleet.key, label, directory / f"tuner-{label}",
                     trials if label == SIMULATED else trials // 4)
        for label in labels
    ]  # fmt: skip
    found = Account()
    try:
        disturbance = Disturbance(fleet, tuners, seed, shortened)
        rng = random.Random(seed + 1)
        while not all(tuner.has_begun for tuner in tuners):
            disturbance.wait(0.1)
        begin = time.monotonic()
        for number in range(faults):
            due = begin + seconds * (number + rng.random()) / faults
            disturbance.wait(max(0.0, due - time.monotonic()))
            disturbance.begin_one()
        disturbance.mend_all()
        for tuner in tuners:
            tuner.stop(_END_S)
    finally:
        for tuner in tuners:
            tuner.close()
    for tuner in tuners:
        found.take(tuner)
    found.take_states(fleet)
    return found, dict(disturbance.begun.most_common())
