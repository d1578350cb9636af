"""`python -m bench`: ansorc side by side with other libraries and compilers."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import cast

import click
from rich.console import Console

from ansorc.compare.side import Gap
from ansorc.errors import AnsorcError
from ansorc.search.options import Scheduling
from ansorc.target import detect
from ansorc.target.units import seconds_text
from bench.compare.case_run import Plan
from bench.compare.result import CaseResult, Results
from bench.compare.suite import Suite, chosen_cases, chosen_peers
from bench.compare.table import print_cases, print_gaps, print_means, print_tuning
from bench.onnx_nodes import run as run_onnx_nodes
from bench.search.scheduling import allocation_table, compared, recorded_tasks, schedule_table

_QUICK_CASES = "C2D-3-b1,GMM-3-b1,DEP-1-b1,T2D-2-b1,ConvLayer-2-b1,TBS-1-b1"
_QUICK_TRIALS = 48
_INTERRUPTED = 130
_PIPED_WIDTH = 140
_CALM_LOAD = 0.5

takes_results = click.option(
    "--results", default="out/bench", show_default=True, type=click.Path(path_type=Path),
    help="Directory of results and records; a run goes on with what it holds.")  # fmt: skip


_MODULES = {
    "fleet": "bench.fleet.command",
    "fleet_alike": "bench.fleet.alike",
    "fleet_faults": "bench.fleet.faults_command",
    "fleet_in_flight": "bench.fleet.in_flight",
    "gaps": "bench.gaps.command",
    "gpu": "bench.gpu.command",
    "gpu_model": "bench.gpu_model.command",
    "gpu_samples": "bench.gpu.samples",
    "networks": "bench.networks.compare",
    "operators": "bench.operators.command",
    "pipelines": "bench.pipelines.command",
    "pretrained": "bench.networks.pretrained",
    "torch_compile": "bench.networks.torch_networks",
}
"""Where the other commands are: imported when called, so that none needs another's packages."""


class _CommandsByModule(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_MODULES])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return super().get_command(ctx, cmd_name)
        try:
            return cast("click.Command", getattr(import_module(_MODULES[cmd_name]), cmd_name))
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("", "ansorc", "bench"):
                raise
            return _lacking(cmd_name, f"it needs {error.name}; pip install -e '.[bench]'")


def _lacking(name: str, what: str) -> click.Command:
    def fail() -> None:
        raise click.ClickException(what)

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, callback=fail, help=what, context_settings=settings)


@click.group(cls=_CommandsByModule)
def main() -> None:
    """Time ansorc and its peers on the workloads of the paper, in turns."""


@main.command()
@click.option("--cases", default="all", show_default=True,
              help="Operators or cases: c2d,gmm-3-b1.")  # fmt: skip
@click.option("--peers", default="all", show_default=True, help="Peers, comma-separated.")
@click.option("--trials", default=200, show_default=True, type=click.IntRange(min=1),
              help="Programs a case that each tuning side may measure.")  # fmt: skip
@click.option("--threads", default=0, type=click.IntRange(min=0), help="0: all cores.")
@click.option("--again", is_flag=True, help="Time also what is held; it is not tuned again.")
@takes_results
def run(*, cases: str, peers: str, trials: int, threads: int, again: bool, results: Path) -> None:
    """Compare on cases of the paper; Ctrl-C at any time, the same command goes on."""
    _compare(cases, peers, Plan(threads or detect().cores, trials, results), again=again)


@main.command()
@click.option("--threads", default=0, type=click.IntRange(min=0), help="0: all cores.")
@click.option("--results", default="out/quick", show_default=True,
              type=click.Path(path_type=Path), help="Where the results go.")  # fmt: skip
def quick(*, threads: int, results: Path) -> None:
    """Compare with PyTorch and NumPy on six cases, in less than five minutes."""
    plan = Plan(threads or detect().cores, _QUICK_TRIALS, results)
    _compare(_QUICK_CASES, "torch,numpy", plan, again=False)


@main.command()
@takes_results
def chart(*, results: Path) -> None:
    """Draw the paper's Figures 6 and 8 of what RESULTS holds, as SVG and PNG."""
    try:
        from bench.compare.chart import draw  # noqa: PLC0415 - nothing else needs matplotlib
    except ImportError as error:
        raise click.ClickException(f"{error}; pip install -e '.[bench]'") from error
    held = _read(results)
    for threads in sorted({case.threads for case in held.cases.values()}):
        for path in draw(held.of_threads(threads), held.machine, threads, results):
            click.echo(path)


@main.command()
@takes_results
def show(*, results: Path) -> None:
    """Print the tables of what RESULTS holds."""
    held = _read(results)
    for threads in sorted({case.threads for case in held.cases.values()}):
        click.echo(f"{held.machine['cpu']}, {threads} of {held.machine['cores']} cores")
        _print(held.of_threads(threads))


@main.command("onnx_nodes")
@click.option("--tests", default="", help="Only tests whose names match this regular expression.")
@click.option("--processes", default=2, show_default=True, type=click.IntRange(min=1))
@click.option("--build", is_flag=True, help="Run machine code, not the reference in float64.")
def onnx_nodes(*, tests: str, processes: int, build: bool) -> None:
    """Import and run the node tests of the package `onnx`; print what is not right."""
    run_onnx_nodes(tests, processes, is_built=build)


@main.command()
@click.option("--records", required=True, type=click.Path(path_type=Path, exists=True),
              help="A record file of an earlier tuning of several tasks.")  # fmt: skip
@click.option("--trials", default=0, show_default=True, help="Of all tasks; 0: half of all.")
@click.option("--weights", default="", metavar="TASK=N[,…]", help="Others appear once.")
@click.option("--seed", default=0, show_default=True)
def schedule(*, records: Path, trials: int, weights: str, seed: int) -> None:
    """Share out trials of recorded tasks by each strategy, without measuring anything."""
    pairs = [each.rpartition("=") for each in weights.split(",") if each]
    try:
        tasks = recorded_tasks(records, {name: float(number) for name, _, number in pairs})
    except (ValueError, AnsorcError) as error:
        raise click.ClickException(str(error)) from error
    if not tasks:
        raise click.ClickException(f"{records} has no task with a program that works")
    wanted = trials or sum(task.trials for task in tasks) // 2
    found = compared(tasks, Scheduling(), wanted, seed)
    console = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    console.print(allocation_table(tasks, found))
    console.print(schedule_table(found, wanted))


def _compare(cases: str, peers: str, plan: Plan, *, again: bool) -> None:
    console = Console(stderr=True)
    held: list[CaseResult] = []
    if (load := os.getloadavg()[0]) > _CALM_LOAD * detect().cores:
        console.print(
            f"the machine is busy (load {load:.1f} on {detect().cores} cores): sides whose threads "
            "wait for each other will look far slower than they are"
        )
    try:
        chosen, sides = chosen_cases(cases), chosen_peers(peers)
        with console.status("") as status:
            suite = Suite(sides, plan, status.update)

            def done(case: CaseResult) -> None:
                held.append(case)
                console.print(_line(case, len(held), len(chosen)), highlight=False)

            suite.run(chosen, done, again=again)
    except KeyboardInterrupt:
        _print(held)
        click.echo("interrupted; the same command goes on")
        raise SystemExit(_INTERRUPTED) from None
    except (ValueError, AnsorcError, Gap) as error:
        raise click.ClickException(str(error)) from error
    _print(held)
    click.echo(f"results: {plan.directory}; draw them with: python -m bench chart "
               f"--results {plan.directory}")  # fmt: skip


def _line(case: CaseResult, number: int, total: int) -> str:
    seconds, best, share = case.seconds("ansorc"), case.best_peer(), case.share("ansorc")
    words = f"[{number}/{total}] {case.case}: "
    words += seconds_text(seconds) if seconds else f"gap: {case.sides['ansorc'].gap}"
    if best and (ratio := case.ratio(best)):
        words += f", {ratio:.2f} × {best}"
    return words + (f", {share:.0%} of the {case.limit}" if share else "")


def _print(cases: list[CaseResult]) -> None:
    if not cases:
        return
    console = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    peers = list(dict.fromkeys(
        name for case in cases for name in case.sides if name != "ansorc"))  # fmt: skip
    print_cases(console, cases, peers)
    print_means(console, cases, peers)
    print_gaps(console, cases)
    print_tuning(console, cases)


def _read(directory: Path) -> Results:
    try:
        held = Results.read(directory)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if held is None or not held.cases:
        raise click.ClickException(
            f"{directory} holds no results; make some with: python -m bench run"
        )
    return held


if __name__ == "__main__":
    main(prog_name="python -m bench")
