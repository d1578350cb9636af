"""`ansorc tune` of networks: show the progress of each kernel, and the result."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from ansorc.cli.arguments import same_workloads
from ansorc.cli.exit_codes import INTERRUPTED
from ansorc.cli.fleet_command import fleet_words, in_flight
from ansorc.cli.profile_table import print_profile, profile_search
from ansorc.cli.tables import new_table
from ansorc.cli.tune_arguments import live_page
from ansorc.graph.network import Network
from ansorc.graph.network_tune import (
    NetworkTuneResult,
    round_line,
    tune_networks,
)
from ansorc.search.live_line import minutes
from ansorc.search.options import Scheduling
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_weighted import RoundReport
from ansorc.target.units import seconds_text

_MOST_ROWS = 12


def tune_networks_showing(
    networks: Sequence[Network], options: TuneOptions, scheduling: Scheduling
) -> None:
    """Tune `networks` together, and print each round and the result."""
    for network in networks:
        flops = sum(task.dag.flops for _, task in network.task_of)
        click.echo(
            f"{network.source.name}: {flops / 1e9:.4g} GFLOP a call, {len(network.task_of)} kernels"
            f", {len(network.tasks)} different, target {network.target.text}, seed {options.seed}",
            err=True,
        )
    with (
        live_page(options.records, networks) as live,
        RoundProgress(in_flight(options)) as progress,
    ):

        def tell(done: RoundReport) -> None:
            progress(done)
            if live is not None:
                live.update()

        with profile_search() as profile:
            results = tune_networks(networks, options, scheduling, tell)
    _show(results)
    tuning = results[0].tuning
    print_profile(profile, [result.spent for result in tuning.results])
    for note in dict.fromkeys(note for result in tuning.results for note in result.notes):
        click.echo(f"note: {note}", err=True)
    if tuning.interrupted:
        trials = f" --trials {scheduling.trials}" if scheduling.trials else ""
        click.echo(
            f"interrupted; go on with: ansorc tune {same_workloads()}{fleet_words()}{trials}"
        )
        click.get_current_context().exit(INTERRUPTED)
    click.echo(f"records: {options.records}")
    for name in click.get_current_context().params["workloads"]:
        click.echo(f"build with: ansorc build {same_workloads(name)}")


class RoundProgress:
    """Prints rounds on the error output as they come; use it as a context manager."""

    def __init__(self, where: Callable[[], str] = str) -> None:
        self._where = where
        self._live: Live | None = None
        if sys.stderr.isatty():
            console = Console(stderr=True)
            self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> RoundProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, done: RoundReport) -> None:
        """Show a round: a table of the kernels on a terminal, else a line."""
        if self._live is None:
            click.echo(self._line(done), err=True)
        else:
            self._live.update(self._table(done))

    def _line(self, done: RoundReport) -> str:
        return " | ".join((round_line(done), *filter(None, [self._where()])))

    def _table(self, done: RoundReport) -> Table:
        """Return a table of the kernels that take most of the networks' time."""
        console = Console(stderr=True)
        headings = ("kernel", "best", "share", "trials", "may gain", "")
        table = new_table(console, self._line(done), *headings)
        for number in sorted(range(len(done.tasks)), key=lambda n: -done.tasks[n].share)[
            :_MOST_ROWS
        ]:
            task = done.tasks[number]
            table.add_row(
                f"{'> ' if number == done.measured else ''}{task.task.name}",
                seconds_text(task.best_s), f"{task.share:.1%}", str(task.trials),
                f"{task.expected_gain:.2%}", "" if task.status == "active" else task.status,
            )  # fmt: skip
        return table


def _show(results: Sequence[NetworkTuneResult]) -> None:
    """Print each network's time before and after."""
    tuning = results[0].tuning
    measured = sum(result.measured_now for result in tuning.results)
    click.echo(f"measured {measured} programs in {minutes(tuning.elapsed_s)}", err=True)
    if spared := tuning.trials_spared:
        words = "no kernel is expected to gain by them"
        click.echo(f"{spared} programs fewer than were asked for: {words}", err=True)
    untuned = {r.task.key: r.default.median_s for r in tuning.results if r.default is not None}
    for result in results:
        network = result.network
        if not math.isfinite(result.latency_s):
            tuned_keys = {
                tuned_task.task.key for tuned_task in tuning.results if tuned_task.best is not None
            }
            tuned = sum(key in tuned_keys for key in network.tasks)
            click.echo(
                f"{network.source.name}: {tuned} of {len(network.tasks)} kernels have a program so "
                "far; the same command goes on"
            )
            continue
        words = f"{network.source.name}: {seconds_text(result.latency_s)} in its kernels"
        before = [(untuned.get(key), weight) for key, weight in network.weights.items()]
        if all(seconds is not None for seconds, _ in before) and result.latency_s:
            total = sum(weight * (seconds or 0.0) for seconds, weight in before)
            words += f", {total / result.latency_s:.2f} times as fast as untuned"
        click.echo(words)
