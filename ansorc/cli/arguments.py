"""Arguments that several commands share: the workload with its settings and target, the records."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

import click

from ansorc.lang.dag import ComputeDAG
from ansorc.lang.workload import load_workload, load_workloads
from ansorc.search.measure import CachePolicy
from ansorc.search.programs import ProgramChoice
from ansorc.search.task import Task
from ansorc.target import Target

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])


def takes_task(command: Callable[Concatenate[Task, P], None]) -> Callable[..., None]:
    """Add FILE:WORKLOAD, --set and --target to a command, which gets the task they name."""

    @click.argument("workload", metavar="FILE:WORKLOAD")
    @click.option("--set", "settings", multiple=True, metavar="NAME=INTEGER",
                  help="Set an integer parameter of the workload; may be repeated.")  # fmt: skip
    @click.option("--target", default="native", show_default=True,
                  help="The machine, e.g. 'x86_64-linux-gnu -mcpu=znver4'.")  # fmt: skip
    @wraps(command)
    def with_task(
        workload: str, settings: tuple[str, ...], target: str, *args: P.args, **rest: P.kwargs
    ) -> None:
        found = Target.parse(target)
        dag, name = dag_of(workload, settings)
        command(Task(dag, found, name), *args, **rest)

    return with_task


def takes_records(command: F) -> F:
    """Add --records, --threads and --cache to a command."""
    command = click.option(
        "--cache", default="warm", show_default=True, type=click.Choice(get_args(CachePolicy)),
        help="What the caches held when programs were timed: what the call before left, or "
        "nothing.",
    )(command)  # fmt: skip
    command = click.option(
        "--threads", default=0, show_default=True, type=click.IntRange(0, 1024),
        help="Threads of the kernel; 0 means all cores.",
    )(command)  # fmt: skip
    return click.option(
        "--records", default="tune.db", show_default=True, type=click.Path(path_type=Path),
        help="The file that keeps what was measured.",
    )(command)  # fmt: skip


def takes_choice(
    command: Callable[Concatenate[Task, ProgramChoice, P], None],
) -> Callable[..., None]:
    """Add --default and the options of `takes_records` to a command: its ProgramChoice."""

    @takes_records
    @click.option("--default", "use_default", is_flag=True,
                  help="The untuned default schedule, not the best recorded program.")  # fmt: skip
    @wraps(command)
    def with_choice(
        task: Task, records: Path, threads: int, cache: CachePolicy, use_default: bool,  # noqa: FBT001
        *args: P.args, **rest: P.kwargs,
    ) -> None:  # fmt: skip
        command(task, ProgramChoice(records, threads, cache, use_default), *args, **rest)

    return with_choice


def dag_of(workload: str, settings: tuple[str, ...]) -> tuple[ComputeDAG, str]:
    """Return the computation that FILE:WORKLOAD defines, and its name.

    The name may be left out where the file has one workload. Raise LanguageError or UsageError.
    """
    path, colon, name = workload.rpartition(":")
    path, name = (path, name) if colon else (workload, "")
    dag = load_workload(path, name, dict(_setting(text) for text in settings))
    return dag, name or next(iter(load_workloads(path)))


def same_workload() -> str:
    """Return the workload, settings, target and records of this command line, for another one."""
    given = click.get_current_context().params
    words = [str(given["workload"])]
    words += [word for setting in given["settings"] for word in ("--set", setting)]
    words += ["--target", given["target"]] if given["target"] != "native" else []
    words += ["--threads", str(given["threads"])] if given["threads"] else []
    words += ["--cache", given["cache"]] if given["cache"] != "warm" else []
    return shlex.join([*words, "--records", str(given["records"])])


def _setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    try:
        return name, int(value)
    except ValueError:
        pass
    hint = "" if equals else " (there is no '=')"
    raise click.UsageError(f"--set {text}: write NAME=INTEGER, e.g. --set n=1024{hint}")
