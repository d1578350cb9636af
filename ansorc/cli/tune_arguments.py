"""Arguments of `ansorc tune`: the number of trials, the cost model, the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, cast, get_args

import click

from ansorc.cli.arguments import TaskOrNetworks, networks_of, takes_inputs, takes_records
from ansorc.graph.cache_policy import common_cache_policy
from ansorc.graph.network import Network, weights_of
from ansorc.graph.network_tune import TRIALS_PER_TASK
from ansorc.ir.aligned import Array
from ansorc.report.live import LivePage
from ansorc.search.measure.drawn_data import require_inputs
from ansorc.search.model import NAMES, TreeModel
from ansorc.search.options import ABLATIONS, DEFAULTS, ObjectiveName, SchedulerName, Scheduling
from ansorc.search.record import RecordLocation
from ansorc.search.task import Task
from ansorc.search.tune_options import TuneOptions, TuneSettings

EFFORTS = {"quick": (32, 8), "normal": (200, TRIALS_PER_TASK), "max": (1000, 256)}
"""The programs to measure: for an operator, and for each different kernel of networks."""


def takes_tune_options(
    command: Callable[[list[TaskOrNetworks], TuneOptions, Scheduling], None],
) -> Callable[..., None]:
    """Add the options of a tuning run to a command, which gets them as two values."""

    @takes_records
    @click.option("--trials", type=click.IntRange(min=1),
                  help="Programs to measure in all, instead of what --effort says; those in the "
                  "record file count.")  # fmt: skip
    @click.option("--effort", type=click.Choice(list(EFFORTS)),
                  help="How many programs: " + ", ".join(
                      f"{name} {few} (networks: {many} a kernel)"
                      for name, (few, many) in EFFORTS.items()) + "; default: normal.")  # fmt: skip
    @click.option("--time-budget", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
                  help="Stop after SECONDS.")  # fmt: skip
    @click.option("--seed", default=0, show_default=True, help="Seed of all random choices.")
    @click.option("--cost-model", default=NAMES[0], show_default=True, type=click.Choice(NAMES),
                  help="The model that chooses programs to measure.")  # fmt: skip
    @click.option("--model", type=click.Path(path_type=Path), metavar="FILE",
                  help="Begin with this cost model, made by `ansorc train`.")  # fmt: skip
    @click.option("--ablation", type=click.Choice(list(ABLATIONS)),
                  help="Search without one of its parts, for comparison.")  # fmt: skip
    @click.option("--live", type=click.IntRange(0, 65535), is_flag=False, flag_value=0,
                  metavar="[PORT]",
                  help="Serve the page of `ansorc report` to browsers of this machine while "
                  "tuning; write it after the workloads. Default port: a free one.")  # fmt: skip
    @click.option("--profile", is_flag=True,
                  help="Print the time of each part at the end: sampling, features, the cost "
                  "model, building, measuring, …")  # fmt: skip
    @takes_inputs
    @_takes_scheduling
    @wraps(command)
    def with_options(
        workloads: list[TaskOrNetworks], scheduling: Scheduling, ablation: str | None,
        **given: Any,
    ) -> None:  # fmt: skip
        path: Path | None = given.pop("model")
        if path is not None:
            given["cost_model"] = _load_model(path, given["cost_model"], given["seed"])
        given["trials"], total = _trials(given["trials"], given.pop("effort"), workloads)
        scheduling = replace(scheduling, trials=total)
        given["inputs"] = _of_tasks(given["inputs"], workloads)
        if given["cache"] == "auto":
            given["cache"] = common_cache_policy(networks_of(workloads))
        options = TuneOptions.of(cast(TuneSettings, given))
        options = options if ablation is None else _without(ablation, options)
        command(workloads, options, scheduling)

    return with_options


def _of_tasks(given: dict[str, Array], workloads: list[TaskOrNetworks]) -> dict[str, Array]:
    """Return the arrays of --inputs; raise UsageError unless they are inputs of the workloads."""
    tasks = [workload for workload in workloads if isinstance(workload, Task)]
    if given and not tasks:
        raise click.UsageError("--inputs is for operators; the kernels of a network have others")
    return require_inputs([task.dag for task in tasks], given)


def _trials(
    asked: int | None, effort: str | None, workloads: list[TaskOrNetworks]
) -> tuple[int, int | None]:
    """Return the trials for an operator, and for all networks together; None: their default."""
    if asked and effort:
        raise click.UsageError("--effort says how many trials; leave out --trials, or --effort")
    of_one, of_kernel = EFFORTS[effort or "normal"]
    kernels = {key for network in networks_of(workloads) for key in network.tasks}
    return asked or of_one, asked or (of_kernel * len(kernels) if effort else None)


@contextmanager
def live_page(
    records: RecordLocation, workloads: Sequence[Task | Network]
) -> Generator[LivePage | None]:
    """Serve the page of `--live` during the `with`, and print its address; None without --live."""
    given = click.get_current_context().params
    port: int | None = given["live"]
    if port is None:
        yield None
        return
    weights = weights_of([workload for workload in workloads if isinstance(workload, Network)])
    keys = {*weights, *(workload.key for workload in workloads if isinstance(workload, Task))}
    with LivePage(port, records, keys, weights or None, given["fleet_at"] or "") as page:
        click.echo(f"live: {page.address}", err=True)
        yield page
    click.echo(f"the page again: ansorc report {records}", err=True)


def _takes_scheduling(command: Callable[..., Any]) -> Callable[..., None]:
    """Add the options of the task scheduler to a command, which gets them as one value."""

    @click.option("--objective", default="f1", show_default=True,
                  type=click.Choice(get_args(ObjectiveName)),
                  help="The objective for networks: f1, the sum of their times; f2, of those "
                  "beyond a requirement; f3, the mean speed-up over references; f4, f1 without "
                  "tasks that gain nothing.")  # fmt: skip
    @click.option("--requirement", "requirements", multiple=True, type=float, metavar="SECONDS",
                  help="The required time for f2, for each network in turn.")  # fmt: skip
    @click.option("--reference", "references", multiple=True, type=float, metavar="SECONDS",
                  help="The reference time for f3, for each network in turn.")  # fmt: skip
    @click.option("--scheduler", default="gradient", show_default=True,
                  type=click.Choice(get_args(SchedulerName)),
                  help="How the trials are shared among the kernels of networks.")  # fmt: skip
    @wraps(command)
    def with_scheduling(
        workloads: list[TaskOrNetworks], objective: ObjectiveName, requirements: tuple[float, ...],
        references: tuple[float, ...], scheduler: SchedulerName, **rest: Any,
    ) -> None:  # fmt: skip
        scheduling = Scheduling(scheduler, objective, requirements, references)
        command(workloads, scheduling=scheduling, **rest)

    return with_scheduling


def _without(ablation: str, options: TuneOptions) -> TuneOptions:
    """Return the options with the search of `ablation`; a cost model that was given is kept."""
    search, asked = ABLATIONS[ablation], options.search.cost_model
    if asked != DEFAULTS.cost_model:
        search = replace(search, cost_model=asked)
    return replace(options, search=search)


def _load_model(path: Path, name: str, seed: int) -> TreeModel:
    if name != "trees":
        raise click.UsageError(f"--model FILE holds trees; leave out --cost-model {name}")
    return TreeModel.load(path, seed)
