"""The table of `ansorc tune --profile`: the time of each part of the search."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import click
from rich.console import Console

from ansorc.cli.tables import new_table
from ansorc.search.measure import BuildCost, RunCost
from ansorc.search.search_profile import SearchProfile
from ansorc.search.tune_result import TimeSpent
from ansorc.target.units import seconds_text

_DIGITS = 3


@contextmanager
def profile_search() -> Generator[SearchProfile | None]:
    """Profile the body of the `with`, if the command line has --profile."""
    if not click.get_current_context().params["profile"]:
        yield None
        return
    with SearchProfile() as profile:
        yield profile


def print_profile(profile: SearchProfile | None, spent: Sequence[TimeSpent]) -> None:
    """Print the seconds of each part, and of the processes that built and ran programs."""
    if profile is None:
        return
    console = Console()
    table = new_table(console, "where the time went", "part", "time", "share")
    for name, seconds in profile.seconds.items():
        table.add_row(name, seconds_text(seconds, _DIGITS), _share(seconds, profile.total_s))
    table.add_row("all", seconds_text(profile.total_s, _DIGITS), "100.0%")
    console.print(table)
    builds = BuildCost.sum([part.builds for part in spent]) if spent else BuildCost()
    runs = RunCost.sum([part.runs for part in spent]) if spent else RunCost()
    _print_parts(console, "during the builds", profile.beside)
    _print_parts(console, "in the build processes", {
        "lowering": builds.lower_s, "passes": builds.passes_s, "text": builds.emit_s,
        "compiler": builds.llvm_s,
    })  # fmt: skip
    _print_parts(console, "in the run process", {
        "preparing": runs.prepare_s, "warming up": runs.warm_up_s, "checking": runs.check_s,
        "timing": runs.repeats_s,
    })  # fmt: skip


def _print_parts(console: Console, title: str, parts: Mapping[str, float]) -> None:
    total = sum(parts.values())
    if not total:
        return
    table = new_table(console, title, "part", "time", "share")
    for name, seconds in parts.items():
        table.add_row(name, seconds_text(seconds, _DIGITS), _share(seconds, total))
    console.print(table)


def _share(seconds: float, total: float) -> str:
    return f"{seconds / max(total, 1e-9):.1%}"
