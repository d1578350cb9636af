"""`ansorc bench`: compare a user's operators and networks with installed libraries."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import click
import numpy as np
from rich.console import Console

from ansorc.cli.arguments import TaskOrNetworks, choice_of, takes_records, takes_workloads
from ansorc.cli.tables import new_table
from ansorc.compare.side import PeerInfo
from ansorc.compare.turns import Turns
from ansorc.compare.workload_run import (
    OWN,
    PEERS,
    ComparedWorkload,
    WorkloadTimes,
    as_json,
    compare_workload,
    find_peers,
    relative_speeds,
)
from ansorc.graph.network import Network
from ansorc.ir.aligned import Array
from ansorc.report.charts import relative_bars
from ansorc.report.page import PICTURES, picture
from ansorc.search.programs import ProgramChoice, require_this_machine
from ansorc.search.record import RecordLocation
from ansorc.search.task import Task
from ansorc.target.units import seconds_text

_LABELS = {info.name: info.label for info in (OWN, *PEERS)}


@click.command()
@takes_workloads
@takes_records
@click.option("--default", "use_default", is_flag=True,
              help="The untuned default schedule, not the best recorded program.")  # fmt: skip
@click.option("--peers", default="", metavar="NAME[,NAME]",
              help=f"Of {', '.join(info.name for info in PEERS)}; default: all that are "
              "installed.")  # fmt: skip
@click.option("--turns", default=15, show_default=True, type=click.IntRange(min=1),
              help="The number of times each side is timed.")  # fmt: skip
@click.option("--json", "json_path", type=click.Path(path_type=Path), metavar="FILE",
              help="Write all times.")  # fmt: skip
@click.option("--picture", "picture_path", type=click.Path(path_type=Path), metavar="FILE.svg",
              help="Draw relative speeds, as .svg or .png.")  # fmt: skip
def bench(
    workloads: list[TaskOrNetworks], records: RecordLocation, threads: int, cache: str, peers: str,
    turns: int, *, use_default: bool, **written: Path | None,
) -> None:  # fmt: skip
    """Time operators and networks in turns with other libraries, and check each result.

    NumPy computes an operator by its definition. For PyTorch write f_torch(A, B) next to the
    workload f in its file, for Numba f_numba(A, B), for ONNX Runtime and OpenVINO
    f_onnx = "Y = MatMul(A, B)"; f_numpy takes the place of the definition. Networks are read by
    ONNX Runtime and OpenVINO.

    Example:  ansorc bench gemm.py:matmul --turns 5 --json times.json
    """
    json_path, picture_path = written["json_path"], written["picture_path"]
    if picture_path is not None and picture_path.suffix not in PICTURES:
        raise click.UsageError(f"--picture {picture_path}: write {' or '.join(PICTURES)}")
    number = threads or workloads[0].target.cores
    choices = [
        choice_of(workload, records, number, cache, use_default=use_default)
        for workload in workloads
    ]
    compared = _prepare(workloads, choices)
    chosen = _choose_peers(peers)
    console, times = Console(stderr=True), list[WorkloadTimes]()
    with console.status("") as status:
        for workload in compared:
            plan = Turns(turns, min(turns, 5))
            times.append(compare_workload(workload, chosen, plan, status.update))
            _print(times[-1])
    if json_path is not None:
        json_path.write_text(json.dumps(as_json(times, number), indent=1))
        click.echo(f"times: {json_path}")
    if picture_path is not None:
        picture_path.write_bytes(picture(relative_bars(relative_speeds(times)), picture_path))
        click.echo(f"picture: {picture_path}")
    if any(workload.sides[OWN.name].gap for workload in times):
        click.get_current_context().exit(1)


def _prepare(
    workloads: Sequence[TaskOrNetworks], choices: Sequence[ProgramChoice]
) -> list[ComparedWorkload]:
    """Return the workloads of the command line with their files."""
    given = click.get_current_context().params
    constants = dict(_array(text) for text in given["constants"])
    if given["precision"] or given["keep"]:
        raise click.UsageError(
            "other libraries read a network as its file says, so --precision and --keep are not "
            "compared; convert the file, or time the network by ansorc run"
        )
    prepared: list[ComparedWorkload] = []
    for text, workload, choice in zip(given["workloads"], workloads, choices, strict=True):
        require_this_machine(workload.target)
        if isinstance(workload, Task):
            path, colon, _ = text.rpartition(":")
            file = Path(path if colon else text)
            prepared.append(ComparedWorkload(file, workload, workload.name, choice=choice))
        elif isinstance(workload, Network):
            prepared.append(ComparedWorkload(Path(text), workload, "", constants, choice))
        else:
            raise click.UsageError(f"{text}: give one shape for each input; several are compared "
                                   "one after the other")  # fmt: skip
    return prepared


def _array(text: str) -> tuple[str, Array]:
    name, _, path = text.rpartition("=")  # which was read before, so it is there
    return name, np.load(path, allow_pickle=False)


def _choose_peers(text: str) -> list[PeerInfo]:
    """Return the named peers, or the installed ones; print which are not installed."""
    there, missing = find_peers()
    if not text:
        for info in missing:
            click.echo(f"{info.label} is not installed; {info.install}", err=True)
        return there
    known = {info.name: info for info in PEERS}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise click.UsageError(f"--peers: unknown '{name}'; known are {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def _print(workload: WorkloadTimes) -> None:
    """Print a row for each side that was timed, and a sentence for each other one."""
    headings = ("side", "time", "from Python", "±", "other work between", "ansorc is", "how")
    console = Console(width=None if sys.stdout.isatty() else 140)
    table = new_table(console, workload.name, *headings)
    for name, side in workload.sides.items():
        if side.called:
            ratio = None if name == OWN.name else workload.ratio(name)
            table.add_row(
                _LABELS[name], *(_median(times) for times in (side.seconds, side.called)),
                f"{side.spread:.0%}", _median(side.spaced),
                f"{ratio:.2f} × as fast" if ratio else "", side.program,
            )  # fmt: skip
    console.print(table)
    for label, gap in _gaps(workload).items():
        click.echo(f"{label}: {gap}")


def _gaps(times: WorkloadTimes) -> Mapping[str, str]:
    return {_LABELS[name]: side.gap for name, side in times.sides.items() if side.gap}


def _median(times: Sequence[float]) -> str:
    return seconds_text(median(times))
