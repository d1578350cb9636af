"""The table at the end of a tuning run: the tuned program, the untuned default, and NumPy."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from ansorc.cli.tables import new_table
from ansorc.compare.numpy_time import numpy_time
from ansorc.search.record import Record
from ansorc.search.tune_result import TuneResult
from ansorc.target.units import seconds_text

_FIGURES = ("time", "GFLOP/s", "of peak", "spread", "tuned is")
_MOSTLY_PYTHON_S = 3e-4
"""A NumPy time below this is mostly the overhead of Python between array operations."""


def print_table(result: TuneResult, peak: float, *, with_numpy: bool) -> None:
    """Print a row for each way to compute the task; `peak` is the machine's FLOP/s, 0 if unknown.

    With `with_numpy`, NumPy is timed here, on all cores.
    """
    rows = {"tuned": _of_record(result.best), "untuned default": _of_record(result.default)}
    if with_numpy:
        rows["NumPy"] = numpy_time(result.task, np.random.default_rng(0))
    console = Console()
    table = new_table(console, result.task.name, "program", *_FIGURES)
    best = rows["tuned"]
    for name, time in rows.items():
        if time is not None:
            table.add_row(name, *_cells(time, result.task.dag.flops, peak), _ratio(time, best))
    console.print(table)
    numpy = rows.get("NumPy")
    if numpy is not None and numpy[0] < _MOSTLY_PYTHON_S:
        console.print("NumPy's time is mostly that of Python between the array operations")


def _of_record(record: Record | None) -> tuple[float, float] | None:
    """Return (seconds, spread) of a record."""
    if record is None or record.median_s is None:
        return None
    return record.median_s, record.spread_s


def _cells(time: tuple[float, float], flops: float, peak: float) -> tuple[str, str, str, str]:
    seconds, spread = time
    rate = flops / seconds
    has_work = flops > 0
    return (
        seconds_text(seconds),
        f"{rate / 1e9:.1f}" if has_work else "",
        f"{rate / peak:.0%}" if has_work and peak else "",
        f"{spread / seconds:.1%}",
    )


def _ratio(time: tuple[float, float], best: tuple[float, float] | None) -> str:
    return "" if best is None or time is best else f"{time[0] / best[0]:.2f} x as fast"
