"""`python -m bench operators`: small and awkward operators as users call them, in turns."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ansorc.compare.figures import geometric_mean, median_ratio
from ansorc.compare.side import Gap, Side
from ansorc.target import detect
from ansorc.target.units import seconds_text
from bench.operators.case import OperatorCase
from bench.operators.cases import CASES
from bench.operators.sides import SIDES
from bench.peers.checked_sides import make_side, refuse_wrong, time_in_turns

_OWN = ("ansorc", "machine code")
_PATIENCE_S = 3600.0
_TURN_S = 0.02
_RESULTS = "operators.json"


@dataclass
class OperatorResult:
    """The times of one case."""

    name: str
    kind: str
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """A call's, a median a turn, by side."""
    gaps: dict[str, str] = field(default_factory=dict[str, str])

    def ratios(self, own: str) -> dict[str, float]:
        """Return how many times as long each peer takes as the side `own`."""
        if own not in self.seconds:
            return {}
        return {
            side: median_ratio(self.seconds[own], times)
            for side, times in self.seconds.items()
            if side not in _OWN
        }


@click.command()
@click.option("--cases", default="all", show_default=True, help="Kinds or cases, or all.")
@click.option("--peers", default="torch,onnxruntime,openvino", show_default=True)
@click.option("--trials", default=0, show_default=True, type=click.IntRange(min=0),
              help="Programs a case that are measured; 0: the untuned default.")  # fmt: skip
@click.option("--threads", default=0, type=click.IntRange(min=0), help="0: all cores.")
@click.option("--turns", default=7, show_default=True, type=click.IntRange(min=1))
@click.option("--directory", default="out/operators", show_default=True,
              type=click.Path(path_type=Path), help="Results and records.")  # fmt: skip
@click.option("--list", "is_listing", is_flag=True, help="Print the cases and their sources.")
def operators(
    *, cases: str, peers: str, trials: int, threads: int, turns: int, directory: Path,
    is_listing: bool,
) -> None:  # fmt: skip
    """Time single operators of real networks called from Python, weights packed before."""
    chosen = _chosen(cases)
    if is_listing:
        for case in chosen:
            click.echo(f"{case.kind:12} {case.name:28} {case.source}")
        return
    directory.mkdir(parents=True, exist_ok=True)
    number = threads or detect().cores
    names = (*_OWN, *(name for name in peers.split(",") if name in SIDES))
    sides = {
        name: make_side(name, number, directory / "sides.log", "bench.operators.serve")
        for name in names
    }
    results: list[OperatorResult] = []
    try:
        for case in chosen:
            message: dict[str, object] = {
                "do": "prepare", "case": case.name, "threads": number, "trials": trials,
                "records": str(directory / "operators.db") if trials else "",
                "reference": str(directory.absolute() / "reference.npy"),
            }  # fmt: skip
            results.append(_timed(case, sides, message, turns))
            click.echo(_line(results[-1]))
    finally:
        for side in sides.values():
            side.end()
    _keep(results, directory)
    _print(results)


def _chosen(text: str) -> list[OperatorCase]:
    words = text.split(",")
    found = [case for case in CASES if text == "all" or case.kind in words or case.name in words]
    known = {case.kind for case in CASES} | {case.name for case in CASES} | {"all"}
    unknown = [word for word in words if word not in known]
    if unknown:
        kinds = ", ".join(dict.fromkeys(case.kind for case in CASES))
        raise click.ClickException(f"there is no case '{unknown[0]}'; kinds are {kinds}")
    return found


def _timed(
    case: OperatorCase, sides: dict[str, Side], message: dict[str, object], turns: int
) -> OperatorResult:
    """Let every side prepare the case, check it, and time all in turns."""
    result, right = OperatorResult(case.name, case.kind), dict[str, Side]()
    wanted = {"do": "reference", "case": case.name, "path": message["reference"]}
    sides["torch" if "torch" in sides else "ansorc"].ask(wanted, _PATIENCE_S)
    for name, side in sides.items():
        try:
            answer = side.ask(message, _PATIENCE_S)
            refuse_wrong(answer["error"])
            right[name] = side
        except Gap as gap:
            result.gaps[name] = str(gap)
    result.seconds, gaps = time_in_turns(right, turns, _TURN_S, _PATIENCE_S)
    result.gaps |= gaps
    return result


def _line(result: OperatorResult) -> str:
    words = [f"{name} {seconds_text(statistics.median(times))}"
             for name, times in result.seconds.items()]  # fmt: skip
    words += [f"{name}: {gap}" for name, gap in result.gaps.items()
              if gap != "it has no such operator"]  # fmt: skip
    ratios = [min(found.values()) for own in _OWN if (found := result.ratios(own))]
    return f"{result.name}: {', '.join(words)}; {' '.join(f'{r:.2f}' for r in ratios)} × best"


def _keep(results: Sequence[OperatorResult], directory: Path) -> None:
    """Write the results beside those of other cases of earlier runs."""
    path = directory / _RESULTS
    held = {one["name"]: one for one in json.loads(path.read_text())} if path.exists() else {}
    held |= {one.name: asdict(one) for one in results}
    path.write_text(json.dumps(list(held.values()), indent=1))


def _print(results: Sequence[OperatorResult]) -> None:
    """Print for each kind how many times as fast ansorc is as the best peer."""
    table = Table("kind", "cases", "as called, × best", "least", "machine code, × best", "least")
    kinds = list(dict.fromkeys(one.kind for one in results))
    for kind in (*kinds, "all"):
        held = [one for one in results if kind in (one.kind, "all")]
        cells: list[str] = []
        for own in _OWN:
            best = [min(found.values()) for one in held if (found := one.ratios(own))]
            cells += [f"{geometric_mean(best):.2f}", f"{min(best, default=0.0):.2f}"]
        table.add_row(kind, str(len(held)), *cells)
    Console(width=120).print(table)
