"""`ansorc doctor`: the detected machine, its limits, and missing extras."""

from __future__ import annotations

import platform
from importlib import metadata, util

import click
from rich.console import Console
from rich.markup import escape

from ansorc.cli.tables import new_table
from ansorc.codegen.base import backend_of
from ansorc.codegen.package.toolchain import find_toolchain
from ansorc.errors import AnsorcError, BuildError
from ansorc.target import Target, cpu_model, detect

_EXTRAS = {
    "lightgbm": ("learned cost models", "pip install lightgbm"),
    "cuda": ("CUDA targets", "pip install 'ansorc[cuda]'"),
    "pycuda": ("GPUs of this machine", "pip install 'ansorc[gpu]'"),
    "vl_convert": ("reports", "pip install 'ansorc[report]'"),
    "matplotlib": ("charts of benchmarks", "pip install 'ansorc[bench]'"),
}


@click.command()
@click.option("--no-limits", is_flag=True, help="Leave out the measured limits (3 to 12 s).")
def doctor(*, no_limits: bool) -> None:
    """Show what was detected here: CPU, caches, limits, compilers and missing extras.

    Example:  ansorc doctor --no-limits
    """
    console = Console(soft_wrap=True)
    target = detect()
    _print_machine(console, target)
    problems = _compiler_lines(console, target)
    for module, (purpose, cure) in _EXTRAS.items():
        if util.find_spec(module) is None:
            console.print(f"[yellow]optional[/]  {module} is missing, which {purpose} need; "
                          f"{escape(cure)}")  # fmt: skip
    if not no_limits:
        problems += _limit_lines(console, target)
    if problems:
        raise AnsorcError(f"{problems} problem(s) found; see above")
    console.print("[green]ready[/]")


def _print_machine(console: Console, target: Target) -> None:
    table = new_table(console, "this machine")
    level1, level2, level3 = target.cache_bytes
    for name, value in (
        ("ansorc", metadata.version("ansorc")),
        ("python", platform.python_version()),
        ("cpu", cpu_model()),
        ("target", target.text),
        ("cores to use", str(target.cores)),
        ("features", " ".join(target.features)),
        ("vectors", f"{target.vector_registers} registers of {target.vector_bytes} bytes"),
        ("caches", f"L1 {level1 >> 10} KiB, L2 {level2 >> 10} KiB, L3 {level3 >> 10} KiB"),
    ):
        table.add_row(name, value)
    console.print(table, soft_wrap=False)


def _compiler_lines(console: Console, target: Target) -> int:
    try:
        tools = find_toolchain(target)
    except BuildError as error:
        console.print(f"[red]missing[/]   {escape(str(error))}")
        return 1
    for role, command in (("C", tools.cc), ("C++", tools.cxx), ("archiver", tools.ar)):
        console.print(f"[green]found[/]     {role}: {escape(' '.join(command))}")
    return 0


def _limit_lines(console: Console, target: Target) -> int:
    try:
        limits = backend_of(target).probes.limits(target)
    except AnsorcError as error:
        console.print(f"[red]failed[/]    the probes of the limits: {escape(str(error))}")
        return 1
    cores = f"{target.cores} cores"
    table = new_table(console, "measured limits", "limit (float32)", "one core", cores)
    table.add_row("FMA peak", _giga(limits.fma_one, "FLOP/s"), _giga(limits.fma_all, "FLOP/s"))
    table.add_row("memory read", _giga(limits.read_one, "B/s"), _giga(limits.read_all, "B/s"))
    table.add_row("memory copy", "", _giga(limits.copy_all, "B/s"))
    console.print(table)
    return 0


def _giga(value: float, unit: str) -> str:
    return f"{value / 1e9:.1f} G{unit}"
