"""`ansorc run` of a network: check every output against float64, then time each layer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from ansorc.cli.progress import task_progress
from ansorc.cli.tables import new_table
from ansorc.codegen.base import backend_of
from ansorc.codegen.call.call_times import call_times
from ansorc.codegen.call.library import load_library
from ansorc.codegen.call.network_module import CallTime, NetworkModule
from ansorc.codegen.call.network_variants import NetworkVariants
from ansorc.codegen.package.manifest import NetworkManifest, VariantsManifest, read_manifest
from ansorc.errors import MeasureError
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs, compile_network, describe_tuned_share
from ansorc.graph.output_errors import OutputError, OutputErrors
from ansorc.graph.random_inputs import random_inputs
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.search.programs import ProgramChoice
from ansorc.target.units import seconds_text


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
        _require_same_precision(network, library)
        module, origin = loaded, f"built library {library}"
    else:
        programs = choose_programs(network, choice)
        origin = describe_tuned_share(programs)
        with task_progress(len(programs)) as tell:
            module = compile_network(network, programs, on_task=tell)
    inputs = random_inputs(network.source, given)
    checked = check_outputs(network, module, inputs, choice.threads)
    click.echo("\n  ".join((f"{network.source.name}: {origin}", *checked)))
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


def _require_same_precision(network: Network, library: Path) -> None:
    """Raise UsageError if the library was built of the network in another precision."""
    manifest = read_manifest(library)
    built = manifest.networks[0] if isinstance(manifest, VariantsManifest) else manifest
    wanted = network.precision
    if isinstance(built, NetworkManifest) and built.precision != wanted:
        raise click.UsageError(
            f"{library} keeps tensors in {built.precision}, and this command asks for {wanted}: "
            f"give the --precision and --keep that it was built with"
        )


def check_outputs(
    network: Network, module: NetworkModule, inputs: dict[str, Array], threads: int = 0
) -> list[str]:
    """Return lines with the error of each output, and where that of a narrow precision grows.

    Raise MeasureError if one is wrong: a float by more than rounding explains, or an integer or
    bool at all, unless numbers of 16 bits decide about it.
    """
    outputs = OutputErrors(network, inputs)
    errors = outputs.of(module.run(inputs, threads))
    lines: list[str] = []
    for name, found in errors.items():
        kind = network.source.types[name]
        if found.is_right:
            lines.append(f"'{name}' is right: {_error_words(found, kind, network)}")
        elif not kind.dtype.is_float:
            wrong = round(found.error * kind.elements)
            raise MeasureError(f"'{name}' is wrong in {wrong} of {kind.elements} elements")
        else:
            raise MeasureError(
                f"'{name}' is wrong: its largest error is {found.error:.2g} of its largest "
                f"element, {found.allowed:.2g} is allowed"
            )
    if outputs.is_narrow:
        for each in outputs.growth():
            lines.append(
                f"the error grows from {each.before:.2g} to {each.after:.2g} (root mean square) "
                f"in {', '.join(each.nodes)}: {each.kernel}"
            )
    return lines


def _error_words(found: OutputError, kind: TensorType, network: Network) -> str:
    """Return a sentence with the error of a right output.

    Beside it is the error of the same network in float32, or that of quantising it.
    """
    if found.of_quantizing is not None:
        return (
            f"largest error {found.error:.2g} of its largest element for the integers, "
            f"{found.of_quantizing:.2g} for the network that was quantised (float64 references)"
        )
    if found.in_float32 is None:
        return f"largest error {found.error:.2g} of its largest element (float64 reference)"
    precision = network.precision
    if kind.dtype.is_float:
        return (
            f"largest error {found.error:.2g} of its largest element in {precision}, "
            f"{found.in_float32:.2g} in f32 (float64 reference)"
        )
    return (
        f"{found.error:.2%} of its elements are others than float64's in {precision}, "
        f"{found.in_float32:.2%} in f32"
    )


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
