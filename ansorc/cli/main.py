"""The command `ansorc`, and how an error is shown."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, cast

import click

from ansorc.cli.exit_codes import FAILED, INTERNAL, INTERRUPTED
from ansorc.errors import AnsorcError, InternalError, IRError, ansorc_version

_SUMMARIES = {
    "bench": "Compare workloads with other libraries.",
    "build": "Make a library and a C header.",
    "doctor": "Show what was detected and what is missing.",
    "fleet": "Make the key of a fleet.",
    "records": "Look into record files, join them, check them.",
    "report": "Write a page on how a tuning run went.",
    "run": "Check a program's numbers, then time it.",
    "show": "Print loops, IR, LLVM IR, assembly.",
    "train": "Make a cost model of recorded programs.",
    "tune": "Find a fast program and record every measuring.",
    "worker": "Lend this machine to a fleet as a device.",
}
"""The commands; the module of each is imported when it is called, so that help is fast."""

_FIRST_STEPS = """
Write what is to be computed into a file gemm.py:

    import ansorc as ac

    @ac.workload
    def matmul(n: int = 512):
        A = ac.placeholder((n, n), name="A")
        B = ac.placeholder((n, n), name="B")
        return [A, B, ac.ops.matmul(A, B)]

Find a fast program for it, make a library for C and C++, check and time it:

    ansorc tune gemm.py:matmul --trials 200
    ansorc build gemm.py:matmul -o matmul.so
    ansorc run gemm.py:matmul

Networks are tuned, too: ansorc tune net.onnx. Each command has --help.
"""
"""Text that `ansorc` without arguments prints under the list of commands."""


class CommandsByName(click.Group):
    """A group with the commands of `_SUMMARIES`, which are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return list(_SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command named `cmd_name`, or None."""
        del ctx
        if cmd_name not in _SUMMARIES:
            return None
        module = import_module(f"ansorc.cli.{cmd_name}_command")
        return cast("click.Command", getattr(module, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_SUMMARIES.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first three things to do, as they are: lines are not filled again."""
        del ctx
        with formatter.section("First steps"):
            for line in _FIRST_STEPS.strip().splitlines():
                formatter.write(f"  {line}".rstrip() + "\n")


def _print_versions(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001
    """Print the versions of ansorc, of its compiler, and of the linker."""
    del parameter
    if not value or context.resilient_parsing:
        return
    click.echo("\n".join(import_module("ansorc.cli.versions").version_lines()))
    context.exit()


def _log(context: click.Context, parameter: click.Parameter, value: int) -> None:
    import_module("ansorc.cli.verbose").log_to_stderr(context, parameter, value)


@click.group(cls=CommandsByName, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True,
              callback=_print_versions,
              help="Show the versions of ansorc, LLVM and the C++ compiler, and exit.")  # fmt: skip
@click.option("-v", "--verbose", count=True, expose_value=False, callback=_log,
              help="Say on the error output what is built, chosen and measured; -vv: each pass, "
              "each program. Before the command: ansorc -v build …")  # fmt: skip
def cli() -> None:
    """Find a fast program for a tensor operator on this machine, and build it for C++."""


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
    except (InternalError, IRError) as error:
        code = _fail_inside(error)
    except AnsorcError as error:
        code = _fail(f"error: {error}")
    except OSError as error:
        code = _fail(f"error: {_words(error)}")
    except Exception as error:  # noqa: BLE001 - the last resort: a fault of ours, shown as such
        code = _fail_inside(error)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int = FAILED) -> int:
    """Print the message and return `code`; the terminal may be gone."""
    for stream in (sys.stderr, sys.stdout):
        with contextlib.suppress(OSError):
            print(message, file=stream, flush=True)
            break
    return code


def _help(error: click.ClickException) -> str:
    """Return the command that explains the wrong command line."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f" (see: {context.command_path} --help)" if context is not None else ""


def _fail_inside(error: Exception) -> int:
    """Print an error in ansorc itself, with the traceback if ANSORC_DEBUG is set."""
    if os.environ.get("ANSORC_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, InternalError):
        return _fail(f"internal error: {error}", INTERNAL)
    words = (
        f"internal error: {type(error).__name__}: {error}\nThis is a fault of ansorc, not of "
        "yours; what was measured is saved. Set ANSORC_DEBUG=1 to see where it happened, and "
        f"ANSORC_DUMP=DIR to get what was built; please report both, with "
        f"ansorc {ansorc_version()}."
    )
    return _fail(words, INTERNAL)


def _words(error: OSError) -> str:
    """Return the message of the system, with the file name."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
