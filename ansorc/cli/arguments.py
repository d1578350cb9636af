"""Arguments that several commands share: the workload, its settings, target and records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ansorc.lang.dag import ComputeDAG
from ansorc.lang.workload import load_workload
from ansorc.search.task import Task
from ansorc.target import Target

F = TypeVar("F", bound=Callable[..., Any])


def workload_arguments(command: F) -> F:
    """Add FILE:WORKLOAD, --set and --target to a command."""
    command = click.argument("workload", metavar="FILE:WORKLOAD")(command)
    command = click.option(
        "--set", "settings", multiple=True, metavar="NAME=INTEGER",
        help="Set an integer parameter of the workload; may be repeated.",
    )(command)  # fmt: skip
    return click.option(
        "--target", default="native", show_default=True,
        help="The machine to make code for, e.g. 'x86_64-linux-gnu -mcpu=znver4'.",
    )(command)  # fmt: skip


def records_option(command: F) -> F:
    """Add --records to a command."""
    return click.option(
        "--records", default="tune.db", show_default=True, type=click.Path(path_type=Path),
        help="The file that keeps what was measured.",
    )(command)  # fmt: skip


def task_of(workload: str, settings: tuple[str, ...], target: str) -> Task:
    """Return the task that the arguments name; raise UsageError or LanguageError."""
    dag, name = dag_of(workload, settings)
    return Task(dag, Target.parse(target), name)


def dag_of(workload: str, settings: tuple[str, ...]) -> tuple[ComputeDAG, str]:
    """Return the computation that FILE:WORKLOAD defines, and its name."""
    path, colon, name = workload.rpartition(":")
    if not colon or not path or not name:
        raise click.UsageError(
            f"'{workload}' does not name a workload; write FILE:WORKLOAD, e.g. gemm.py:matmul"
        )
    return load_workload(Path(path), name, dict(_setting(text) for text in settings)), name


def _setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    try:
        return name, int(value)
    except ValueError:
        pass
    hint = "" if equals else " (there is no '=')"
    raise click.UsageError(f"--set {text}: write NAME=INTEGER, e.g. --set n=1024{hint}")
