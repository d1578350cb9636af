"""The untuned default against the best recorded program: `python -m bench.search.default`.

Both are built here and timed in turns, so that they meet the same clock; a workload without records
is tuned first. The build of the default is timed from the definition to machine code.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from ansorc.codegen.call.module import Module
from ansorc.search.measure.data import draw_inputs
from ansorc.search.programs import compile_program, default_program, program_of_record
from ansorc.search.task import Task
from ansorc.search.tune import tune
from ansorc.target.units import seconds_text
from bench.paper_cases import case

CASES = ("GMM-3-b1", "GMM-4-b1", "C2D-1-b1", "C2D-2-b1", "C2D-3-b1", "C2D-4-b1")
"""Matrix products of 512³ and 1024³, and the paper's four two-dimensional convolutions."""
GOAL, BUILD_GOAL_S = 0.5, 1.0
_PAIRS, _KERNEL_S = 15, 0.03


@dataclass(frozen=True)
class Finding:
    """The default of one workload."""

    case: str
    default_s: float
    tuned_s: float
    share: float
    """Speed of the default by that of the tuned program, the median over pairs in turns."""
    quartiles: tuple[float, float]
    build_s: float
    """Wall time from the definition to a callable kernel, the median of three."""
    processor_s: float
    """The same in processor time."""


@click.command()
@click.argument("names", nargs=-1, metavar="[CASE …]")
@click.option("--records", type=click.Path(path_type=Path), default=Path("out/default.db"))
@click.option("--trials", default=200, show_default=True, help="Of a workload without records.")
@click.option("--threads", default=0, help="0: all cores.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Also write the findings.")
def main(
    names: tuple[str, ...], records: Path, trials: int, threads: int, path: Path | None
) -> None:
    """Compare the default with the best record of each case of the paper in NAMES."""
    records.parent.mkdir(parents=True, exist_ok=True)
    found: list[Finding] = []
    for name in names or CASES:
        task = Task(
            case(name).dag(constant=not name.startswith("GMM")), "native", name.replace("-", "_")
        )
        best = tune(task, trials=trials, records=records, threads=threads).best
        if best is None:
            raise click.ClickException(f"no program of {name} could be measured")
        tuned = compile_program(task, program_of_record(task, best))
        found.append(compared(task, tuned, threads))
        click.echo(f"{name}: {found[-1].share:.0%} of the tuned speed")
    Console(width=100).print(_table(found))
    if path is not None:
        path.write_text(json.dumps([asdict(finding) for finding in found], indent=1))


def compared(task: Task, tuned: Module, threads: int) -> Finding:
    """Build the default of `task`, and time it and `tuned` in turns."""
    built = [_built(task.with_threads(threads)) for _ in range(3)]
    module = built[0][0]
    inputs, outputs = draw_inputs(task, np.random.default_rng(0))
    given = dict(zip((buffer.name for buffer in task.dag.inputs), inputs, strict=True))
    results = dict(zip((buffer.name for buffer in task.dag.outputs), outputs, strict=True))
    arrays = [
        given[b.name] if b.name in given else np.zeros_like(results[b.name], b.dtype.numpy)
        for b in task.dag.params
    ]
    pairs = [
        tuple(
            each.time(*arrays, threads=threads, min_time_s=_KERNEL_S).median_s
            for each in (module, tuned)
        )
        for _ in range(_PAIRS)
    ]
    shares = [best / default for default, best in pairs]
    low, share, high = statistics.quantiles(shares, n=4, method="inclusive")
    default_s, tuned_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    wall, processor = (
        statistics.median(column) for column in zip(*(b[1] for b in built), strict=True)
    )
    return Finding(task.name, default_s, tuned_s, share, (low, high), wall, processor)


def _built(task: Task) -> tuple[Module, tuple[float, float]]:
    """The default, and the seconds that it took: on the clock and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    module = compile_program(task, default_program(task))
    return module, (time.perf_counter() - wall, time.process_time() - processor)


def _table(findings: list[Finding]) -> Table:
    table = Table("case", "default", "tuned", "of tuned", "quartiles", "build s", "processor")
    for found in findings:
        low, high = found.quartiles
        slow = "" if found.share >= GOAL else f"  ← below {GOAL:.0%}"
        late = "" if found.build_s < BUILD_GOAL_S else f"  ← above {BUILD_GOAL_S:.0f}"
        table.add_row(
            found.case, seconds_text(found.default_s), seconds_text(found.tuned_s),
            f"{found.share:.0%}{slow}", f"{low:.0%}–{high:.0%}", f"{found.build_s:.2f}{late}",
            f"{found.processor_s:.2f}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    main()
