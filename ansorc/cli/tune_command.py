"""`ansorc tune`: find a fast program for a workload on this machine."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from ansorc.cli.arguments import records_option, task_of, workload_arguments
from ansorc.cli.progress import Progress
from ansorc.codegen.limits import fma_peak
from ansorc.search.task import Task
from ansorc.search.trust import numpy_time
from ansorc.search.tune import TuneResult, tune_task
from ansorc.search.tune_options import TuneOptions


@click.command()
@workload_arguments
@records_option
@click.option("--trials", default=200, show_default=True, type=click.IntRange(min=1),
              help="Programs to measure in all; those in the record file count.")  # fmt: skip
@click.option("--time-budget", type=float, metavar="SECONDS", help="Stop after so long.")
@click.option("--seed", default=0, show_default=True, help="Seed of all random choices.")
@click.option("--threads", default=0, show_default=True, type=click.IntRange(min=0),
              help="Threads of the kernel; 0 means all cores.")  # fmt: skip
def tune(
    workload: str,
    settings: tuple[str, ...],
    target: str,
    records: Path,
    trials: int,
    **more: object,
) -> None:
    """Find a fast program for a workload, and record every measuring.

    A second run with the same record file goes on where the first one stopped. Ctrl-C ends the run
    with the best program saved.
    """
    task = task_of(workload, settings, target)
    options = TuneOptions(trials=trials, records=records, **more)  # pyright: ignore[reportArgumentType]
    peak = fma_peak(task.target, options.threads or task.target.cores)
    click.echo(f"{task.name}: {task.dag.flops / 1e9:.4g} GFLOP a run, target {task.target.text}, "
               f"seed {options.seed}", err=True)  # fmt: skip
    with Progress(task.name, task.dag.flops, peak) as progress:
        result = tune_task(task, options, progress)
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
    _print_table(task, result, peak)
    if result.best is None:
        raise click.ClickException(f"no program could be measured: {result.hint}")
    click.echo(f"records: {records}; build it with: ansorc build {workload} --records {records}")


def _print_table(task: Task, result: TuneResult, peak: float) -> None:
    table = Table("program", "ms", "GFLOP/s", "of peak", "spread", title=task.name)
    best = result.best
    if best is not None and best.median_s is not None:
        _add_row(table, "tuned", task, (best.median_s, best.spread_s), peak)
    if result.default is not None and result.default.median_s is not None:
        default = result.default
        assert default.median_s is not None
        _add_row(table, "untuned default", task, (default.median_s, default.spread_s), peak)
    _add_row(table, "NumPy", task, numpy_time(task, np.random.default_rng(0)), peak)
    Console().print(table)


def _add_row(table: Table, name: str, task: Task, time: tuple[float, float], peak: float) -> None:
    rate = task.dag.flops / time[0]
    table.add_row(name, f"{time[0] * 1e3:.4g}", f"{rate / 1e9:.1f}", f"{rate / peak:.0%}",
                  f"{time[1] / time[0]:.1%}")  # fmt: skip
