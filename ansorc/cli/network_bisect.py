"""`ansorc show --bisect` of a network: find the rewrite or the kernel that is wrong."""

from __future__ import annotations

import click

from ansorc.cli.bisect_view import show_bisection
from ansorc.cli.exit_codes import FAILED
from ansorc.codegen.base import backend_of
from ansorc.graph.graph_bisect import GraphStage, bisect_rewrites
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs
from ansorc.schedule import Names, lower, packings, replay
from ansorc.search.measure import (
    Failure,
    MeasureOptions,
    Measurer,
    ProgramText,
    RunOptions,
    Workers,
)
from ansorc.search.programs import ChosenSchedule, ProgramChoice
from ansorc.search.task import Task


def show_network_bisection(network: Network, choice: ProgramChoice) -> None:
    """Check the rewrites of a network, then each kernel; name the first that is wrong.

    The passes of a wrong kernel are checked, too. The command fails if anything is wrong.
    """
    stage, words = bisect_rewrites(network.source, _tell)
    if stage is not None:
        click.echo(f"\nthe rewrite {stage.name} is the first whose result differs:\n{words}")
        click.get_current_context().exit(FAILED)
    click.echo("the network is right after all rewrites")
    obstacle = backend_of(network.target).capabilities(network.target).obstacle
    if obstacle:
        click.echo(f"its kernels cannot be run {obstacle}")
        return
    programs = choose_programs(network, choice)
    options = MeasureOptions(RunOptions(threads=choice.threads), builders=1, batch=1)
    with Workers(options) as workers:
        for key, task in network.tasks.items():
            source = _source(task, programs[key])
            with Measurer(task, options, workers=workers) as measurer:
                (outcome,) = measurer.measure([source])
            if isinstance(outcome, Failure):
                click.echo(f"\nthe kernel {task.name} is wrong: {outcome.message}")
                state = replay(task.dag, programs[key].steps)
                lowered, layouts = lower(state, task.name), packings(state)
                show_bisection(task, lowered, layouts, source, choice.threads)
                click.get_current_context().exit(FAILED)
    click.echo(f"and so is each of its {len(network.tasks)} kernels")


def _source(task: Task, program: ChosenSchedule) -> ProgramText:
    return ProgramText.encode(program.steps, Names(task.dag))


def _tell(stage: GraphStage, complaint: str) -> None:
    click.echo(f"after {stage.name}: {complaint or 'right'}")
