"""`ansorc build`: make a library and a header of a workload's best program."""

from __future__ import annotations

from pathlib import Path

import click

from ansorc.cli.arguments import TaskOrNetworks, takes_choice, takes_workload_to_build
from ansorc.cli.progress import task_progress
from ansorc.codegen.base import backend_of
from ansorc.codegen.package.artifact import Artifact
from ansorc.graph.network import Network
from ansorc.graph.network_build import (
    c_name,
    choose_programs,
    choose_programs_of_all,
    compile_network,
    compile_variants,
    describe_tuned_share,
)
from ansorc.graph.shaped_networks import ShapedNetworks
from ansorc.search.programs import ProgramChoice, choose_program, compile_program
from ansorc.target import Target


@click.command()
@takes_workload_to_build
@takes_choice
@click.option("--name", default="", help="The C name of the kernel; default: the workload's.")
@click.option("--output", "-o", type=click.Path(path_type=Path),
              help="The library: .so, .a or .o; default: NAME.so. For a GPU: .cubin (default), "
                   ".ptx, .fatbin or .cu.")  # fmt: skip
@click.option("--weights", type=click.Path(path_type=Path), metavar="FILE",
              help="Store a network's weights in this file, not in the library. Networks for a GPU "
                   "always have one; default: NAME.weights.")  # fmt: skip
def build(
    workload: TaskOrNetworks,
    choice: ProgramChoice,
    name: str,
    output: Path | None,
    weights: Path | None,
) -> None:
    """Build the best recorded program: a library, a C header and a manifest.

    Tasks of a network without a record get the untuned default.

    Example:  ansorc build gemm.py:matmul -o matmul.so
    """
    if isinstance(workload, ShapedNetworks):
        title, origin, artifact = _build_variants(workload, choice, name, output, weights)
    elif isinstance(workload, Network):
        programs = choose_programs(workload, choice)
        title, origin = name or c_name(workload.source.name), describe_tuned_share(programs)
        with task_progress(len(programs)) as tell:
            module = compile_network(workload, programs, title, tell)
        artifact = module.save(output or _default_file(title, workload.target), weights)
    else:
        if weights is not None:
            raise click.UsageError(f"--weights is for networks; '{workload.name}' is none")
        program = choose_program(workload, choice)
        title, origin = name or workload.name, program.origin
        path = output or _default_file(title, workload.target)
        artifact = compile_program(workload, program, title).save(path)
    click.echo(f"{title}: {origin}, for {workload.target.text}")
    made = [artifact.library, artifact.header, artifact.manifest, artifact.weights]
    for path in filter(None, made):
        click.echo(f"  {path} ({path.stat().st_size} bytes)")


def _build_variants(
    workload: ShapedNetworks, choice: ProgramChoice, name: str, output: Path | None,
    weights: Path | None,
) -> tuple[str, str, Artifact]:  # fmt: skip
    """Build one library for all shapes; return its function's name, the tuned share, the files."""
    if weights is not None:
        raise click.UsageError(
            "--weights is for one shape: a library for several has their weights in it"
        )
    programs = choose_programs_of_all(workload.networks, choice)
    title = name or c_name(workload.variants.name)
    module = compile_variants(workload, programs, title)
    path = output or _default_file(title, workload.target)
    return title, describe_tuned_share(programs), module.save(path)


def _default_file(title: str, target: Target) -> Path:
    return Path(f"{title}{backend_of(target).capabilities(target).suffix}")
