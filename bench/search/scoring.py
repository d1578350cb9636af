"""Programs that the search scores in a second, by phase: `python -m bench.search.scoring [WHAT …]`.

WHAT is FILE:WORKLOAD or a case of the paper such as C2D-3-b1; the default are a matrix product and
a convolution with batch norm and ReLU. Every sketch of the design space gets ROWS programs, once
drawn and once mutated, and scored by trees that were trained on made-up times. Microseconds for a
program, by the processor time of this thread; the least of several rounds.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from cProfile import Profile
from pstats import Stats
from typing import TypeVar, cast

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from ansorc.lang.dag import ComputeDAG
from ansorc.search.cost_model import CostModel, Sample
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.features import estimate_cycles
from ansorc.search.model import TreeModel
from ansorc.search.space import Space, design_space, extract, phenotype_keys
from ansorc.target import Target, detect
from bench.build_cost import definition

Value = TypeVar("Value")
_Timed = dict[tuple[str, int, str], tuple[int, int, float, float, object]]
"""What a profile holds: for each function the calls and seconds, the last with those within."""

WORKLOADS = ("GMM-3-b1", "runtime/examples/operators.py:conv2d_bn_relu")
PHASES = ("draw", "mutate", "keys", "features", "model")
ROUNDS = 7
TRAINED = 1024
"""Programs that the trees learn from, as after a long tuning run."""
PARTS = {
    "replay of the steps": ("population_state",),
    "loops": ("nest", "loop_features"),
    "operations": ("operation_counts", "operation_features"),
    "accesses": ("accesses_of", "in_panels", "places_of"),
    "tile and registers": ("vectors_of", "tile_of", "register_features"),
    "caches": ("levels_of", "cache_features"),
    "estimate": ("estimate_features",),
    "buffers": ("buffer_features", "largest_first"),
}
"""The functions that make up the features; what is left stacks their results."""


def least(act: Callable[[], Value]) -> tuple[float, Value]:
    """Return the least processor seconds of some runs of `act`, and its result."""
    result, spent = act(), float("inf")
    for _ in range(ROUNDS):
        start = time.thread_time()
        result = act()
        spent = min(spent, time.thread_time() - start)
    return spent, result


def trained(space: Space, rng: np.random.Generator) -> CostModel:
    """Return trees that were trained on the estimates of random programs, disturbed."""
    samples: list[Sample] = []
    share = -(-TRAINED // len(space.sketches))
    for sketch in space.sketches:
        for row in extract(sketch, sample(sketch, share, rng), space.target):
            seconds = float(np.sum(estimate_cycles(row)) * 1e-9 * np.exp(rng.normal(0, 0.3)))
            samples.append(Sample("made up", row, seconds))
    model = TreeModel()
    model.update(samples)
    return model


def phases(space: Space, model: CostModel, rows: int) -> dict[str, float]:
    """Return the microseconds of each phase for one program, over all sketches."""
    rng = np.random.default_rng(0)
    spent: dict[str, float] = defaultdict(float)
    for sketch in space.sketches:
        drawing, genes = least(lambda s=sketch: sample(s, rows, rng))
        mutating, genes = least(lambda s=sketch, g=genes: mutate(s, g, rng))
        naming, _ = least(lambda s=sketch, g=genes: phenotype_keys(s, g))
        describing, features = least(lambda s=sketch, g=genes: extract(s, g, space.target))
        scoring, _ = least(lambda f=features: model.predict(f))
        for phase, seconds in zip(
            PHASES, (drawing, mutating, naming, describing, scoring), strict=True
        ):
            spent[phase] += seconds * 1e6 / (rows * len(space.sketches))
    return spent


def parts(space: Space, rows: int) -> dict[str, float]:
    """Return the share of each of PARTS in the time of the features, under a profiler."""
    profile = Profile(time.thread_time)
    rng = np.random.default_rng(0)
    for sketch in space.sketches:
        genes = sample(sketch, rows, rng)
        profile.runcall(extract, sketch, genes, space.target)
    found: dict[str, float] = defaultdict(float)
    known = {name: part for part, names in PARTS.items() for name in names}
    spent = vars(Stats(profile))
    timed, whole = cast(_Timed, spent["stats"]), cast(float, spent["total_tt"])
    for (path, _, name), (_, _, _, within, _) in timed.items():
        if name in known and "search" in path:
            found[known[name]] += within
    found["stacking"] = whole - sum(found.values())
    return {part: found[part] / whole for part in (*PARTS, "stacking")}


def report(dags: dict[str, ComputeDAG], target: Target, rows: int) -> tuple[Table, Table]:
    """Return the table of the phases and that of the parts of the features."""
    title = f"microseconds a program, {rows} rows of each sketch"
    whole = Table(title, "sketches", *PHASES, "drawn/s", "mutated/s")
    inside = Table("share of the features", *PARTS, "stacking")
    for name, dag in dags.items():
        space = design_space(dag, target)
        model = trained(space, np.random.default_rng(0))
        spent = phases(space, model, rows)
        scored = spent["keys"] + spent["features"] + spent["model"]
        cells = [f"{spent[phase]:.2f}" for phase in PHASES]
        cells += [f"{1e6 / (spent[first] + scored):,.0f}" for first in ("draw", "mutate")]
        whole.add_row(name, str(len(space.sketches)), *cells)
        inside.add_row(name, *(f"{share:.0%}" for share in parts(space, rows).values()))
    return whole, inside


@click.command()
@click.argument("names", nargs=-1, metavar="[WHAT …]")
@click.option("--rows", default=2048, show_default=True, help="Programs of each sketch.")
@click.option("--target", "text", default="native", show_default=True)
def main(names: tuple[str, ...], rows: int, text: str) -> None:
    """Print what scoring a program costs, by phase, and what its features consist of."""
    target = detect() if text == "native" else Target.parse(text)
    dags = {what.rpartition(":")[2]: definition(what) for what in names or WORKLOADS}
    for table in report(dags, target, rows):
        Console(width=150).print(table)


if __name__ == "__main__":
    main()
