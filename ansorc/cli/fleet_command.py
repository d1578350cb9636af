"""`ansorc fleet`: what the machines of a fleet share."""

from __future__ import annotations

import click

from ansorc.fleet.signing import FleetKey, key_path


@click.group()
def fleet() -> None:
    """Make the key that the tuners and the workers of a fleet share."""


@fleet.command()
def key() -> None:
    """Make a key, and say where it lies; copy the file to each machine of the fleet.

    Workers run what is signed with it, and nothing else. $ANSORC_FLEET_KEY names another file.

    Example:  ansorc fleet key
    """
    click.echo(f"new fleet key: {FleetKey.create(key_path())}")
