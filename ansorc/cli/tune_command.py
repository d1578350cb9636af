"""`ansorc tune`: find a fast program for a workload, on this machine or on a fleet."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import click

from ansorc.cli.arguments import TaskOrNetworks, networks_of, same_workloads, takes_workloads
from ansorc.cli.exit_codes import INTERRUPTED
from ansorc.cli.fleet_command import fleet_words, in_flight, takes_fleet
from ansorc.cli.network_tuning import tune_networks_showing
from ansorc.cli.no_device import takes_no_device
from ansorc.cli.profile_table import print_profile, profile_search
from ansorc.cli.progress import Progress
from ansorc.cli.result_table import print_table
from ansorc.cli.spent_line import contest_line, spent_line
from ansorc.cli.tune_arguments import live_page, takes_tune_options
from ansorc.codegen.base import backend_of
from ansorc.errors import MeasureError
from ansorc.search.live_line import minutes
from ansorc.search.options import Scheduling
from ansorc.search.programs import require_this_machine
from ansorc.search.task import Task
from ansorc.search.tune import TuneResult, tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tune_result import RunProgress


@click.command()
@takes_fleet
@takes_workloads
@takes_no_device
@takes_tune_options
def tune(workloads: list[TaskOrNetworks], options: TuneOptions, scheduling: Scheduling) -> None:
    """Find a fast program for each workload, and record every measurement.

    A second run with the same record file continues where the first one stopped. Ctrl-C ends the
    run with the best programs saved. Networks are tuned together: the trials go to those kernels
    where they are expected to pay.

    Example:  ansorc tune gemm.py:matmul --trials 200
    """
    with _ends_in_words(options):
        _tune_all(workloads, options, scheduling)


@contextmanager
def _ends_in_words(options: TuneOptions) -> Generator[None]:
    """End the run as Ctrl-C does if the terminal goes away; print a note if output is closed.

    A process that ignores SIGHUP, as under nohup, goes on.
    """
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        yield
    except (BrokenPipeError, SystemExit) as error:  # as which tables end
        raise MeasureError(
            "nobody reads the output any more, so tuning ended; what was measured is saved; "
            f"go on with: ansorc tune {_same_run(options)}"
        ) from error
    finally:
        signal.signal(signal.SIGHUP, before)


def _tune_all(
    workloads: list[TaskOrNetworks], options: TuneOptions, scheduling: Scheduling
) -> None:
    require = options.measurer.require if options.measurer else require_this_machine
    for workload in workloads:
        require(workload.target, options.cache)
    networks = networks_of(workloads)
    if networks and any(isinstance(entry, Task) for entry in workloads):
        raise click.UsageError("tune networks together, or operators, but not both")
    if networks:
        tune_networks_showing(networks, options, scheduling)
    names = click.get_current_context().params["workloads"]
    for name, task in zip(names, workloads, strict=True):
        if isinstance(task, Task):
            _tune_operator(name, task, options)


def _tune_operator(name: str, task: Task, options: TuneOptions) -> None:
    """Tune the operator `name` of the command line; show the progress and the result."""
    threads = options.threads or task.target.cores
    peak_now: Callable[[], float] = float  # of a fleet's devices it is not known
    if options.measurer is None:
        probe = backend_of(task.target).probes.peak(task.target, threads)
        peak_now = partial(probe.best, 1)  # once before and once after the run
    peak = peak_now()
    words = f"peak {peak / 1e9:.0f} GFLOP/s, " if peak else ""
    click.echo(f"{task.name}: {task.dag.flops / 1e9:.4g} GFLOP a call, target {task.target.text}, "
               f"{words}seed {options.seed}", err=True)  # fmt: skip
    with (
        live_page(options.records, [task]) as live,
        Progress(task.name, task.dag.flops, peak, in_flight(options)) as progress,
    ):

        def tell(trial: RunProgress) -> None:
            progress(trial)
            if live is not None:
                live.update()

        with profile_search() as profile:
            result = tune_task(task, options, tell)
    _tell(result, options)
    print_profile(profile, [result.spent])
    if result.interrupted:
        _show(name, result, options, peak)
        click.echo(f"interrupted; go on with: ansorc tune {_same_run(options)}")
        click.get_current_context().exit(INTERRUPTED)
    if result.best is None:
        raise MeasureError(f"no program of '{task.name}' could be measured: {result.hint}")
    _show(name, result, options, max(peak, peak_now()))


def _same_run(options: TuneOptions) -> str:
    """Return the arguments that continue this run."""
    ablation = click.get_current_context().params["ablation"]
    words = f"{same_workloads()}{fleet_words()} --trials {options.trials}"
    return f"{words} --ablation {ablation}" if ablation else words


def _show(name: str, result: TuneResult, options: TuneOptions, peak: float) -> None:
    """Print the final table, if there are results, and how to build the best program."""
    if result.best is None:
        return
    print_table(result, peak, with_numpy=not (result.interrupted or options.measurer))
    if packed := result.packed_before:
        click.echo(f"{', '.join(packed)}: packed once before the calls, which is not in the times")
    if result.threads:
        click.echo(f"it is the fastest on {result.threads} threads, which it is built for")
    if line := contest_line(result):
        click.echo(line)
    click.echo(f"records: {options.records} ({result.trials} programs)")
    click.echo(f"build it with: ansorc build {same_workloads(name)}")


def _tell(result: TuneResult, options: TuneOptions) -> None:
    """Print a summary of the run."""
    if result.exhausted:
        click.echo(f"space exhausted: all programs are measured ({result.trials})", err=True)
    elif not result.measured_now and not result.interrupted:
        held = f"{options.records} has {result.trials} of {options.trials} programs"
        click.echo(f"nothing to do: {held}; --trials {2 * result.trials} measures more", err=True)
    else:
        words = f"measured {result.measured_now} programs in {minutes(result.elapsed_s)}"
        click.echo(words, err=True)
        click.echo(spent_line(result.spent), err=True)
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
