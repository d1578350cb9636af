"""`ansorc build`: make a library and a header of a workload's best program."""

from __future__ import annotations

from pathlib import Path

import click

from ansorc.cli.arguments import records_option, task_of, workload_arguments
from ansorc.search.programs import build_program, chosen_program


@click.command()
@workload_arguments
@records_option
@click.option("--default", "use_default", is_flag=True, help="The untuned default schedule.")
@click.option("--name", default="", help="The C name of the kernel; default: the workload's.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), default=None,
    help="The library: .so, .a or .o; default: NAME.so.",
)  # fmt: skip
def build(
    workload: str, settings: tuple[str, ...], target: str, records: Path, **more: object
) -> None:
    """Build the best recorded program: a library, a C header and a manifest."""
    task = task_of(workload, settings, target)
    program = chosen_program(task, records, use_default=bool(more["use_default"]))
    name = str(more["name"] or task.name)
    output = more["output"]
    path = output if isinstance(output, Path) else Path(f"{name}.so")
    artifact = build_program(task, program, name).save(path)
    click.echo(f"{name}: {program.origin}")
    for made in (artifact.library, artifact.header, artifact.manifest):
        click.echo(f"  {made} ({made.stat().st_size} bytes)")
