"""Time recorded programs once more: `python -m bench.search.retime --help`.

A cost model that learns from both files knows each program by the shorter of its times.
`--patience` is how long to wait until nothing disturbs the machine, as a share of the time that
measuring takes.
The programs of a task are timed in random order. A second run goes on where the first one stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress

from ansorc.search.measure import FailureKind, MeasureOptions, Measurer
from ansorc.search.record import Record, Records, current_environment
from ansorc.search.task import Task
from bench.search.collect import COLUMNS

Work = dict[Task, list[Record]]


@click.command()
@click.option("--records", required=True, type=click.Path(path_type=Path, exists=True),
              help="The record file with the programs.")  # fmt: skip
@click.option("--output", required=True, type=click.Path(path_type=Path),
              help="The record file for the new times.")  # fmt: skip
@click.option("--tasks", default="*", show_default=True, metavar="PATTERN[,PATTERN…]",
              help="Tasks with such names only.")  # fmt: skip
@click.option("--threads", default=0, show_default=True, help="Threads of the kernels; 0: all.")
@click.option("--patience", default=3.0, show_default=True, type=click.FloatRange(min=0))
@click.option("--seed", default=0, show_default=True, help="Of the inputs and of the order.")
def main(records: Path, output: Path, tasks: str, threads: int, patience: float, seed: int) -> None:
    """Time the programs of all tasks that were recorded with as many threads."""
    options = MeasureOptions(seed=seed)
    options = replace(options, run=replace(options.run, threads=threads, retry_share=patience))
    console = Console(stderr=True)
    with Records.open(output) as new, Progress(*COLUMNS, console=console) as progress:
        work = _work(records, new, tasks.split(","), threads)
        whole = progress.add_task("all", total=sum(map(len, work.values())))
        for task, programs in work.items():
            _timed(task, programs, options, new, lambda: progress.advance(whole))
            progress.console.print(f"{task.name}: {len(programs)} programs")


def _work(records: Path, new: Records, patterns: list[str], threads: int) -> Work:
    """The programs that are not in `new` yet, of tasks with a name like one of `patterns`."""
    environment = current_environment(threads)
    work: Work = {}
    with Records.open(records, create=False) as old:
        for task in old.tasks():
            done = new.measured(task.key, environment)
            found = [
                record
                for record in old.all(task.key)
                if record.environment.running == environment.running
                and not record.function
                and record.failure is not FailureKind.UNKNOWN
                and record.program_key not in done
            ]
            if found and any(fnmatchcase(task.name, pattern) for pattern in patterns):
                work[task] = found
    return work


def _timed(
    task: Task,
    programs: list[Record],
    options: MeasureOptions,
    new: Records,
    tick: Callable[[], None],
) -> None:
    """Time `programs` and write their records."""
    environment = current_environment(options.run.threads)
    rng = np.random.default_rng(options.seed)
    order: list[int] = rng.permutation(len(programs)).tolist()
    known = [record.median_s for record in programs if record.median_s is not None]
    new.add_task(task)
    with Measurer(task, options, min(known, default=0.0)) as measurer:
        texts = [programs[place].program for place in order]
        for text, outcome in zip(texts, measurer.measure(texts), strict=True):
            new.add(Record.of(task.key, text, outcome, environment, seed=options.seed))
            tick()


if __name__ == "__main__":
    main()
