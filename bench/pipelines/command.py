"""`python -m bench pipelines`: the applications of Halide's autoscheduler papers, in turns."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from ansorc.compare.figures import geometric_mean, median_ratio
from ansorc.compare.side import Gap, Side
from ansorc.target import cpu_model, detect
from ansorc.target.units import seconds_text
from bench.peers.checked_sides import make_side, refuse_wrong, time_in_turns
from bench.pipelines.applications import APPLICATIONS
from bench.pipelines.sides import SIDES

_OWN = "ansorc"
_PATIENCE_S = 3600.0
_TURN_S = 0.1
_TOLERANCE = 2e-3
"""Brightness near the border of two levels may go to either: the bilateral grid counts pixels."""


@dataclass
class PipelineResult:
    """The times of one application."""

    name: str
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """A call's, a median a turn, by side."""
    spent: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds to schedule or tune, and to compile."""
    gaps: dict[str, str] = field(default_factory=dict[str, str])

    def ratios(self) -> dict[str, float]:
        """Return how many times as long each peer takes as ansorc."""
        own = self.seconds.get(_OWN)
        if own is None:
            return {}
        return {
            side: median_ratio(own, times) for side, times in self.seconds.items() if side != _OWN
        }


@click.command()
@click.option("--cases", default="all", show_default=True, help="Applications, comma-separated.")
@click.option("--peers", default="adams2019,mullapudi2016,numba", show_default=True)
@click.option("--trials", default=0, show_default=True, type=click.IntRange(0, 256),
              help="Programs of each that are measured, those of earlier runs with the same "
              "--directory included; 0: the untuned default.")  # fmt: skip
@click.option("--threads", default=0, type=click.IntRange(min=0), help="0: all cores.")
@click.option("--turns", default=9, show_default=True, type=click.IntRange(min=1))
@click.option("--directory", default="out/pipelines", show_default=True,
              type=click.Path(path_type=Path), help="Results and records.")  # fmt: skip
def pipelines(
    *, cases: str, peers: str, trials: int, threads: int, turns: int, directory: Path
) -> None:
    """Time image pipelines beside Halide's autoschedulers; each result is checked in float64."""
    chosen = list(APPLICATIONS) if cases == "all" else cases.split(",")
    for name in chosen:
        if name not in APPLICATIONS:
            raise click.ClickException(f"there is no '{name}'; there are {', '.join(APPLICATIONS)}")
    directory.mkdir(parents=True, exist_ok=True)
    number = threads or detect().cores
    names = (_OWN, *(name for name in peers.split(",") if name in SIDES))
    sides = {
        name: make_side(name, number, directory / "sides.log", "bench.pipelines.serve")
        for name in names
    }
    results: list[PipelineResult] = []
    try:
        for name in chosen:
            message: dict[str, object] = {
                "do": "prepare", "case": name, "threads": number, "trials": trials,
                "records": str(directory / "pipelines.db") if trials else "",
                "reference": str(directory.absolute() / "reference.npy"),
            }  # fmt: skip
            results.append(_timed(name, sides, message, turns))
            click.echo(_line(results[-1]))
            text = json.dumps([asdict(each) for each in results], indent=1)
            (directory / "pipelines.json").write_text(text)
    finally:
        for side in sides.values():
            side.end()
    click.echo("\n".join(["", *table(results, f"{cpu_model()}, {number} threads")]))


def _timed(
    name: str, sides: dict[str, Side], message: dict[str, object], turns: int
) -> PipelineResult:
    """Let every side prepare the application, check it, and time all in turns."""
    result, right = PipelineResult(name), dict[str, Side]()
    wanted = {"do": "reference", "case": name, "path": message["reference"]}
    sides[_OWN].ask(wanted, _PATIENCE_S)
    for side_name, side in sides.items():
        try:
            answer = side.ask(message, _PATIENCE_S)
            refuse_wrong(answer["error"], _TOLERANCE)
            right[side_name] = side
            result.spent[side_name] = answer["spent_s"]
        except Gap as gap:
            result.gaps[side_name] = str(gap)
    result.seconds, gaps = time_in_turns(right, turns, _TURN_S, _PATIENCE_S)
    result.gaps |= gaps
    return result


def _line(result: PipelineResult) -> str:
    words = [
        f"{side} {seconds_text(statistics.median(times))} (made in {result.spent[side]:.1f} s)"
        for side, times in result.seconds.items()
    ]
    words += [f"{side}: {gap}" for side, gap in result.gaps.items() if "not written" not in gap]
    best = min(result.ratios().values(), default=0.0)
    return f"{result.name}: {', '.join(words)}; {best:.2f} × the best peer"


def table(results: Sequence[PipelineResult], machine: str) -> list[str]:
    """Return lines of Markdown: times, ratios to the best peer, their geometric mean and least."""
    lines = [f"| {machine} | ansorc | made in | best peer | ratio |", "|---|---|---|---|---|"]
    best = dict[str, float]()
    for result in results:
        ratios = result.ratios()
        if not ratios:
            gaps = "; ".join(f"{side}: {gap}" for side, gap in result.gaps.items())
            lines.append(f"| {result.name} | | | {gaps} | |")
            continue
        peer, best[result.name] = min(ratios.items(), key=lambda pair: pair[1])
        own, other = (
            seconds_text(statistics.median(result.seconds[side])) for side in (_OWN, peer)
        )
        cells = (result.name, own, f"{result.spent[_OWN]:.1f} s", f"{peer} {other}")
        lines.append(f"| {' | '.join(cells)} | {best[result.name]:.2f} |")
    if best:
        least = min(best, key=best.__getitem__)
        mean = geometric_mean(best.values())
        lines += ["", f"geometric mean {mean:.2f}, least {best[least]:.2f} ({least})"]
    return lines
