"""`python -m bench networks`: time the paper's networks side by side, in turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ansorc.compare.figures import geometric_mean, median_ratio
from ansorc.compare.side import Gap, Side
from ansorc.target import detect
from ansorc.target.units import seconds_text
from bench.networks.sides import PEERS
from bench.peers.checked_sides import TOLERANCE, make_side, refuse_wrong, time_in_turns

NETWORKS = ("resnet50", "mobilenet_v2", "resnet3d_18", "dcgan", "bert")
_PREPARE_S = 3600.0
_TURN_S = 0.5


@dataclass
class NetworkResult:
    """The times of one network at one batch."""

    network: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """A median a turn, by side."""
    errors: dict[str, float] = field(default_factory=dict)
    made_s: dict[str, float] = field(default_factory=dict)
    """From the file to the first result."""
    gaps: dict[str, str] = field(default_factory=dict)

    def ratio(self, side: str, own: str) -> float:
        """Return how many times as long `side` takes as `own`."""
        return median_ratio(self.seconds[own], self.seconds[side])


def takes_comparison(directory: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that all comparisons of networks have to a command."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option("--records", type=click.Path(path_type=Path, exists=True),
                         help="What ansorc was tuned to; default: untuned."),
            click.option("--threads", default=0, type=click.IntRange(min=0), help="0: all cores."),
            click.option("--turns", default=7, show_default=True, type=click.IntRange(min=1)),
            click.option("--directory", default=directory, show_default=True,
                         type=click.Path(path_type=Path), help="Networks and results."),
        ):  # fmt: skip
            command = option(command)
        return command

    return add


@click.command()
@click.option("--networks", default=",".join(NETWORKS), show_default=True)
@click.option("--batches", default="1,16", show_default=True)
@click.option("--peers", default=",".join(PEERS), show_default=True, help="Sides, ansorc too.")
@takes_comparison("out/networks")
def networks(networks: str, batches: str, peers: str, directory: Path, **given: Any) -> None:
    """Time whole networks, ansorc beside other libraries, each in a process of its own."""
    names = [f"{name}-b{batch}" for batch in batches.split(",") for name in networks.split(",")]
    compare(
        names, peers.split(","), directory, lambda name: network_files(name, directory), **given
    )


def compare(
    names: Sequence[str],
    sides: Sequence[str],
    directory: Path,
    prepared: Callable[[str], Path],
    *,
    records: Path | None,
    threads: int,
    turns: int,
    tolerances: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Time networks on all sides in turns; print how they compare, keep it in `directory`.

    `prepared` returns the path, without its suffix, of a network's files: NAME-inputs.npz,
    NAME-reference.npy, and what the sides read. Of some networks larger errors than usual are
    right, by name.
    """
    directory.mkdir(parents=True, exist_ok=True)
    results: list[NetworkResult] = []
    for name in names:
        message = {
            "do": "prepare", "name": name, "stem": str(prepared(name)),
            "threads": threads or detect().cores, "records": str(records or ""),
        }  # fmt: skip
        tolerance = tolerances.get(name, TOLERANCE)
        results.append(_compared(name, sides, message, directory, turns, tolerance))
        _print_one(results[-1])
        text = json.dumps([asdict(result) for result in results], indent=1)
        (directory / "results.json").write_text(text)
    _print(results, sides[0])


def network_files(name: str, directory: Path) -> Path:
    """Return the path, without its suffix, of a network's files, which are made if missing.

    Raise ClickException where they cannot be made.
    """
    stem, (network, _, batch) = directory.absolute() / name, name.rpartition("-b")
    if not stem.with_suffix(".onnx").exists():
        click.echo(f"writing {stem}.onnx", err=True)
        run_or_refuse("bench.networks.prepare", network, batch, str(stem.parent))
    return stem


def run_or_refuse(*arguments: str) -> None:
    """Run a module of Python; raise ClickException where it fails."""
    if subprocess.run([sys.executable, "-m", *arguments], check=False).returncode:
        words = " ".join(arguments)
        raise click.ClickException(f"{words} failed; pip install -e '.[bench]'")


def _compared(
    title: str, names: Sequence[str], message: dict[str, object], directory: Path, turns: int,
    tolerance: float,
) -> NetworkResult:  # fmt: skip
    """Time one network on all sides."""
    result, sides = NetworkResult(title), dict[str, Side]()
    threads = int(str(message["threads"]))
    for name in names:
        side = make_side(name, threads, directory / f"{name}.log", "bench.networks.serve")
        try:
            answer = side.ask(message, _PREPARE_S)
            result.errors[name], result.made_s[name] = answer["error"], answer["made_s"]
            refuse_wrong(answer["error"], tolerance)
            sides[name] = side
        except Gap as gap:
            result.gaps[name] = str(gap)
            side.end()
    result.seconds, gaps = time_in_turns(sides, turns, _TURN_S, _PREPARE_S)
    result.gaps |= gaps
    for side in sides.values():
        side.end()
    return result


def _print_one(result: NetworkResult) -> None:
    words = [f"{side} {seconds_text(statistics.median(times), 3)}"
             for side, times in result.seconds.items()]  # fmt: skip
    words += [f"{side}: {gap}" for side, gap in result.gaps.items()]
    click.echo(f"{result.network}: {', '.join(words)}", err=True)


def _print(results: Sequence[NetworkResult], own: str) -> None:
    """Print how many times as long as those of `own` each side's calls take."""
    sides = list(dict.fromkeys(side for one in results for side in one.seconds))
    others = [side for side in sides if side != own]
    table = Table("network", own, *others, "best of them")
    best: list[float] = []
    for one in results:
        if own not in one.seconds:
            continue
        ratios = {side: one.ratio(side, own) for side in others if side in one.seconds}
        best += [min(ratios.values())] if ratios else []
        cells = [f"{ratios[side]:.2f}" if side in ratios else "-" for side in others]
        own_text = seconds_text(statistics.median(one.seconds[own]), 3)
        table.add_row(one.network, own_text, *cells, f"{best[-1]:.2f}" if ratios else "-")
    console = Console(width=120)
    console.print(table)
    if best:
        click.echo(f"geometric mean of the best of them: {geometric_mean(best):.3f} "
                   f"times {own}'s time")  # fmt: skip
