"""What a parallel loop costs in a chain of loops, with and without a team: `python -m bench.team`.

`team.cc` is compiled here with the runtime and an untuned matrix product 64×256×256. Between two
loops the calling thread computes for a while, the gap. The same on one thread, with the pool alone
and in a team, in turns, all cores; then again beside a process that keeps as many cores busy.

A batch is a process of its own, so none profits or suffers from what the pool learned in another.
Of the batches' medians the best and the median are printed, for others disturb many on a shared
machine, and of their means the median, in microseconds.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections import defaultdict
from itertools import product
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import ansorc as ac
from ansorc.codegen.package.runtime_library import runtime_sources
from ansorc.codegen.package.toolchain import find_toolchain
from ansorc.target import Target, detect

SOURCE = Path(__file__).with_suffix(".cc")
_FLAGS = ("-std=c++17", "-O2", "-pthread")
_GAPS_US = (0, 5, 20, 100, 2000)
_LOOPS, _VARIANTS = ("empty", "barrier", "product"), ("alone", "pool", "team")
_BATCH_MS, _BUSY_BATCH_MS = 10, 100
"""Beside a busy process as long as it takes the scheduler to have given each its turns."""
_WIDTH = 120

Batches = dict[tuple[str, float, str], list[tuple[float, float]]]
"""Median and mean of each batch, by loop, gap and variant, in microseconds."""


def compiled(directory: Path, target: Target) -> Path:
    """Return the program; raise BuildError or CalledProcessError if it cannot be made."""
    a, b = ac.placeholder((64, 256), "A"), ac.placeholder((256, 256), "B")
    k = ac.reduce_axis(256, "k")
    c = ac.compute((64, 256), lambda i, j: ac.sum(a[i, k] * b[k, j], k), name="C")
    kernel = ac.build(ac.ComputeDAG([a, b, c]), target, name="product").save(
        directory / "product.o"
    )
    runtime, program = runtime_sources(), directory / SOURCE.stem
    sources = [SOURCE, runtime / "src" / "thread_pool.cc", kernel.library]
    includes = [f"-I{runtime / 'include'}", f"-I{directory}"]
    command = [*find_toolchain(target).cxx, *_FLAGS, *includes, *map(str, sources), "-lm"]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def batches(program: Path, threads: int, turns: int, batch_ms: int = _BATCH_MS) -> Batches:
    """Return what the program measured in `turns` turns."""
    found: Batches = defaultdict(list)
    for _, loop, gap, variant in product(range(turns), _LOOPS, _GAPS_US, _VARIANTS):
        if loop == "barrier" and variant == "alone":
            continue
        arguments = map(str, (threads, loop, gap, variant, batch_ms))
        printed = subprocess.run(
            [program, *arguments], check=True, capture_output=True, text=True
        ).stdout
        median, mean = map(float, printed.split())
        found[loop, gap, variant].append((median, mean))
    return found


def batches_beside_a_burner(program: Path, threads: int, turns: int) -> Batches:
    """Return the same where another process keeps `threads` cores busy."""
    command = [str(program), "burn", str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE):  # it ends with its standard input
        return batches(program, threads, turns, _BUSY_BATCH_MS)


def table(title: str, found: Batches) -> Table:
    """A row for each loop and gap: best and median of the medians, median of the means."""
    shown = Table("loop", "gap", *(f"{name}: best, median, mean" for name in _VARIANTS))
    shown.title = title
    for loop, gap in dict.fromkeys((loop, gap) for loop, gap, _ in found):
        cells = [_cell(found.get((loop, gap, variant), [])) for variant in _VARIANTS]
        shown.add_row(loop, f"{gap:.0f}", *cells)
    return shown


def _cell(turns: list[tuple[float, float]]) -> str:
    if not turns:
        return ""
    medians, means = zip(*turns, strict=True)
    figures = (min(medians), statistics.median(medians), statistics.median(means))
    return "  ".join(f"{figure:8.2f}" for figure in figures)


@click.command()
@click.option("--turns", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--threads", default=0, type=click.IntRange(min=0), help="0: all cores.")
def main(turns: int, threads: int) -> None:
    """Measure and print."""
    target = detect()
    with tempfile.TemporaryDirectory() as directory:
        program = compiled(Path(directory), target)
        for title, measure in (("", batches), ("beside a busy process", batches_beside_a_burner)):
            found = measure(program, threads or target.cores, turns)
            Console(width=_WIDTH).print(table(f"µs a loop, {title}".rstrip(", "), found))


if __name__ == "__main__":
    main()
