"""Record programs of the paper's operators to learn from: `python -m bench.search.collect --help`.

Half of a case's programs are drawn at random, the other half are what the search asks for. A second
run with the same file goes on where the first one stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ansorc.errors import AnsorcError
from ansorc.search.options import NO_FINE_TUNING
from ansorc.search.task import Task
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress
from ansorc.target.units import seconds_text
from bench.paper_cases import CASES, Case

COLUMNS = (
    TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
)  # fmt: skip


@click.command()
@click.option("--records", required=True, type=click.Path(path_type=Path), help="The record file.")
@click.option("--per-case", default=256, show_default=True, type=click.IntRange(min=2),
              help="Programs to have of each case.")  # fmt: skip
@click.option("--threads", default=0, show_default=True, help="Threads of the kernels; 0: all.")
@click.option("--seed", default=0, show_default=True)
@click.option("--cases", default="*-b1", show_default=True, metavar="PATTERN[,PATTERN…]",
              help="Cases with such names, e.g. 'GMM-*-b1,C2D-3-b16'.")  # fmt: skip
@click.option("--max-gflop", default=float("inf"), type=float,
              help="Leave out cases with more operations in a call.")  # fmt: skip
def main(
    records: Path, per_case: int, threads: int, seed: int, cases: str, max_gflop: float
) -> None:
    """Measure programs of the paper's operators, the smallest cases first."""
    chosen = chosen_cases(cases, max_gflop)
    options = TuneOptions(per_case, records, seed, threads)
    console = Console(stderr=True)
    console.print(f"{len(chosen)} cases, {len(chosen) * per_case} programs")
    with Progress(*COLUMNS, console=console) as progress:
        whole = progress.add_task("all", total=len(chosen) * per_case)
        for done, case in enumerate(chosen):
            bar = progress.add_task(case.name, total=per_case)
            note = _collected(case, options, lambda trial, bar=bar: progress.update(
                bar, completed=trial.done))  # fmt: skip
            progress.update(whole, completed=(done + 1) * per_case)
            progress.remove_task(bar)
            progress.console.print(f"{case.name}: {note}")


def chosen_cases(names: str, max_gflop: float = float("inf")) -> list[Case]:
    """Return the cases with a name like one of the patterns `names`, those of least work first."""
    patterns = names.split(",")
    work = {
        case: case.dag().flops
        for case in CASES
        if any(fnmatchcase(case.name, pattern) for pattern in patterns)
    }
    chosen = sorted((case for case in work if work[case] <= max_gflop * 1e9), key=work.__getitem__)
    if not chosen:
        raise click.UsageError(f"no case that is called {names} does so little work")
    return chosen


def _collected(case: Case, options: TuneOptions, on_trial: Callable[[RunProgress], None]) -> str:
    """Measure the programs of `case` that are missing; say how it went."""
    task = Task(case.dag(constant=True), "native", case.name)
    half = replace(options, trials=options.trials // 2, search=NO_FINE_TUNING)
    try:
        for part in (half, options):
            result = tune_task(task, part, on_trial)
            if result.interrupted:
                raise click.Abort
    except AnsorcError as error:
        return f"stopped ({error})"
    seconds = None if result.best is None else result.best.median_s
    best = "nothing worked" if seconds is None else f"best {seconds_text(seconds)}"
    failed = ", ".join(f"{count} {kind}" for kind, count in result.failures.items())
    return f"{result.trials} programs, {best}{', failed now: ' if failed else ''}{failed}"


if __name__ == "__main__":
    main()
