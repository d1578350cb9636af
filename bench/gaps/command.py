"""`python -m bench gaps`: a product 64×256×256 after gaps of 0 to 2000 µs, in turns with peers."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ansorc.compare.side import Gap
from ansorc.errors import AnsorcError
from ansorc.target import detect
from bench.gaps.sides import BESIDE
from bench.peers.checked_sides import make_side, refuse_wrong
from bench.team import compiled

GAPS_US = (0.0, 5.0, 20.0, 100.0, 2000.0)
_NAMES = (
    "ansorc", "torch", "oneDNN", "onnxruntime", f"ansorc{BESIDE}torch", f"torch{BESIDE}ansorc",
)  # fmt: skip
_CPP = "ansorc, C++"
_PATIENCE_S = 600.0

Timer = Callable[[float], float]
"""Returns the seconds of a call after a gap of so many microseconds."""
Times = Mapping[str, Mapping[float, list[float]]]
"""Seconds of a call, a median a turn, by side and gap."""


@click.command()
@click.option("--records", type=click.Path(path_type=Path, exists=True),
              help="What ansorc was tuned to; default: untuned.")  # fmt: skip
@click.option("--threads", default=0, type=click.IntRange(min=0), help="0: all cores.")
@click.option("--turns", default=7, show_default=True, type=click.IntRange(min=1))
@click.option("--sides", default=",".join(_NAMES), show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Keep all times as JSON.")
def gaps(
    *, records: Path | None, threads: int, turns: int, sides: str, output: Path | None
) -> None:
    """Time a short kernel with gaps between the calls, from Python and from C++."""
    number = threads or detect().cores
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        timers, missing = dict[str, Timer](), dict[str, str]()
        try:
            timers[_CPP] = _cpp_timer(compiled(directory, detect()), number)
        except (AnsorcError, subprocess.CalledProcessError) as error:
            missing[_CPP] = str(error)
        for name in sides.split(","):
            try:
                timers[name] = _python_timer(name, number, records, directory, stack)
            except Gap as gap:
                missing[name] = str(gap)
        found = measured(timers, turns)
    for name, why in missing.items():
        click.echo(f"{name}: {why}", err=True)
    if output:
        output.write_text(json.dumps(found, indent=1))
    Console(width=120).print(table(found))


def measured(timers: Mapping[str, Timer], turns: int) -> Times:
    """Return what the sides took, in turns: all sides for each gap, then the next turn."""
    found: dict[str, dict[float, list[float]]] = {name: defaultdict(list) for name in timers}
    for _ in range(turns):
        for gap in GAPS_US:
            for name, timer in timers.items():
                found[name][gap].append(timer(gap))
    return found


def table(found: Times) -> Table:
    """Return a row for each side with the medians of the turns, in microseconds."""
    shown = Table("µs a call", *(f"gap {gap:.0f}" for gap in GAPS_US))
    for name, by_gap in found.items():
        cells = [f"{statistics.median(by_gap[gap]) * 1e6:.1f}" for gap in GAPS_US]
        shown.add_row(name, *cells)
    return shown


def _cpp_timer(program: Path, threads: int) -> Timer:
    def timed(gap_us: float) -> float:
        arguments = map(str, (threads, "product", gap_us, "pool", 30))
        done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
        return float(done.stdout.split()[0]) * 1e-6

    return timed


def _python_timer(
    name: str, threads: int, records: Path | None, directory: Path, stack: ExitStack
) -> Timer:
    side = make_side(name, threads, directory / "log", "bench.gaps.serve")
    stack.callback(side.end)
    message = {"do": "prepare", "threads": threads, "records": str(records or "")}
    refuse_wrong(side.ask(message, _PATIENCE_S)["error"])

    def timed(gap_us: float) -> float:
        asked = {"do": "time", "gap_us": gap_us, "seconds": 0.03}
        return float(side.ask(asked, _PATIENCE_S)["seconds"])

    return timed
