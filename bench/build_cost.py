"""What building one candidate costs, by phase and pass: `python -m bench.build_cost [WHAT …]`.

WHAT is FILE:WORKLOAD or a case of the paper such as C2D-3-b1; `--paper` takes the third shape of
all twelve operators. Random programs of each design space, for a GPU those that its model finds
best, are built in this process, by the processor time of this thread, which other processes disturb
least.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from ansorc.codegen.base import backend_of
from ansorc.codegen.build import prepare
from ansorc.ir.stmt import Function
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.workload import load_workload
from ansorc.schedule import lower, replay
from ansorc.schedule.state import Step
from ansorc.search.evolution.sampling import sample
from ansorc.search.gpu.default import best_on_gpu
from ansorc.search.space import design_space, steps
from ansorc.target import Target, detect
from ansorc.target.platforms import CUDA_BACKEND
from bench.paper_cases import SHAPES, case

DEFAULTS = (
    "runtime/examples/operators.py:matmul_relu",
    "runtime/examples/operators.py:conv2d_bn_relu",
)
COUNT, GPU_COUNT = 60, 6
_WIDTH = 150


class Clock:
    """Adds up the milliseconds since the last mark under a name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._last = time.thread_time()

    def mark(self, name: str, _result: object = None) -> None:
        """End a phase."""
        now = time.thread_time()
        self.spent[name] += (now - self._last) * 1e3
        self._last = now


def definition(what: str) -> ComputeDAG:
    """Return the DAG of a workload of a file, or of a case of the paper."""
    if ":" not in what:
        return case(what).dag(constant=True)
    path, _, name = what.rpartition(":")
    return load_workload(Path(path), name, {})


def cost(dag: ComputeDAG, program: tuple[Step, ...], target: Target) -> dict[str, float]:
    """Return the milliseconds of each phase of building `program`."""
    clock = Clock()
    state = replay(dag, program)
    clock.mark("replay")
    lowered: Function = lower(state)
    clock.mark("lower")
    prepared = prepare(lowered, target, clock.mark)
    backend = backend_of(target)
    source = backend.emit(prepared, target, is_guarded=False)
    clock.mark("text")
    backend.compile(source, target)
    clock.mark("compiler")
    return dict(clock.spent)


def costs(dag: ComputeDAG, target: Target) -> list[dict[str, float]]:
    """Return the costs of COUNT random programs, or of the GPU_COUNT best ones."""
    if target.backend == CUDA_BACKEND:
        return [cost(dag, program, target) for program in best_on_gpu(dag, target, GPU_COUNT)]
    space, rng = design_space(dag, target), np.random.default_rng(0)
    found: list[dict[str, float]] = []
    for number in range(COUNT):
        sketch = space.sketches[number % len(space.sketches)]
        found.append(cost(dag, steps(sketch, sample(sketch, 1, rng)[0]), target))
    return found


@click.command()
@click.argument("names", nargs=-1, metavar="[WHAT …]")
@click.option("--target", "text", default="native", show_default=True)
@click.option("--paper", is_flag=True, help="The third shape of each of the paper's operators.")
def main(names: tuple[str, ...], text: str, *, paper: bool) -> None:
    """Print the median cost of each phase, and the median and 90th percentile of all."""
    target = detect() if text == "native" else Target.parse(text)
    chosen = [f"{operator}-3-b1" for operator in SHAPES] if paper else list(names or DEFAULTS)
    found = {what.rpartition(":")[2]: costs(definition(what), target) for what in chosen}
    Console(width=_WIDTH).print(_table(found))


def _table(found: dict[str, list[dict[str, float]]]) -> Table:
    """A column for each of what was built, a row for each phase."""
    table = Table("median ms", *found)
    phases = list(dict.fromkeys(phase for rows in found.values() for row in rows for phase in row))
    for phase in phases:
        middle = [statistics.median(r.get(phase, 0.0) for r in rows) for rows in found.values()]
        table.add_row(phase, *(f"{cell:.1f}" for cell in middle))
    sums = [sorted(sum(row.values()) for row in rows) for rows in found.values()]
    table.add_row("all", *(f"{statistics.median(each):.1f}" for each in sums))
    table.add_row("90th percentile", *(f"{each[int(0.9 * len(each))]:.1f}" for each in sums))
    return table


if __name__ == "__main__":
    main()
