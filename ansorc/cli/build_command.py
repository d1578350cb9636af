"""`ansorc build`: make a library and a header of a workload's best program."""

from __future__ import annotations

from pathlib import Path

import click

from ansorc.cli.arguments import TaskOrNetwork, takes_choice, takes_workload
from ansorc.cli.progress import task_progress
from ansorc.graph.network import Network
from ansorc.graph.network_build import built_network, c_name, chosen_programs, tuned_share
from ansorc.search.programs import ProgramChoice, build_program, chosen_program


@click.command(short_help="Make a library and a C header.")
@takes_workload
@takes_choice
@click.option("--name", default="", help="The C name of the kernel; default: the workload's.")
@click.option("--output", "-o", type=click.Path(path_type=Path),
              help="The library: .so, .a or .o; default: NAME.so.")  # fmt: skip
def build(workload: TaskOrNetwork, choice: ProgramChoice, name: str, output: Path | None) -> None:
    """Build the best recorded program: a library, a C header and a manifest.

    Of a network, tasks that have no record get the untuned default.
    """
    if isinstance(workload, Network):
        programs = chosen_programs(workload, choice)
        title, origin = c_name(workload.source.name), tuned_share(programs)
        with task_progress(len(programs)) as tell:
            module = built_network(workload, programs, name, tell)
    else:
        program = chosen_program(workload, choice)
        title, origin = workload.name, program.origin
        module = build_program(workload, program, name or title)
    path = output or Path(f"{name or title}.so")
    artifact = module.save(path)
    click.echo(f"{name or title}: {origin}, for {workload.target.text}")
    for made in (artifact.library, artifact.header, artifact.manifest):
        click.echo(f"  {made} ({made.stat().st_size} bytes)")
