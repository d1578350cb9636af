"""`ansorc report`: what a record file tells of a tuning run, as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from ansorc.cli.arguments import WorkloadArguments, describes_workload, networks_of
from ansorc.codegen.base import MachineLimits, backend_of
from ansorc.errors import AnsorcError, RecordError
from ansorc.report.history import History
from ansorc.report.page import page
from ansorc.report.sections import file_sections, task_sections
from ansorc.search.record import Records, current_environment
from ansorc.search.record.database import Holding
from ansorc.search.task import Task


@click.command()
@click.argument("records", type=click.Path(path_type=Path))
@click.option("--output", "-o", default="report.html", show_default=True,
              type=click.Path(path_type=Path), help="The page to write.")  # fmt: skip
@click.option("--task", default="", metavar="NAME|KEY|FILE:WORKLOAD|NETWORK.onnx",
              help="Only this task, or this network's. Default: all of the file.")  # fmt: skip
@describes_workload
@click.option("--no-limits", is_flag=True, help="Don't measure the machine's limits (3 s).")
def report(
    records: Path, output: Path, task: str, settings: tuple[str, ...], target: str,
    shapes: tuple[str, ...], constants: tuple[str, ...], *, no_limits: bool,
) -> None:  # fmt: skip
    """Write what a record file tells of tuning as one HTML page that needs no network.

    Of one task: every trial, failures, how well the model predicted, roofline, the best loops
    beside the untuned ones. Of several: the share of each, and its trials over time.

    Example:  ansorc report tune.db --task matmul -o matmul.html
    """
    weights: Mapping[str, int] | None = None
    with Records.open(records, read_only=True) as opened:
        found = opened.holdings()
        if ":" in task or Path(task).suffix in {".py", ".onnx"}:
            workload = WorkloadArguments(settings, target, shapes, constants).workload(task)
            if isinstance(workload, Task):
                found = [one for one in found if one.task_key == workload.key]
            else:
                weights = {key: count for network in networks_of([workload])
                           for key, count in network.weights.items()}  # fmt: skip
                found = [one for one in found if one.task_key in weights]
        elif task:
            found = [one for one in found if task == one.name or one.task_key.startswith(task)]
        if not found:
            words = f"nothing of '{task}'" if task else "no record"
            raise RecordError(f"{records} holds {words}; see: ansorc records list {records}")
        chosen, left_out = _of_one_machine(found)
        histories = _named_apart([History.of(opened, one) for one in chosen])
    for history, others in zip(histories, left_out, strict=True):
        if others:
            click.echo(f"note: {others} programs of {history.name} were measured in other "
                       "environments and are left out", err=True)  # fmt: skip
    text = _page(records, histories, weights, with_limits=not no_limits)
    output.write_text(text, encoding="utf-8")
    trials = sum(len(one.records) for one in histories)
    click.echo(f"{output}: {trials} trials of {len(histories)} tasks, {len(text) / 1e6:.1f} MB")


def _of_one_machine(found: Sequence[Holding]) -> tuple[list[Holding], list[int]]:
    """Of each task what there is of the environment with the most programs; how many others."""
    chosen: dict[str, Holding] = {}
    counts: dict[str, int] = {}
    for one in found:
        counts[one.task_key] = counts.get(one.task_key, 0) + one.programs
        known = chosen.get(one.task_key)
        if known is None or known.programs < one.programs:
            chosen[one.task_key] = one
    return list(chosen.values()), [counts[key] - one.programs for key, one in chosen.items()]


def _named_apart(histories: Sequence[History]) -> list[History]:
    """The same; of names that several have, with the beginning of their tasks' keys."""
    names = [one.name for one in histories]
    return [
        replace(one, name=f"{one.name} {one.records[0].task_key[:6]}")
        if names.count(one.name) > 1
        else one
        for one in histories
    ]


def _page(
    records: Path, histories: Sequence[History], weights: Mapping[str, int] | None, *,
    with_limits: bool,
) -> str:  # fmt: skip
    if len(histories) > 1:
        counts = [weights[one.records[0].task_key] for one in histories] if weights else None
        title = f"{len(histories)} tasks of {records.name}"
        return page(title, "A report of ansorc", file_sections(histories, counts))
    (history,) = histories
    limits = _limits(history) if with_limits else None
    sections = task_sections(history, limits)
    return page(f"{history.name}", f"A report of ansorc on {records.name}", sections)


def _limits(history: History) -> MachineLimits | None:
    """The limits of the machine that measured, if that is this one; they are measured now."""
    task, environment = history.task, history.environment
    try:
        if task is None or environment != current_environment(
            environment.threads, environment.cache, task.target
        ):
            return None
        return backend_of(task.target).probes.limits(task.target)
    except AnsorcError:
        return None
