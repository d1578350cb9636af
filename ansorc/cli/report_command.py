"""`ansorc report`: what a record file tells of a tuning run, as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ansorc.cli.arguments import RECORD_PLACE, WorkloadArguments, describes_workload, networks_of
from ansorc.errors import RecordError
from ansorc.graph.network import weights_of
from ansorc.report.file_page import histories_of, report_page
from ansorc.search.record import RecordPlace, Records
from ansorc.search.task import Task


@click.command()
@click.argument("records", type=RECORD_PLACE)
@click.option("--output", "-o", default="report.html", show_default=True,
              type=click.Path(path_type=Path), help="The page to write.")  # fmt: skip
@click.option("--task", default="", metavar="NAME|KEY|FILE:WORKLOAD|NETWORK.onnx",
              help="Only this task, or this network's. Default: all of the file.")  # fmt: skip
@describes_workload
@click.option("--fleet", default="", metavar="ADDRESS",
              help="Show what the devices at this Dask scheduler do now, too.")  # fmt: skip
@click.option("--no-limits", is_flag=True, help="Don't measure the machine's limits (3 to 12 s).")
def report(
    records: RecordPlace, output: Path, task: str, fleet: str, *, no_limits: bool, **described: Any
) -> None:
    """Write what a record file tells of tuning as one HTML page that needs no network.

    Of one task: every trial, failures, how well the model predicted, roofline, the best loops
    beside the untuned ones. Of several: the share of each, and its trials over time.

    Example:  ansorc report tune.db --task matmul -o matmul.html
    """
    weights: Mapping[str, int] | None = None
    with Records.open(records, read_only=True) as opened:
        found = opened.holdings()
        if ":" in task or Path(task).suffix in {".py", ".onnx"}:
            workload = WorkloadArguments(**described).workload(task)
            if isinstance(workload, Task):
                found = [one for one in found if one.task_key == workload.key]
            else:
                weights = weights_of(networks_of([workload]))
                found = [one for one in found if one.task_key in weights]
        elif task:
            found = [one for one in found if task == one.name or one.task_key.startswith(task)]
        if not found:
            words = f"nothing of '{task}'" if task else "no record"
            raise RecordError(f"{records} holds {words}; see: ansorc records list {records}")
        histories, notes = histories_of(opened, found)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    text = report_page(records, histories, weights, with_limits=not no_limits, fleet=fleet)
    output.write_text(text, encoding="utf-8")
    trials = sum(len(one.records) for one in histories)
    click.echo(f"{output}: {trials} trials of {len(histories)} tasks, {len(text) / 1e6:.1f} MB")
