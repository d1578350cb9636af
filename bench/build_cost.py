"""What building one candidate costs, by phase: `python bench/build_cost.py [FILE:WORKLOAD …]`.

Draws random programs of each workload's design space and builds them in this process.
"""

from __future__ import annotations

import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from ansorc.codegen.build import cpu_options
from ansorc.codegen.llvm import compile_object, emit_llvm
from ansorc.ir.passes.pipeline import prepare_for_cpu
from ansorc.lang.workload import load_workload
from ansorc.schedule import lower, replay
from ansorc.search.space import design_space, sample, steps
from ansorc.target import detect

DEFAULTS = (
    "runtime/examples/operators.py:matmul_relu",
    "runtime/examples/operators.py:conv2d_bn_relu",
)
PHASES = ("replay", "lower", "passes", "emit", "llvm")
COUNT = 60


def costs(workload: str) -> list[list[float]]:
    """Return, for each of COUNT random programs, the milliseconds of each phase."""
    path, _, name = workload.rpartition(":")
    dag, target = load_workload(Path(path), name, {}), detect()
    space, rng = design_space(dag, target), np.random.default_rng(0)
    rows: list[list[float]] = []
    for number in range(COUNT):
        sketch = space.sketches[number % len(space.sketches)]
        program = steps(sketch, sample(sketch, 1, rng)[0])
        marks = [time.perf_counter()]
        state = replay(dag, program)
        marks.append(time.perf_counter())
        lowered = lower(state)
        marks.append(time.perf_counter())
        prepared = prepare_for_cpu(lowered, cpu_options(target))
        marks.append(time.perf_counter())
        text = emit_llvm(prepared, target)
        marks.append(time.perf_counter())
        compile_object(text, target)
        marks.append(time.perf_counter())
        rows.append([(b - a) * 1e3 for a, b in pairwise(marks)])
    return rows


def main() -> None:
    for workload in sys.argv[1:] or DEFAULTS:
        rows = costs(workload)
        print(f"{workload}: milliseconds of {COUNT} random programs (median, 90th percentile)")
        for place, phase in enumerate((*PHASES, "all")):
            values = sorted(sum(row) if phase == "all" else row[place] for row in rows)
            print(f"  {phase:7} {statistics.median(values):7.1f} {values[int(0.9 * COUNT)]:7.1f}")


if __name__ == "__main__":
    main()
