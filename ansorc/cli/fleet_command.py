"""`ansorc fleet`: the key and the status of a fleet; options to tune on a fleet."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from rich.console import Console

from ansorc.cli.tables import new_table
from ansorc.fleet.fleet import Fleet
from ansorc.fleet.signing import FleetKey, key_path
from ansorc.fleet.status import HEADINGS, DeviceStatus, devices_at, summary_of
from ansorc.search.tune_options import TuneOptions
from ansorc.target import Target


@click.group()
def fleet() -> None:
    """Make the key that tuners and workers of a fleet share, and show the fleet's status."""


@fleet.command()
def key() -> None:
    """Make a key, and print its file name; copy the file to each machine of the fleet.

    Workers only run jobs that are signed with it. $ANSORC_FLEET_KEY names another file.

    Example:  ansorc fleet key
    """
    click.echo(f"new fleet key: {FleetKey.create(key_path())}")


@fleet.command()
@click.argument("scheduler")
@click.option("--json", "as_json", is_flag=True, help="For scripts: one JSON object.")
def status(*, scheduler: str, as_json: bool) -> None:
    """Show the devices of the fleet at SCHEDULER, and their current jobs.

    Example:  ansorc fleet status tcp://10.0.0.1:8786
    """
    devices_ = devices_at(scheduler)
    if as_json:
        devices = [device.to_json() for device in devices_]
        click.echo(json.dumps({"scheduler": scheduler, "devices": devices}, indent=2))
        return
    _print_devices(scheduler, devices_)


def _print_devices(scheduler: str, devices: list[DeviceStatus]) -> None:
    if not devices:
        click.echo(f"{scheduler} has no devices; start `ansorc worker {scheduler} --device NAME`")
        return
    console = Console() if Console().is_terminal else Console(width=160)
    table = new_table(console, f"{scheduler}: {summary_of(devices)}", *HEADINGS)
    for device in devices:
        table.add_row(*device.row())
    console.print(table)
    for device in devices:
        if device.state in ("kept apart", "another key"):
            words = device.note or f"the worker at {device.address} has another fleet key"
            click.echo(f"note: {words}")


def takes_fleet(command: Callable[..., None]) -> Callable[..., None]:
    """Add --fleet, --device and --build-on to `ansorc tune`: with them it measures on a fleet."""

    @click.option("--fleet", "fleet_at", metavar="ADDRESS",
                  help="Measure on the fleet of the Dask scheduler at ADDRESS, such as "
                  "tcp://10.0.0.1:8786; needs --device.")  # fmt: skip
    @click.option("--device", metavar="NAME", help="The label of the fleet's devices to tune for.")
    @click.option("--build-on", metavar="NAME",
                  help="The label of devices that compile, for boards that cannot.")  # fmt: skip
    @wraps(command)
    def measure(
        *,
        fleet_at: str | None,
        device: str | None,
        build_on: str | None,
        target: str,
        **given: Any,
    ) -> None:
        if fleet_at is None:
            if device or build_on:
                raise click.UsageError(
                    "--device and --build-on are for a fleet: name it by --fleet"
                )
            command(target=target, **given)
            return
        if device is None:
            raise click.UsageError(
                "--fleet needs --device NAME, the label of the devices to tune for; "
                f"`ansorc fleet status {fleet_at}` shows them"
            )
        with Fleet(fleet_at, device, build_on or "") as made:
            if target == "native" and made.target.text != Target.parse("native").text:
                target = made.target.text
            click.get_current_context().params["target"] = target
            known = made.announcement
            click.echo(f"device '{device}': {known.cpu}, {known.cores} cores, "
                       f"{made.summary}", err=True)  # fmt: skip
            command(target=target, measurer=made, **given)

    return measure


def fleet_words() -> str:
    """Return the options of this command line that name a fleet, or "", for another command."""
    given = click.get_current_context().params
    if given["fleet_at"] is None:
        return ""
    words = ["--fleet", given["fleet_at"], "--device", given["device"]]
    words += ["--build-on", given["build_on"]] if given["build_on"] else []
    return f" {shlex.join(words)}"


def in_flight(options: TuneOptions) -> Callable[[], str]:
    """Return a function that shows how many devices work for a tuning; "" for this machine."""
    measurer = options.measurer
    return (lambda: measurer.summary) if isinstance(measurer, Fleet) else str
