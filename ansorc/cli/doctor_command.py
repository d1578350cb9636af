"""`ansorc doctor`: what was detected, what this machine can do, and what is missing."""

from __future__ import annotations

import platform
from importlib import metadata, util
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ansorc.codegen.limits import Limits, machine_limits
from ansorc.codegen.toolchain import find_compilers
from ansorc.errors import AnsorcError, BuildError
from ansorc.target import Target, detect

_EXTRAS = {
    "lightgbm": ("the learned cost model", "pip install lightgbm"),
    "pycuda": ("CUDA targets", "pip install 'ansorc[cuda]'"),
    "matplotlib": ("charts of the benchmarks", "pip install 'ansorc[bench]'"),
}


@click.command()
@click.option("--no-limits", is_flag=True, help="Leave out the measured limits (3 s).")
def doctor(*, no_limits: bool) -> None:
    """Show what was detected here: CPU, caches, limits, compilers and missing extras."""
    console = Console()
    target = detect()
    console.print(_machine_table(target))
    problems = _compiler_lines(console)
    for module, (purpose, cure) in _EXTRAS.items():
        if util.find_spec(module) is None:
            console.print(f"[yellow]optional[/]  {module} is missing: no {purpose}; {cure}")
    if not no_limits:
        problems += _limit_lines(console, target)
    if problems:
        raise AnsorcError(f"{problems} problem(s) found; see above")
    console.print("[green]ready[/]")


def _machine_table(target: Target) -> Table:
    table = Table(title="this machine", show_header=False)
    level1, level2, level3 = target.cache_bytes
    for name, value in (
        ("ansorc", metadata.version("ansorc")),
        ("python", platform.python_version()),
        ("cpu", _cpu_name()),
        ("target", target.text),
        ("cores to use", str(target.cores)),
        ("features", " ".join(target.features)),
        ("vectors", f"{target.vector_registers} registers of {target.vector_bytes} bytes"),
        ("caches", f"L1 {level1 >> 10} KiB, L2 {level2 >> 10} KiB, L3 {level3 >> 10} KiB"),
    ):
        table.add_row(name, value)
    return table


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _compiler_lines(console: Console) -> int:
    try:
        for role, path in find_compilers().items():
            console.print(f"[green]found[/]     {role}: {path}")
    except BuildError as error:
        console.print(f"[red]missing[/]   {error}")
        return 1
    return 0


def _limit_lines(console: Console, target: Target) -> int:
    try:
        limits: Limits = machine_limits(target)
    except AnsorcError as error:
        console.print(f"[red]failed[/]    the probes of the limits: {error}")
        return 1
    table = Table("limit (float32)", "one core", f"{target.cores} cores", title="measured limits")
    table.add_row("FMA peak", _giga(limits.fma_one, "FLOP/s"), _giga(limits.fma_all, "FLOP/s"))
    table.add_row("memory read", _giga(limits.read_one, "B/s"), _giga(limits.read_all, "B/s"))
    table.add_row("memory copy", "", _giga(limits.copy_all, "B/s"))
    console.print(table)
    return 0


def _giga(value: float, unit: str) -> str:
    return f"{value / 1e9:.1f} G{unit}"
