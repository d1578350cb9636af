"""`ansorc tune --no-device`: rank programs for a GPU that is not here, without measuring."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ansorc.cli.arguments import TaskOrNetworks, networks_of, same_workloads
from ansorc.graph.network import Network
from ansorc.search.gpu.ranking import DeviceRanking, RankedProgram, rank_without_device
from ansorc.search.task import Task
from ansorc.target.units import seconds_text

PROGRAMS = 8
"""The programs to compile, unless --trials is given."""


def takes_no_device(command: Callable[..., None]) -> Callable[..., None]:
    """Add --no-device to `ansorc tune`: with it, programs are ranked instead of tuned."""

    @click.option("--no-device", is_flag=True,
                  help="For a GPU that is not here: rank programs by its model, compile the best "
                  f"({PROGRAMS}, or --trials), measure nothing and record nothing.")  # fmt: skip
    @wraps(command)
    def rank_or_tune(
        workloads: list[TaskOrNetworks], *, no_device: bool, **given: Any
    ) -> None:  # fmt: skip
        if not no_device:
            command(workloads, **given)
            return
        names = click.get_current_context().params["workloads"]
        for name, workload in zip(names, workloads, strict=True):
            if not workload.target.is_gpu:
                raise click.UsageError(
                    "--no-device ranks programs for GPUs, as in --target 'cuda -arch=sm_90'"
                )
            if isinstance(workload, Task):
                _show(name, workload, rank_without_device(workload, given["trials"] or PROGRAMS))
                continue
            for network in networks_of([workload]):
                _show_network(name, network)

    return rank_or_tune


def _show(name: str, task: Task, ranking: DeviceRanking) -> None:
    gpu = task.target.gpu
    click.echo(f"{task.name}: {task.dag.flops / 1e9:.4g} GFLOP a call, target {task.target.text} "
               f"({gpu.name}, {gpu.fp32_flops / 1e12:.1f} TFLOP/s of float32)")  # fmt: skip
    table = Table()
    for heading in ("estimated", "of the peak", "as compiled", "kernel", "registers", "spilled",
                    "shared", "occupancy", "limit"):  # fmt: skip
        table.add_column(heading, justify="right")
    for program in ranking.programs:
        for row in _rows(program, task.dag.flops / gpu.fp32_flops):
            table.add_row(*row)
    Console(width=120).print(table)
    if ranking.note:
        click.echo(f"note: {ranking.note}")
    click.echo("nothing was measured: these are estimates of a model, and no records are kept")
    click.echo(f"build the first by the model with: ansorc build {same_workloads(name)} --default")


def _show_network(name: str, network: Network) -> None:
    """Print the model's estimate of the best program of each task, the slowest first."""
    ranked_tasks: list[tuple[float, Task, RankedProgram]] = []
    notes: dict[str, None] = {}
    for key, task in network.tasks.items():
        ranking = rank_without_device(task, 1)
        best = ranking.programs[0]
        ranked_tasks.append((network.weights[key] * best.seconds, task, best))
        notes |= dict.fromkeys(filter(None, [ranking.note]))
    total = sum(seconds for seconds, _, _ in ranked_tasks)
    gpu = network.target.gpu
    count = len(network.task_of)
    click.echo(f"{network.source.name}: {len(network.tasks)} tasks, {count} kernels, "
               f"target {network.target.text} ({gpu.name})")  # fmt: skip
    table = Table()
    for heading in ("share", "calls", "estimated", "of the peak", "registers", "spilled", "shared",
                    "occupancy", "limit", "task"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "task" else "right")
    for seconds, task, best in sorted(ranked_tasks, key=lambda entry: -entry[0]):
        kernel = best.kernels[0]
        table.add_row(
            f"{seconds / total:.1%}", str(network.weights[task.key]),
            seconds_text(best.seconds), f"{task.dag.flops / gpu.fp32_flops / best.seconds:.0%}",
            str(kernel.registers), f"{kernel.spilled_bytes} B", f"{kernel.shared_bytes} B",
            f"{kernel.occupancy:.0%}", kernel.limit, task.name,
        )  # fmt: skip
    Console(width=140).print(table)
    for note in notes:
        click.echo(f"note: {note}")
    click.echo(f"together {seconds_text(total)} by the model, without the time between launches")
    click.echo("nothing was measured: these are estimates of a model, and no records are kept")
    click.echo(f"build it with: ansorc build {same_workloads(name)} --default")


def _rows(program: RankedProgram, ideal_s: float) -> list[tuple[str, ...]]:
    """Return the rows of a program: one for each of its kernels."""
    times = (
        seconds_text(program.estimated_s), f"{ideal_s / program.seconds:.0%}",
        "-" if program.compiled_s is None else seconds_text(program.compiled_s),
    )  # fmt: skip
    return [
        (
            *(times if number == 0 else ("", "", "")), f"{kernel.blocks} × {kernel.threads}",
            str(kernel.registers), f"{kernel.spilled_bytes} B", f"{kernel.shared_bytes} B",
            f"{kernel.occupancy:.0%}", kernel.limit,
        )
        for number, kernel in enumerate(program.kernels)
    ]  # fmt: skip
