"""`ansorc build`: make a library and a header of a workload's best program."""

from __future__ import annotations

from pathlib import Path

import click

from ansorc.cli.arguments import takes_choice, takes_task
from ansorc.search.programs import ProgramChoice, build_program, chosen_program
from ansorc.search.task import Task


@click.command(short_help="Make a library and a C header.")
@takes_task
@takes_choice
@click.option("--name", default="", help="The C name of the kernel; default: the workload's.")
@click.option("--output", "-o", type=click.Path(path_type=Path),
              help="The library: .so, .a or .o; default: NAME.so.")  # fmt: skip
def build(task: Task, choice: ProgramChoice, name: str, output: Path | None) -> None:
    """Build the best recorded program: a library, a C header and a manifest."""
    program = chosen_program(task, choice)
    name = name or task.name
    path = output or Path(f"{name}.so")
    artifact = build_program(task, program, name).save(path)
    click.echo(f"{name}: {program.origin}, for {task.target.text}")
    for made in (artifact.library, artifact.header, artifact.manifest):
        click.echo(f"  {made} ({made.stat().st_size} bytes)")
