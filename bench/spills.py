"""What the innermost loops of a program are made of: `python bench/spills.py FILE:WORKLOAD`.

Takes the options of `ansorc show`: --default for the untuned schedule, --set, --target, --records.
"""

from __future__ import annotations

import click

from ansorc.cli.arguments import TaskOrNetworks, takes_choice, takes_workload
from ansorc.codegen.build import prepare
from ansorc.codegen.inspect.assembly import Loop, innermost_loops
from ansorc.codegen.llvm.binding import assembly
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.schedule import State, lower, replay
from ansorc.search.programs import ProgramChoice, choose_program
from ansorc.search.task import Task
from ansorc.target import Target


def kernel_loops(state: State, target: Target, name: str = "kernel") -> list[Loop]:
    """Return the innermost loops of the code of `state`, counted in its assembly."""
    prepared = prepare(lower(state, name), target)
    return innermost_loops(assembly(emit_llvm(prepared, target), target))


@click.command()
@takes_workload
@takes_choice
def main(task: TaskOrNetworks, choice: ProgramChoice) -> None:
    """Print a line for each innermost loop of a workload's program, and the spills in all."""
    if not isinstance(task, Task):
        raise click.UsageError("name an operator, FILE:WORKLOAD: a network has many programs")
    program = choose_program(task, choice)
    found = kernel_loops(replay(task.dag, program.steps), task.target, task.name)
    for loop in found:
        click.echo(f"{loop.name}, depth {loop.depth}: {loop.summary}")
    spills = sum(loop.spills for loop in found)
    click.echo(f"{task.name}: {spills} spills and reloads in {len(found)} innermost loops")


if __name__ == "__main__":
    main()
