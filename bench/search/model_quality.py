"""How well the cost model predicts recorded programs: `python -m bench.search.model_quality`.

The paper's figures are of 25,000 programs, measured while ResNet-50 was tuned, on another machine:
they say what is usual, not what is to be had from other data.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from ansorc.search.cost_model import Float64Array
from ansorc.search.model import Growth
from ansorc.search.model.training import (
    Metrics,
    Predictions,
    TrainingSet,
    metrics,
    predictions,
    random_folds,
    training_set,
)

SPLITS = ("random", "operator", "task")
PAPER = {"RMSE": "0.079", "R²": "0.958", "pairwise": "0.851", "recall@30": "0.624"}
"""The paper's, of a random split."""
_WIDTH = 100


def mean_by_task(
    predicted: Float64Array, actual: Float64Array, tasks: Sequence[str], k: int = 30
) -> Metrics:
    """Return the metrics of the programs of each of `tasks` [programs] alone, on average.

    Tasks with fewer than `k` programs are left out, unless all are so small: to find the k best of
    no more than k is no feat.
    """
    names = np.array(tasks)
    counts = dict(zip(*np.unique(names, return_counts=True), strict=True))
    large = [name for name, count in counts.items() if count >= k]
    found = [
        metrics(predicted[names == name], actual[names == name], k) for name in large or counts
    ]
    return Metrics(
        rmse=fmean(one.rmse for one in found),
        r2=fmean(one.r2 for one in found),
        pairwise=fmean(one.pairwise for one in found),
        recall=fmean(one.recall for one in found),
        peak=fmean(one.peak for one in found),
        k=max(one.k for one in found),
    )


@click.command()
@click.option("--records", "files", required=True, multiple=True, type=click.Path(path_type=Path),
              help="A record file; may be repeated.")  # fmt: skip
@click.option("--split", "splits", multiple=True, type=click.Choice(SPLITS), default=SPLITS,
              help="Unseen: a fifth of the programs, each operator, or each task.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Of the first split and model.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(min=1),
              help="Random splits, each with its model; the table has the medians.")  # fmt: skip
@click.option("--by-task", "k", default=5, show_default=True, type=click.IntRange(min=1),
              help="The programs of one task that recall and peak look at.")  # fmt: skip
@click.option("--trees", default=Growth().trees, show_default=True)
@click.option("--leaves", default=Growth().leaves, show_default=True)
@click.option("--learning-rate", default=Growth().learning_rate, show_default=True)
def main(
    files: tuple[Path, ...], splits: tuple[str, ...], seed: int, seeds: int, k: int, **growth: float
) -> None:
    """Train on a part of the recorded programs and predict the others."""
    data = training_set(files)
    console = Console(width=_WIDTH)
    failed = sum(sample.seconds is None for sample in data.samples)
    console.print(f"{len(data.samples)} programs of {len(data.names)} tasks, {failed} failed, "
                  f"{data.unreadable} unreadable")  # fmt: skip
    for split in splits:
        found = [
            _predicted(data, split, Growth(**growth, seed=each))  # pyright: ignore[reportArgumentType]
            for each in range(seed, seed + (seeds if split == "random" else 1))
        ]
        console.print(_table(split, found, k))


def _predicted(data: TrainingSet, split: str, growth: Growth) -> Predictions:
    if split == "random":
        return predictions(
            data.samples, random_folds(len(data.samples), growth.seed), ["test"], growth
        )
    names = [data.names[sample.task] for sample in data.samples]
    folds = names if split == "task" else [re.split("[-_]", name)[0] for name in names]
    return predictions(data.samples, folds, folds, growth)


def _table(split: str, found: list[Predictions], k: int) -> Table:
    """The metrics of all tested programs together and, of each task alone, their means."""
    table = Table("", "together", "the paper's", f"by task (@{k})", title=_TITLES[split])
    together = [metrics(one.predicted, one.actual) for one in found]
    alone = [mean_by_task(one.predicted, one.actual, one.tasks, k) for one in found]
    for name, field in _FIELDS.items():
        usual = PAPER.get(name, "") if split == "random" else ""
        table.add_row(name, _median(together, field), usual, _median(alone, field))
    table.caption = f"{len(found[0].actual)} programs tested"
    return table


_TITLES = {
    "random": "a random fifth, unseen",
    "operator": "each operator unseen",
    "task": "each task unseen",
}
_FIELDS = {
    "RMSE": "rmse", "R²": "r2", "pairwise": "pairwise", "recall@30": "recall", "peak@30": "peak",
}  # fmt: skip


def _median(found: list[Metrics], field: str) -> str:
    return f"{statistics.median(getattr(one, field) for one in found):.3f}"


if __name__ == "__main__":
    main()
