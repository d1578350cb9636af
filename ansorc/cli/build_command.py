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
@click.option("--weights", type=click.Path(path_type=Path), metavar="FILE",
              help="A network's weights go to this file, not into the library.")  # fmt: skip
def build(
    workload: TaskOrNetwork,
    choice: ProgramChoice,
    name: str,
    output: Path | None,
    weights: Path | None,
) -> None:
    """Build the best recorded program: a library, a C header and a manifest.

    Of a network, tasks that have no record get the untuned default.
    """
    if isinstance(workload, Network):
        programs = chosen_programs(workload, choice)
        title, origin = name or c_name(workload.source.name), tuned_share(programs)
        with task_progress(len(programs)) as tell:
            module = built_network(workload, programs, title, tell)
        artifact = module.save(output or Path(f"{title}.so"), weights)
    else:
        if weights is not None:
            raise click.UsageError(f"--weights is for networks; '{workload.name}' is none")
        program = chosen_program(workload, choice)
        title, origin = name or workload.name, program.origin
        artifact = build_program(workload, program, title).save(output or Path(f"{title}.so"))
    click.echo(f"{title}: {origin}, for {workload.target.text}")
    made = [artifact.library, artifact.header, artifact.manifest, artifact.weights]
    for path in filter(None, made):
        click.echo(f"  {path} ({path.stat().st_size} bytes)")
