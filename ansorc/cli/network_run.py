"""`ansorc run` of a network: check every output against float64, then time each layer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click
import numpy as np
from rich.console import Console

from ansorc.cli.progress import task_progress
from ansorc.cli.tables import new_table
from ansorc.codegen.base import backend_of
from ansorc.codegen.call.call_times import call_times
from ansorc.codegen.call.library import load_library
from ansorc.codegen.call.network_module import CallTime, NetworkModule
from ansorc.codegen.call.network_variants import NetworkVariants
from ansorc.errors import MeasureError
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs, compile_network, describe_tuned_share
from ansorc.graph.random_inputs import random_inputs
from ansorc.ir.aligned import Array
from ansorc.search.programs import ProgramChoice
from ansorc.target.units import seconds_text

_TOLERANCE = 1e-4
"""The tolerance, as a share of the largest element: float32 rounding in a deep network."""


def run_network(
    network: Network,
    choice: ProgramChoice,
    library: Path | None,
    given: Mapping[str, Array],
    *,
    verify: bool = False,
) -> None:
    """Check the network on random or `given` inputs, then print its time and that of its kernels.

    With `verify`, every byte of a `library` is compared with its manifest.
    """
    if library is not None:
        loaded = load_library(library, verify=verify)
        if isinstance(loaded, NetworkVariants):
            loaded = loaded.module_for(*random_inputs(network.source).values())
        if not isinstance(loaded, NetworkModule):
            raise click.UsageError(f"{library} is a kernel, no network")
        module, origin = loaded, f"built library {library}"
    else:
        programs = choose_programs(network, choice)
        origin = describe_tuned_share(programs)
        with task_progress(len(programs)) as tell:
            module = compile_network(network, programs, on_task=tell)
    inputs = random_inputs(network.source, given)
    errors = check_outputs(network, module, inputs, choice.threads)
    click.echo(f"{network.source.name}: {origin}")
    for name, error in errors.items():
        click.echo(f"  '{name}' is right: largest error {error:.2g} of its largest element "
                   "(float64 reference)")  # fmt: skip
    if backend_of(network.target).capabilities(network.target).is_emulated:
        click.echo(f"  {len(module.call_names)} calls of kernels, emulated on this CPU: times say "
                   "nothing about a GPU")  # fmt: skip
        return
    arrays = list(inputs.values())
    timing = module.time(*arrays, threads=choice.threads, min_time_s=1.0)
    flops = sum(task.dag.flops for _, task in network.task_of)
    peak = backend_of(network.target).probes.peak(
        network.target, choice.threads or network.target.real.cores
    ).best()  # fmt: skip
    click.echo(f"  {timing}, {flops / timing.median_s / 1e9:.1f} GFLOP/s, "
               f"{flops / timing.median_s / peak:.0%} of the FMA peak")  # fmt: skip
    click.echo(
        f"  from Python: {call_times(partial(module, *arrays, threads=choice.threads), 0.5)}"
    )
    _print_layers(network, module.profile(*arrays, threads=choice.threads), peak)


def check_outputs(
    network: Network, module: NetworkModule, inputs: dict[str, Array], threads: int = 0
) -> dict[str, float]:
    """Return the error of each output, as a share of its largest element.

    Raise MeasureError if one is wrong: a float by more than float32 rounding explains, or an
    integer or bool at all.
    """
    expected = run_reference(network.source, inputs)
    results = module.run(inputs, threads)
    errors: dict[str, float] = {}
    for name, reference in expected.items():
        result = results[name]
        if not np.issubdtype(reference.dtype, np.floating):
            wrong = int(np.count_nonzero(result != reference))
            if wrong:
                raise MeasureError(f"'{name}' is wrong in {wrong} of {reference.size} elements")
            errors[name] = 0.0
            continue
        largest = float(np.max(np.abs(reference[np.isfinite(reference)]), initial=1e-30))
        same = (result == reference) | (np.isnan(result) & np.isnan(reference))
        with np.errstate(invalid="ignore"):
            difference = np.where(same, 0.0, np.abs(result - reference))
        errors[name] = float(np.max(difference)) / largest
        if not errors[name] <= _TOLERANCE:
            raise MeasureError(
                f"'{name}' is wrong: its largest error is {errors[name]:.2g} of its largest "
                f"element, {_TOLERANCE:g} is allowed"
            )
    return errors


def _print_layers(network: Network, times: list[CallTime], peak: float) -> None:
    """Print the time of each kernel, the slowest first, with its share of the machine's limit."""
    console = Console()
    table = new_table(
        console,
        "kernels, the slowest first",
        "kernel",
        "time",
        "share",
        "GFLOP/s",
        "of peak",
        "result",
    )
    total = sum(time.seconds for time in times)
    pairs = zip(network.task_of, times, strict=True)
    for (group, task), time in sorted(pairs, key=lambda pair: -pair[1].seconds):
        rate = task.dag.flops / time.seconds if time.seconds else 0.0
        kinds = ", ".join(str(network.graph.types[name]) for name in group.outputs)
        table.add_row(
            time.name, seconds_text(time.seconds), f"{time.seconds / total:.1%}",
            f"{rate / 1e9:.1f}", f"{rate / peak:.0%}", kinds,
        )  # fmt: skip
    console.print(table)
