"""Arguments of `ansorc tune`: how much to measure, what to keep, and what scores programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, cast

import click

from ansorc.cli.arguments import TaskOrNetwork, takes_records
from ansorc.search.model import NAMES, TreeModel
from ansorc.search.options import ABLATIONS, DEFAULTS
from ansorc.search.tune_options import TuneOptions, TuneSettings


def takes_tune_options(
    command: Callable[[TaskOrNetwork, TuneOptions], None],
) -> Callable[..., None]:
    """Add the options of a tuning run to a command, which gets them as one value."""

    @takes_records
    @click.option("--trials", default=200, show_default=True, type=click.IntRange(min=1),
                  help="Programs to measure in all; those in the record file count.")  # fmt: skip
    @click.option("--time-budget", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
                  help="Stop after so long.")  # fmt: skip
    @click.option("--seed", default=0, show_default=True, help="Seed of all random choices.")
    @click.option("--cost-model", default=NAMES[0], show_default=True, type=click.Choice(NAMES),
                  help="What chooses the programs to measure.")  # fmt: skip
    @click.option("--model", type=click.Path(path_type=Path), metavar="FILE",
                  help="Begin with this cost model, made by `ansorc train`.")  # fmt: skip
    @click.option("--ablation", type=click.Choice(list(ABLATIONS)),
                  help="Search without one of its parts, for comparison.")  # fmt: skip
    @wraps(command)
    def with_options(workload: TaskOrNetwork, ablation: str | None, **given: Any) -> None:
        path: Path | None = given.pop("model")
        if path is not None:
            given["cost_model"] = _pretrained(path, given["cost_model"], given["seed"])
        options = TuneOptions.of(cast(TuneSettings, given))
        command(workload, options if ablation is None else _without(ablation, options))

    return with_options


def _without(ablation: str, options: TuneOptions) -> TuneOptions:
    """The options with the search of `ablation`, but for a cost model that was asked for."""
    search, asked = ABLATIONS[ablation], options.search.cost_model
    if asked != DEFAULTS.cost_model:
        search = replace(search, cost_model=asked)
    return replace(options, search=search)


def _pretrained(path: Path, name: str, seed: int) -> TreeModel:
    if name != "trees":
        raise click.UsageError(f"--model FILE holds trees; leave out --cost-model {name}")
    return TreeModel.load(path, seed)
