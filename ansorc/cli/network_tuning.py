"""`ansorc tune` of networks: how it goes, kernel by kernel, and what was found."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from ansorc.cli.arguments import same_workload
from ansorc.cli.exit_codes import INTERRUPTED
from ansorc.cli.progress import minutes
from ansorc.cli.tables import new_table
from ansorc.graph.network import Network
from ansorc.graph.network_tune import NetworkTuneResult, tune_networks
from ansorc.search.scheduled_tuning import Round
from ansorc.search.task_scheduler import SchedulerOptions
from ansorc.search.tune_options import TuneOptions

_MOST_ROWS = 12


def tune_networks_showing(
    networks: Sequence[Network], options: TuneOptions, scheduling: SchedulerOptions
) -> None:
    """Tune `networks` together, and print rounds as they come and what was found."""
    for network in networks:
        flops = sum(task.dag.flops for _, task in network.task_of)
        click.echo(
            f"{network.source.name}: {flops / 1e9:.4g} GFLOP a call, {len(network.task_of)} kernels"
            f", {len(network.tasks)} different, target {network.target.text}, seed {options.seed}",
            err=True,
        )
    with RoundProgress(networks) as progress:
        results = tune_networks(networks, options, scheduling, progress)
    _show(results)
    tuning = results[0].tuning
    for note in tuning.notes:
        click.echo(f"note: {note}", err=True)
    if tuning.is_interrupted:
        click.echo(f"interrupted; go on with: ansorc tune {same_workload()}")
        click.get_current_context().exit(INTERRUPTED)
    click.echo(f"records: {options.records}")
    for name in click.get_current_context().params["workloads"]:
        click.echo(f"build it with: ansorc build {name} --records {options.records}")


class RoundProgress:
    """Prints rounds on the error output as they come; use it as a context manager."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks
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

    def __call__(self, done: Round) -> None:
        """Show a round: a table of the kernels on a terminal, else a line."""
        if self._live is None:
            click.echo(self.line(done), err=True)
        else:
            self._live.update(self._table(done))

    def line(self, done: Round) -> str:
        """Return a round as one line."""
        times = ", ".join(map(_milliseconds, done.latencies))
        words = [f"{done.trials}/{done.total}", f"networks {times}", f"ETA {minutes(done.eta_s)}"]
        words.append(f"{done.task.name}: {_milliseconds(done.bests[done.number])}")
        if done.gained_s > 0:
            words.append(f"gained {_milliseconds(done.gained_s)}")
        return " | ".join(words)

    def _table(self, done: Round) -> Table:
        """The kernels that take the most of the networks' time."""
        weights = dict[str, int]()
        for network in self._networks:
            for key, weight in network.weights.items():
                weights[key] = weights.get(key, 0) + weight
        tasks = list({key: task for n in self._networks for key, task in n.tasks.items()}.values())
        shares = [weights[task.key] * best for task, best in zip(tasks, done.bests, strict=True)]
        total = sum(share for share in shares if math.isfinite(share)) or 1.0
        console = Console(stderr=True)
        table = new_table(console, self.line(done), "kernel", "times", "best", "share", "may gain")
        for number in sorted(range(len(tasks)), key=lambda n: -shares[n])[:_MOST_ROWS]:
            share = f"{shares[number] / total:.1%}" if math.isfinite(shares[number]) else "-"
            table.add_row(
                f"{'> ' if number == done.number else ''}{tasks[number].name}",
                str(weights[tasks[number].key]), _milliseconds(done.bests[number]), share,
                _milliseconds(done.expected[number]),
            )  # fmt: skip
        return table


def _show(results: Sequence[NetworkTuneResult]) -> None:
    """Print each network's time before and after."""
    tuning = results[0].tuning
    measured = sum(result.measured_now for result in tuning.results)
    click.echo(f"measured {measured} programs in {minutes(tuning.elapsed_s)}", err=True)
    untuned = {r.task.key: r.default.median_s for r in tuning.results if r.default is not None}
    for result in results:
        network = result.network
        words = f"{network.source.name}: {_milliseconds(result.latency_s)} in its kernels"
        before = [(untuned.get(key), weight) for key, weight in network.weights.items()]
        if all(seconds is not None for seconds, _ in before) and result.latency_s:
            total = sum(weight * (seconds or 0.0) for seconds, weight in before)
            words += f", {total / result.latency_s:.2f} times as fast as untuned"
        click.echo(words)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms" if math.isfinite(seconds) else "no result yet"
