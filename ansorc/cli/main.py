"""The command `ansorc`, and how an error is shown."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from ansorc.cli.build_command import build
from ansorc.cli.doctor_command import doctor
from ansorc.cli.exit_codes import FAILED, INTERNAL, INTERRUPTED
from ansorc.cli.run_command import run
from ansorc.cli.show_command import show
from ansorc.cli.train_command import train
from ansorc.cli.tune_command import tune
from ansorc.errors import AnsorcError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ansorc", prog_name="ansorc")
def cli() -> None:
    """Find a fast program for a tensor operator on this machine, and build it for C++."""


for command in (tune, build, run, show, train, doctor):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; an error is one message, without a traceback."""
    try:
        code = cli.main(arguments, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        code = _fail(f"error: {error.format_message()}{_help(error)}", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = INTERRUPTED
    except AnsorcError as error:
        code = _fail(f"error: {error}")
    except OSError as error:
        code = _fail(f"error: {_words(error)}")
    except Exception as error:  # noqa: BLE001 - the last resort: a fault of ours, shown as such
        code = _fail_inside(error)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int = FAILED) -> int:
    click.echo(message, err=True)
    return code


def _help(error: click.ClickException) -> str:
    """Where the command line that was wrong is explained."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f" (see: {context.command_path} --help)" if context is not None else ""


def _fail_inside(error: Exception) -> int:
    """Tell of a fault in ansorc itself; with ANSORC_DEBUG set, with the traceback."""
    if os.environ.get("ANSORC_DEBUG"):
        traceback.print_exception(error)
    click.echo(
        f"internal error: {type(error).__name__}: {error}\nThis is a fault of ansorc, not of "
        "yours; what was measured is saved. Set ANSORC_DEBUG=1 to see where it happened.",
        err=True,
    )
    return INTERNAL


def _words(error: OSError) -> str:
    """What the system said, and of which file."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
