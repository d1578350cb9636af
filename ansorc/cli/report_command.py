"""`ansorc report`: show the tuning runs of a record file as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ansorc.cli.arguments import RECORD_PLACE, WorkloadArguments, describes_workload, networks_of
from ansorc.errors import RecordError
from ansorc.graph.network import weights_of
from ansorc.report.file_page import histories_of, report_page
from ansorc.search.record import RecordLocation, Records
from ansorc.search.task import Task


@click.command()
@click.argument("records", type=RECORD_PLACE)
@click.option("--output", "-o", default="report.html", show_default=True,
              type=click.Path(path_type=Path), help="The page to write.")  # fmt: skip
@click.option("--task", default="", metavar="NAME|KEY|FILE:WORKLOAD|NETWORK.onnx",
              help="Only this task, or this network's. Default: all of the file.")  # fmt: skip
@describes_workload
@click.option("--fleet", default="", metavar="ADDRESS",
              help="Also show the devices at this Dask scheduler.")  # fmt: skip
@click.option("--no-limits", is_flag=True, help="Don't measure the machine's limits (3 to 12 s).")
def report(
    records: RecordLocation,
    output: Path,
    task: str,
    fleet: str,
    *,
    no_limits: bool,
    **described: Any,
) -> None:
    """Write the tuning runs of a record file as one HTML page that needs no network.

    For one task it shows every trial, failures, the quality of the cost model, a roofline, and the
    best loops next to the untuned ones. For several tasks it shows the share of each, and its
    trials over time.

    Example:  ansorc report tune.db --task matmul -o matmul.html
    """
    weights: Mapping[str, int] | None = None
    with Records.open(records, read_only=True) as opened:
        holdings = opened.holdings()
        if ":" in task or Path(task).suffix in {".py", ".onnx"}:
            workload = WorkloadArguments(**described).workload(task)
            if isinstance(workload, Task):
                holdings = [holding for holding in holdings if holding.task_key == workload.key]
            else:
                weights = weights_of(networks_of([workload]))
                holdings = [holding for holding in holdings if holding.task_key in weights]
        elif task:
            holdings = [
                holding
                for holding in holdings
                if task == holding.name or holding.task_key.startswith(task)
            ]
        if not holdings:
            words = f"nothing of '{task}'" if task else "no record"
            raise RecordError(f"{records} holds {words}; see: ansorc records list {records}")
        histories, notes = histories_of(opened, holdings)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    text = report_page(records, histories, weights, with_limits=not no_limits, fleet=fleet)
    output.write_text(text, encoding="utf-8")
    trials = sum(len(holding.records) for holding in histories)
    click.echo(f"{output}: {trials} trials of {len(histories)} tasks, {len(text) / 1e6:.1f} MB")
