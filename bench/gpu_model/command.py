"""`python -m bench gpu_model`: the model of a GPU against kernels that others have measured."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ansorc.errors import AnsorcError
from bench.gpu_model.data import FIRST, Measured, Quality, random_share
from bench.gpu_model.gemm import Floats
from bench.gpu_model.predict import corrected, modelled, naive


@click.command("gpu_model")
@click.option("--data", required=True, type=click.Path(path_type=Path, exists=True),
              help="A table of measured kernels: FILE.csv or FILE.csv.gz.")  # fmt: skip
@click.option("--gpu", required=True, help="The GPU that they were measured on.")
@click.option("--train", multiple=True, metavar="GPU=FILE",
              help="Kernels of this kind on another GPU, for trees; several times.")  # fmt: skip
def gpu_model(*, data: Path, gpu: str, train: tuple[str, ...]) -> None:
    """Rank kernels that others have measured by the model of their GPU."""
    try:
        measured = Measured.read(data, gpu)
        others = [_other(each, measured) for each in train]
    except (AnsorcError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    found: dict[str, Floats] = {"naive": naive(measured), "model": modelled(measured)}
    if others:
        words = ", ".join(each.gpu.name for each in others)
        found[f"model, corrected by trees from {words}"] = corrected(others, measured)
    table = Table(title=f"{measured.name}: {len(measured.seconds)} kernels on {measured.gpu.name}")
    for heading in ("order", "Spearman", f"best of the first {FIRST}, of the best"):
        table.add_column(heading)
    for name, predicted in found.items():
        quality = Quality.of(predicted, measured.seconds)
        table.add_row(name, f"{quality.spearman:.3f}", f"{quality.best_of_first:.3f}")
    table.add_row(f"{FIRST} random ones", "", f"{random_share(measured.seconds):.3f}")
    Console(width=100).print(table)


def _other(text: str, measured: Measured) -> Measured:
    gpu, _, path = text.partition("=")
    if not path:
        raise ValueError(f"'{text}' is not GPU=FILE")
    other = Measured.read(Path(path), gpu)
    if other.family != measured.family:
        raise ValueError(f"{path} has kernels of another kind than {measured.name}")
    if other.gpu.name == measured.gpu.name:
        raise ValueError(f"{path} is of the same GPU, {other.gpu.name}: it would give the answer")
    return other
