"""Tune a workload with the search and without its parts: `python -m bench.search.ablation --help`.

Each run keeps its records in a file of its own, so an interrupted comparison goes on where it
stopped. The variants take turns, seed by seed. At the end the best programs of all runs are timed
in turns, because times of different minutes do not compare to the percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from ansorc.cli.progress import Progress
from ansorc.codegen.llvm.limits import fma_peak
from ansorc.search.options import ABLATIONS, DEFAULTS, SearchOptions
from ansorc.search.record import Records, current_environment
from ansorc.search.task import Task
from ansorc.search.tune import TuneResult, tune_task
from ansorc.search.tune_options import TuneOptions
from bench.search.cases import CASES
from bench.search.comparison import FULL, Comparison, Run
from bench.search.turns import timed_in_turns

VARIANTS: Mapping[str, SearchOptions] = {FULL: DEFAULTS, **ABLATIONS}
PAPER = f"{FULL},beam,no-fine-tuning,limited-space"
"""The curves of the paper's Figure 7."""

Found = dict[tuple[str, int], TuneResult]
"""By variant and seed."""


@click.command()
@click.option("--case", default="resnet50-last", show_default=True, type=click.Choice(list(CASES)))
@click.option("--trials", default=200, show_default=True, type=click.IntRange(min=4))
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--variants", default=PAPER, show_default=True, metavar="NAME[,NAME…]",
              help=f"'all', or some of: {', '.join(VARIANTS)}.")  # fmt: skip
@click.option("--threads", default=0, show_default=True, help="Threads of the kernels; 0: all.")
@click.option("--records", default="out/ablation", show_default=True,
              type=click.Path(path_type=Path), help="The directory of the records.")  # fmt: skip
@click.option("--output", required=True, type=click.Path(path_type=Path),
              help="The JSON file for `python -m bench.search.curves`.")  # fmt: skip
def main(
    *, case: str, trials: int, seeds: int, variants: str, threads: int, records: Path, output: Path
) -> None:
    """Compare variants of the search by what they find in equally many trials."""
    task = CASES[case].task()
    names = _names(variants)
    threads = threads or task.target.cores
    peak = fma_peak(task.target, threads)
    runs = {
        (name, seed): TuneOptions(
            trials, records / case / f"{name}-{seed}.db", seed, threads, search=VARIANTS[name]
        )
        for seed in range(seeds)
        for name in names
    }
    found = _tuned(task, runs, peak)
    click.echo("timing the best programs of all runs in turns", err=True)
    peak = max(peak, fma_peak(task.target, threads))
    comparison = Comparison(
        case, CASES[case].words, current_environment(threads).cpu, threads, float(task.dag.flops),
        peak, trials, _runs(task, found, runs),
    )  # fmt: skip
    comparison.save(output)
    click.echo(f"written: {output}; draw it with: python -m bench.search.curves {output}")


def _names(variants: str) -> list[str]:
    names = list(VARIANTS) if variants == "all" else variants.split(",")
    unknown = [name for name in names if name not in VARIANTS]
    if unknown or FULL not in names:
        raise click.UsageError(
            f"--variants {variants}: name '{FULL}' and some of {', '.join(VARIANTS)}"
        )
    return names


def _tuned(task: Task, runs: Mapping[tuple[str, int], TuneOptions], peak: float) -> Found:
    """Make the runs one after the other, or what is left to do of them."""
    found: Found = {}
    for place, ((variant, seed), options) in enumerate(runs.items(), 1):
        Path(str(options.records)).parent.mkdir(parents=True, exist_ok=True)
        title = f"{place}/{len(runs)} {variant} seed {seed}"
        with Progress(title, task.dag.flops, peak) as progress:
            result = tune_task(task, options, progress)
        if result.interrupted:
            raise SystemExit("interrupted; the same command goes on from here")
        if result.best is None:
            raise SystemExit(f"{title}: nothing was found; {result.hint}")
        for note in result.notes:
            click.echo(f"{title}: {note}", err=True)
        found[variant, seed] = result
    return found


def _runs(task: Task, found: Found, runs: Mapping[tuple[str, int], TuneOptions]) -> tuple[Run, ...]:
    programs = {key: result.best.program for key, result in found.items() if result.best}
    finals = timed_in_turns(task, programs.values(), next(iter(runs.values())))
    made: list[Run] = []
    for (variant, seed), result in found.items():
        best = result.best
        assert best is not None
        assert best.median_s is not None
        with Records.open(runs[variant, seed].records) as records:
            failed = sum(record.failure is not None for record in records.all(task.key))
        final_s = finals[programs[variant, seed]]
        made.append(Run(variant, seed, result.curve, best.median_s, final_s, result.trials, failed))
    return tuple(made)


if __name__ == "__main__":
    main()
