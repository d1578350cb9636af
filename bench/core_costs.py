"""Cycles of instructions and bytes on this machine: `python -m bench.core_costs`.

Measures what can be measured of `ansorc/target/costs.py`: `core_costs.cc`, compiled here, times
instructions and reads of each cache; parallel loops are timed against serial ones. A cycle is what
a dependent integer addition takes. What is measured takes turns; the median of all turns and the
best one are printed, for others disturb most turns on a shared machine.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import ansorc as ac
from ansorc.codegen.package.toolchain import find_toolchain
from ansorc.target import Target, detect

CORE = detect().costs
SOURCE = Path(__file__).with_suffix(".cc")
_FLAGS = ("-std=c++20", "-O2", "-march=native", "-pthread")
_CYCLE = "cycle"
"""The name under which the C++ program prints the nanoseconds of a cycle."""
_NAP_S = 0.002
"""Workers that have nothing to do sleep after 0.2 ms."""
_ABSENT, _WIDTH = "not on this machine", 130


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    words: str
    field: str = ""
    """Of CoreCosts."""
    there: float = 0.0
    """What it says."""
    is_rate: bool = False
    """Whether the figure is how many in a cycle, rather than cycles for one."""


def rate(words: str, field: str = "", there: float = 0.0) -> Row:
    return Row(f"{words} a cycle", field, there, is_rate=True)


ROWS = {
    "multiply_add_latency": Row("multiply-add of vectors, until the sum can be added to again",
                                "add_latency", CORE.add_latency),
    "add_latency": Row("addition of vectors, likewise", "add_latency", CORE.add_latency),
    "dot_latency": Row("dot product of bytes, likewise", "dot_latency", CORE.dot_latency),
    "memory_add_latency": Row("load, add, store, and again to the same place",
                              "memory_add_latency", CORE.memory_add_latency),
    "combine_lanes": Row("adding up the lanes of a vector", "combine_lanes", CORE.combine_lanes),
    "division": Row("division of a vector of float32, one beside the other"),
    "root": Row("square root of a vector of float32, likewise"),
    "multiply_adds": rate("multiply-adds of vectors"),
    "dots": rate("dot products of bytes"),
    "loads": rate("vectors loaded from the first cache"),
    "instructions": rate("instructions (multiply-add, load, two scalar ones)",
                         "instructions", CORE.instructions),
    "scalars": rate("scalar instructions, with half as many multiply-adds,",
                    "scalar_ports", CORE.scalar_ports),
    "l2_bytes": rate("bytes from the second cache", "fill_bytes[0]", CORE.fill_bytes[0]),
    "l3_bytes": rate("bytes from the third cache", "fill_bytes[1]", CORE.fill_bytes[1]),
    "memory_bytes": rate("bytes from memory, one core,"),
    "all_memory_bytes": rate("bytes from memory, all cores,", "memory_bytes", CORE.memory_bytes),
    "handed_bytes": rate("bytes that another core has just written,",
                         "handed_bytes", CORE.handed_bytes),
    "fork": Row("starting and joining the other cores, which wait for it", "fork", CORE.fork),
    "fork_asleep": Row("the same where they sleep", "fork", CORE.fork),
}  # fmt: skip


def measure(target: Target, repetitions: int) -> dict[str, list[float]]:
    """Return for each row what `repetitions` measured, in the unit of the row, best last.

    Rows that this machine has not are left out. Raise BuildError without a C++ compiler and
    CalledProcessError where it refuses: the source is for x86 with AVX2.
    """
    cycles = _instructions_and_bytes(target, repetitions)
    cycle_s = 1e-9 * statistics.median(cycles.pop(_CYCLE))
    if target.cores > 1:
        for name, turns in _forks(target, repetitions).items():
            cycles[name] = [seconds / cycle_s for seconds in turns]
    return {
        name: sorted(1.0 / each for each in found)
        if ROWS[name].is_rate
        else sorted(found, reverse=True)
        for name, found in cycles.items()
    }


def _instructions_and_bytes(target: Target, repetitions: int) -> dict[str, list[float]]:
    """Return the cycles of one of each, measured by the C++ program."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / SOURCE.stem
        compiler = find_toolchain(target).cxx
        subprocess.run([*compiler, *_FLAGS, str(SOURCE), "-o", str(program)], check=True)
        arguments = (repetitions, *target.cache_bytes[1:], target.cores)
        command = [str(program), *map(str, arguments)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in printed.splitlines()]
    return {name: [float(figure) for figure in figures] for name, *figures in lines}


class _Sums:
    """A kernel that adds up `terms` numbers, one after another, in each of some threads."""

    def __init__(self, target: Target, threads: int, terms: int) -> None:
        x = ac.placeholder((threads, terms), "x")
        r = ac.reduce_axis(terms, "r")
        out = ac.compute((threads,), lambda i: ac.sum(x[i, r], r), name="out")
        schedule = ac.schedule(ac.ComputeDAG([x, out]))
        self._module = ac.build(schedule.parallel("out", "i") if threads > 1 else schedule, target)
        self._arrays = np.ones((threads, terms), np.float32), np.empty(threads, np.float32)
        self._threads = threads

    def in_a_row(self) -> float:
        """Return the seconds of a call between others, the fastest of a few batches."""
        found = self._module.time(
            *self._arrays, threads=self._threads, min_time_s=0.001, max_repeats=5
        )
        return found.fastest_s

    def after_a_nap(self) -> float:
        """Return the seconds of a call after a while without one."""
        time.sleep(_NAP_S)
        begin = time.perf_counter()
        self._module(*self._arrays, threads=self._threads)
        return time.perf_counter() - begin


def _forks(target: Target, repetitions: int) -> dict[str, list[float]]:
    """Return the seconds that a sum in every core takes longer than the fastest one of one core.

    The sums take longer than the other cores to come, or the first one would do them all.
    """
    found: dict[str, list[float]] = {}
    for name, terms, clock in (
        ("fork", 20_000, _Sums.in_a_row),
        ("fork_asleep", 200_000, _Sums.after_a_nap),
    ):
        one, all_cores = _Sums(target, 1, terms), _Sums(target, target.cores, terms)
        turns = [(clock(one), clock(all_cores)) for _ in range(repetitions)]
        fastest = min(single for single, _ in turns)
        found[name] = [parallel - fastest for _, parallel in turns]
    return found


def table(found: dict[str, list[float]]) -> Table:
    """Return the median and the best of each row, beside what CoreCosts says."""
    shown = Table("in cycles", "median", "best", "CoreCosts")
    for name, row in ROWS.items():
        figures = found.get(name)
        cells = (
            (_ABSENT, "")
            if figures is None
            else (_digits(statistics.median(figures)), _digits(figures[-1]))
        )
        shown.add_row(row.words, *cells, row.field and f"{row.field} {_digits(row.there)}")
    return shown


def _digits(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


@click.command()
@click.option("--repetitions", default=300, show_default=True)
def main(repetitions: int) -> None:
    """Measure and print."""
    Console(width=_WIDTH).print(table(measure(detect(), repetitions)))


if __name__ == "__main__":
    main()
