"""How good, how fast and how steady tuning is: `python -m bench.search.quality --help`.

A run begins with an empty record file, so that its wall time means something. What is finished is
in the output file and is not measured again; an interrupted run begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from rich.console import Console

from ansorc.cli.progress import Progress
from ansorc.codegen.llvm.limits import fma_peak
from ansorc.compare.checked_run import check_and_time
from ansorc.search.task import Task
from ansorc.search.tune import TuneResult, tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress
from bench.search.cases import CASES
from bench.search.finding import Finding, load, missed_goals, save, table
from bench.search.turns import timed_in_turns

WANTED = "matmul512,matmul1024,conv14,conv7"
_WIDTH = 120
_INPUTS_SEED = 1
"""Other inputs than those of the tuning."""


@click.command()
@click.option("--cases", default=WANTED, show_default=True, metavar="NAME[,NAME…]",
              help=f"Some of: {', '.join(CASES)}.")  # fmt: skip
@click.option("--trials", default=200, show_default=True, type=click.IntRange(min=2))
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--long", "long_trials", default=0, metavar="TRIALS",
              help="Continue every run to so many trials, and compare.")  # fmt: skip
@click.option("--threads", default=0, show_default=True, help="Threads of the kernels; 0: all.")
@click.option("--records", default="out/quality", show_default=True,
              type=click.Path(path_type=Path), help="The directory of the records.")  # fmt: skip
@click.option("--output", required=True, type=click.Path(path_type=Path), help="A JSON file.")
def main(
    *, cases: str, trials: int, seeds: int, long_trials: int, threads: int, records: Path,
    output: Path,
) -> None:  # fmt: skip
    """Tune each case with several seeds, and print what came of it."""
    names = cases.split(",")
    if unknown := [name for name in names if name not in CASES]:
        raise click.UsageError(f"no case is called {unknown[0]}; there are: {', '.join(CASES)}")
    findings = load(output)
    for seed in range(seeds):
        for name in names:
            options = TuneOptions(trials, records / f"{name}-{seed}.db", seed, threads)
            done = [f for f in findings if (f.case, f.seed, f.trials) == (name, seed, trials)]
            if any(f.long_trials >= long_trials for f in done):
                continue
            found = measured(name, options, long_trials)
            findings = [f for f in findings if f not in done] + [found]
            save(findings, output)
    chosen = [f for f in findings if f.case in names and f.trials == trials]
    chosen.sort(key=lambda f: (names.index(f.case), f.seed))
    Console(width=_WIDTH).print(table(chosen))
    for line in missed_goals(chosen):
        click.echo(f"missed: {line}")


def measured(name: str, options: TuneOptions, long_trials: int) -> Finding:
    """Make one run from an empty record file, and continue it to `long_trials` if they are more."""
    task = CASES[name].task()
    Path(str(options.records)).parent.mkdir(parents=True, exist_ok=True)
    for suffix in ("", "-wal", "-shm"):
        Path(f"{options.records}{suffix}").unlink(missing_ok=True)
    curve: list[tuple[int, float, float]] = []

    def keep(trial: RunProgress) -> None:
        if trial.is_new_best and trial.best_s is not None:
            curve.append((trial.done, trial.elapsed_s, trial.best_s))

    result = _tuned(task, options, keep)
    assert result.best is not None
    assert result.best.median_s is not None
    assert result.default is not None
    assert result.default.median_s is not None
    spent = result.spent
    rng = np.random.default_rng(_INPUTS_SEED)
    timed = check_and_time(task, result.build(), rng, threads=options.threads)
    finding = Finding(
        name, options.seed, options.trials, result.measured_now, sum(result.failures.values()),
        timed.peak_share, result.best.median_s, result.default.median_s, result.elapsed_s,
        spent.build_s + spent.run_s + spent.contest_s, tuple(curve),
    )  # fmt: skip
    if long_trials <= options.trials:
        return finding
    longer = replace(options, trials=long_trials)
    later = _tuned(task, longer, lambda _: None)
    return replace(finding, long_trials=long_trials, long_ratio=_ratio(result, later, options))


def _tuned(task: Task, options: TuneOptions, keep: Callable[[RunProgress], None]) -> TuneResult:
    peak = fma_peak(task.target, options.threads or task.target.cores)
    title = f"{task.name} seed {options.seed}"
    with Progress(title, task.dag.flops, peak) as progress:

        def tell(trial: RunProgress) -> None:
            keep(trial)
            progress(trial)

        result = tune_task(task, options, tell)
    if result.interrupted:
        raise SystemExit("interrupted; the same command goes on with this run")
    if result.best is None:
        raise SystemExit(f"{title}: nothing was found; {result.hint}")
    return result


def _ratio(before: TuneResult, later: TuneResult, options: TuneOptions) -> float:
    """The speed of one result's program by that of the other's, timed in turns."""
    assert before.best is not None
    assert later.best is not None
    own, other = before.best.program, later.best.program
    times = timed_in_turns(before.task, (own, other), options)
    return times[other] / times[own]


if __name__ == "__main__":
    main()
