"""`ansorc train`: train a cost model on recorded programs, as the start of tuning runs."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from ansorc.cli.arguments import RECORD_PLACE
from ansorc.cli.tables import new_table
from ansorc.search.model import Growth
from ansorc.search.model.training import (
    Metrics,
    metrics,
    predictions,
    random_folds,
    train_model,
    training_set,
)
from ansorc.search.record import RecordLocation

_ENOUGH_TO_TEST = 50


@click.command()
@click.option("--records", "files", multiple=True, default=("tune.db",), show_default=True,
              type=RECORD_PLACE, help="A record file or database; may be repeated.")  # fmt: skip
@click.option("--output", "-o", default="model.json", show_default=True,
              type=click.Path(path_type=Path), help="The file to write.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed of the split and the trees.")
def train(files: tuple[RecordLocation, ...], output: Path, seed: int) -> None:
    """Train a cost model on all programs of the record files, for `ansorc tune --model`.

    First the quality of such a model is tested on a fifth of the programs that is held out.

    Example:  ansorc train --records tune.db -o model.json
    """
    data, growth = training_set(files), Growth(seed=seed)
    failed = sum(sample.seconds is None for sample in data.samples)
    click.echo(f"{len(data.samples)} programs of {len(data.names)} tasks, {failed} failed")
    if data.unreadable:
        click.echo(f"note: {data.unreadable} records do not fit this program and were left out",
                   err=True)  # fmt: skip
    if len(data.samples) >= _ENOUGH_TO_TEST:
        folds = random_folds(len(data.samples), seed)
        predicted = predictions(data.samples, folds, ["test"], growth)
        _print(metrics(predicted.predicted, predicted.actual), len(predicted.actual))
    else:
        click.echo(f"fewer than {_ENOUGH_TO_TEST}: too few to test how well it predicts")
    train_model(data.samples, growth).save(output)
    click.echo(f"{output}: learned from all of them; use it with: ansorc tune … --model {output}")


def _print(metrics: Metrics, count: int) -> None:
    console = Console()
    table = new_table(console, f"on {count} programs that it had not seen", "", "")
    for name, value in (
        ("RMSE", metrics.rmse),
        ("R²", metrics.r2),
        ("pairwise accuracy", metrics.pairwise),
        (f"recall@{metrics.k}", metrics.recall),
        (f"peak@{metrics.k}", metrics.peak),
    ):
        table.add_row(name, f"{value:.3f}")
    console.print(table)
