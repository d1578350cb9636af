"""`ansorc run`: run a built library or a workload, check its numbers and time it."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from ansorc.cli.arguments import records_option, task_of, workload_arguments
from ansorc.codegen.limits import fma_peak
from ansorc.search.programs import build_program, chosen_program
from ansorc.search.trust import checked_time


@click.command()
@workload_arguments
@records_option
@click.option("--default", "use_default", is_flag=True, help="The untuned default schedule.")
@click.option("--threads", default=0, show_default=True, type=click.IntRange(min=0),
              help="Threads of the kernel; 0 means all cores.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
def run(
    workload: str, settings: tuple[str, ...], target: str, records: Path, **more: object
) -> None:
    """Run the best recorded program on fresh random inputs: check its numbers, then time it."""
    task = task_of(workload, settings, target)
    program = chosen_program(task, records, use_default=bool(more["use_default"]))
    module = build_program(task, program)
    threads, rng = int(str(more["threads"])), np.random.default_rng(int(str(more["seed"])))
    found = checked_time(task, module, rng, threads=threads)
    peak = fma_peak(task.target, threads or task.target.cores)
    rate = task.dag.flops / found.timing.median_s
    click.echo(f"{task.name}: {program.origin}")
    click.echo(f"  largest error {found.error:.3g} of the tolerance (float64 reference): right")
    click.echo(f"  {found.timing}, {rate / 1e9:.1f} GFLOP/s, {rate / peak:.0%} of the FMA peak")
