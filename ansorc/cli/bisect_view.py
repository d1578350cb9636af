"""`ansorc show --bisect`: find the pass that makes a program wrong."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ansorc.cli.exit_codes import FAILED
from ansorc.codegen.base import backend_of
from ansorc.ir.packing import Packing
from ansorc.ir.passes.pass_fault import diff_text
from ansorc.ir.stmt import Function
from ansorc.search.bisect import PassStage, bisect_passes, interpreter_seconds
from ansorc.search.measure import Failure, MeasureOptions, Measurer, ProgramText, RunOptions
from ansorc.search.task import Task
from ansorc.target.units import seconds_text

_SLOW_S = 20.0


def show_bisection(
    task: Task, lowered: Function, layouts: Sequence[Packing], source: ProgramText, threads: int
) -> None:
    """Run a program after its passes in the interpreter; name the first pass that is wrong.

    The program is `lowered`, with constants packed by `layouts`, and `source` for the workers. If
    the last program is right, its machine code is run, too. The command fails if anything is wrong.
    """
    seconds = interpreter_seconds(lowered)
    if seconds > _SLOW_S:
        click.echo(f"each run in the interpreter takes about {seconds_text(seconds, 2)}; a smaller "
                   "workload is quicker: --set NAME=INTEGER with --default", err=True)  # fmt: skip
    finding = bisect_passes(task, lowered, layouts, _tell)
    stages = finding.stages
    if finding.wrong is None:
        click.echo(f"the loops are right after the last of {len(stages)} stages, {stages[-1].name}")
        _check_code(task, source, threads)
        return
    wrong = stages[finding.wrong]
    if finding.wrong:
        click.echo(f"\nthe pass {wrong.name} is the first whose result differs:")
    else:
        click.echo("\nthe loops are wrong before all passes, so the schedule or lowering is:")
    click.echo(finding.complaint)
    if finding.wrong:
        click.echo("\nwhat it changed:")
        click.echo(diff_text(stages[finding.wrong - 1].function, wrong.function))
    click.get_current_context().exit(FAILED)


def _tell(stage: PassStage, complaint: str) -> None:
    click.echo(f"after {stage.name}: {complaint.splitlines()[0] if complaint else 'right'}")


def _check_code(task: Task, source: ProgramText, threads: int) -> None:
    """Run the machine code in a worker process, if this machine can."""
    obstacle = backend_of(task.target).capabilities(task.target).obstacle
    if obstacle:
        click.echo(f"the code cannot be run {obstacle}")
        return
    options = MeasureOptions(RunOptions(threads=threads), builders=1, batch=1)
    with Measurer(task, options) as measurer:
        (outcome,) = measurer.measure([source])
    if not isinstance(outcome, Failure):
        click.echo("and so is the code that is generated from them")
        return
    click.echo(
        f"\nthe code that is generated from them is wrong ({outcome.kind.value}): {outcome.message}"
    )
    click.get_current_context().exit(FAILED)
