"""`ansorc show`: a schedule and everything that is made of it, for debugging by reading."""

from __future__ import annotations

from pathlib import Path

import click

from ansorc.cli.arguments import records_option, task_of, workload_arguments
from ansorc.codegen.build import cpu_options
from ansorc.codegen.llvm import assembly, emit_llvm, optimized_llvm
from ansorc.ir.passes.pipeline import prepare_for_cpu
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.schedule import lower, replay
from ansorc.search.programs import chosen_program

_VIEWS = ("dag", "schedule", "ir", "passes", "llvm", "optimized", "asm")


@click.command()
@workload_arguments
@records_option
@click.option("--default", "use_default", is_flag=True, help="The untuned default schedule.")
@click.option(
    "--view", "views", multiple=True, type=click.Choice(_VIEWS), default=("schedule", "ir"),
    show_default=True, help="What to print; may be repeated.",
)  # fmt: skip
@click.option("--asm", "with_assembly", is_flag=True, help="The same as --view asm.")
def show(
    workload: str,
    settings: tuple[str, ...],
    target: str,
    records: Path,
    views: tuple[str, ...],
    **flags: bool,
) -> None:
    """Print the best recorded program of a workload: loops, IR, LLVM IR, assembly."""
    task = task_of(workload, settings, target)
    program = chosen_program(task, records, use_default=flags["use_default"])
    click.echo(f"# {task.name}: {program.origin}")
    wanted = ("asm",) if flags["with_assembly"] else views
    state = replay(task.dag, program.steps)
    if "dag" in wanted:
        click.echo(task.dag.to_text())
    if "schedule" in wanted:
        click.echo(f"# schedule\n{state}\n")
    lowered = lower(state, task.name)
    if "passes" in wanted:
        click.echo(f"# lowered\n{to_text(lowered)}")
    prepared = prepare_for_cpu(
        lowered, cpu_options(task.target), _tracer() if "passes" in wanted else None
    )
    if "ir" in wanted:
        click.echo(f"# loop program\n{to_text(prepared)}")
    llvm = emit_llvm(prepared, task.target)
    for name, make in (("llvm", None), ("optimized", optimized_llvm), ("asm", assembly)):
        if name in wanted:
            click.echo(llvm if make is None else make(llvm, task.target))


def _tracer():
    def trace(name: str, function: Function) -> None:
        click.echo(f"# after {name}\n{to_text(function)}")

    return trace
