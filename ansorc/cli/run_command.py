"""`ansorc run`: run a workload's best program or a built library, check its numbers, time it."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from ansorc.cli.arguments import (
    TaskOrNetworks,
    networks_of,
    takes_choice,
    takes_inputs,
    takes_workload,
)
from ansorc.cli.network_run import run_network
from ansorc.codegen.call.library import load_kernel
from ansorc.compare.checked_run import check_and_time
from ansorc.ir.aligned import Array
from ansorc.search.measure.drawn_data import require_inputs
from ansorc.search.programs import (
    ProgramChoice,
    choose_program,
    compile_program,
    require_this_machine,
)
from ansorc.search.task import Task

_SEED = 1
"""The seed of inputs, which differ from those of tuning."""


@click.command()
@takes_workload
@takes_choice
@click.option("--library", "-l", type=click.Path(path_type=Path),
              help="Run this .so of `ansorc build` instead of a record.")  # fmt: skip
@click.option("--verify", is_flag=True,
              help="Compare all bytes of the library with its manifest.")  # fmt: skip
@takes_inputs
def run(
    workload: TaskOrNetworks, choice: ProgramChoice, library: Path | None, inputs: dict[str, Array],
    *, verify: bool,
) -> None:  # fmt: skip
    """Run a program on fresh random inputs: check its numbers, then time it.

    Example:  ansorc run gemm.py:matmul -l matmul.so
    """
    require_this_machine(workload.target)
    if verify and library is None:
        raise click.UsageError("--verify is for a library; name it: -l FILE")
    if not isinstance(workload, Task):
        for network in networks_of([workload]):
            run_network(network, choice, library, inputs, verify=verify)
        return
    task = workload
    if library is not None:
        module, origin = load_kernel(library, verify=verify), f"built library {library}"
    else:
        program = choose_program(task, choice)
        module, origin = compile_program(task, program), program.origin
    given = require_inputs([task.dag], inputs)
    rng = np.random.default_rng(_SEED)
    checked = check_and_time(task, module, rng, threads=choice.threads, given=given)
    click.echo(f"{task.name}: {origin}")
    click.echo(f"  right: the largest error is {checked.error:.2g} of what rounding explains "
               "(float64 reference)")  # fmt: skip
    packed = [param.name for param in module.signature.params if param.is_rewritten]
    if packed:
        click.echo(f"  {', '.join(packed)}: packed once before the calls, which is not timed")
    rate = task.dag.flops / checked.timing.median_s
    click.echo(f"  {checked.timing}, {rate / 1e9:.1f} GFLOP/s, "
               f"{checked.peak_share:.0%} of the FMA peak (timed in turns)")  # fmt: skip
    click.echo(f"  from Python: {checked.calls}")
