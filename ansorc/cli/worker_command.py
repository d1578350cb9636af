"""`ansorc worker`: lend this machine to a fleet."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import cast

import click

from ansorc.fleet.announcement import Announcement
from ansorc.fleet.board import Board
from ansorc.fleet.board_labour import BoardLabour
from ansorc.fleet.device import FleetDevice, Sandbox, probe_here
from ansorc.fleet.fleet import import_engine
from ansorc.fleet.signing import FleetKey
from ansorc.target.units import seconds_text


@click.command()
@click.argument("scheduler")
@click.option("--device", required=True, metavar="NAME",
              help="The label of this machine and of others like it.")  # fmt: skip
@click.option("--cores", metavar="0-3,6", help="Use these cores alone.")
@click.option("--probe-s", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="Use this time of the calibration probe instead of measuring it, for virtual "
              "machines whose speed varies.")  # fmt: skip
@click.option("--through", metavar="COMMAND",
              help="Lend the board instead whose `ansorc-runner` this command starts, such as "
              "\"ssh pi ./ansorc-runner\"; this machine builds.")  # fmt: skip
def worker(
    *, scheduler: str, device: str, cores: str | None, probe_s: float | None, through: str | None
) -> None:
    """Lend this machine to the fleet of the Dask scheduler at SCHEDULER, until it is stopped.

    It runs programs from tuners with the fleet's key, one at a time, in separate processes. If the
    scheduler ends, it waits for the next one.

    Example:  ansorc worker tcp://10.0.0.1:8786 --device epyc --cores 0-15
    """
    if cores is not None and through is not None:
        raise click.UsageError("--cores is for this machine; give it to ansorc-runner in --through")
    if cores is not None:
        _pin(cores)
    key = FleetKey.read()
    serve = cast("Callable[[str, Sequence[FleetDevice], Callable[[str], None]], None]",
                 import_engine().run_devices)  # fmt: skip
    board = None if through is None else Board(through)
    known = (
        Announcement.here(device, probe_s) if board is None else board.announcement(device, probe_s)
    )
    given = "given" if known.probe_is_given else "measured"
    click.echo(f"device '{device}': {known.cpu}, {known.cores} cores, {known.target}, "
               f"probe {seconds_text(known.probe_s)} ({given})", err=True)  # fmt: skip
    labour = Sandbox() if board is None else BoardLabour(board)
    probe = None if known.probe_is_given or board is not None else probe_here()
    with closing(FleetDevice(known, key, labour, probe)) as made:
        serve(scheduler, [made], lambda words: click.echo(words, err=True))


def _pin(text: str) -> None:
    """Pin this process and its children to the cores of `text`."""
    try:
        cores_ = set[int]()
        for part in text.split(","):
            first, _, last = part.partition("-")
            cores_.update(range(int(first), int(last or first) + 1))
        os.sched_setaffinity(0, cores_)
    except (ValueError, OSError) as error:
        usable = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        raise click.UsageError(f"--cores {text}: {error}; usable are {usable}") from error
