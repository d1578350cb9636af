"""The command `ansorc`, and how an error is shown."""

from __future__ import annotations

import sys
from importlib import metadata

import click

from ansorc.cli.build_command import build
from ansorc.cli.doctor_command import doctor
from ansorc.cli.run_command import run
from ansorc.cli.show_command import show
from ansorc.cli.tune_command import tune
from ansorc.errors import AnsorcError

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 + SIGINT."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(metadata.version("ansorc"), prog_name="ansorc")
def cli() -> None:
    """Find a fast program for a tensor operator on this machine, and build it for C++."""


for command in (tune, build, run, show, doctor):
    cli.add_command(command)


def main() -> None:
    """Run the command line; an error of the user's is one message and exit code 1."""
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = INTERRUPTED
    except AnsorcError as error:
        click.echo(f"error: {error}", err=True)
        code = 1
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        sys.stderr.close()
        code = 1
    except OSError as error:
        click.echo(f"error: {error.filename or ''}: {error.strerror or error}", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
