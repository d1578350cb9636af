"""The limited space holds none of the structures that templates written by hand do not have."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.lang import ComputeDAG
from ansorc.schedule import lower, replay
from ansorc.schedule.state import Step
from ansorc.schedule.steps import CacheRead, CacheWrite, RewriteLayout, RFactor
from ansorc.search.evolution.sampling import sample
from ansorc.search.options import ABLATIONS, DEFAULTS, LIMITED_SPACE, NO_DEFAULT, SearchOptions
from ansorc.search.space import Space, design_space, steps, tiles
from tests.search.workloads import ZEN, convolution, matmul

DAGS = {
    "matmul": matmul(64, 96, 128),
    "long sum": matmul(4, 8, 8192),
    "convolution": convolution(14, 32, 1, constant=True),
}


def kinds(space: Space) -> set[type[Step]]:
    return {type(step) for sketch in space.sketches for step in sketch.steps}


def test_the_full_space_has_what_is_left_out() -> None:
    found = set[type[Step]]().union(*(kinds(design_space(dag, ZEN)) for dag in DAGS.values()))
    assert {CacheWrite, CacheRead} <= found
    assert RFactor in found or ZEN.cores == 1, "shares of a sum are for several cores"
    assert len(design_space(DAGS["convolution"], ZEN).sketches) > 1


@pytest.mark.parametrize("name", DAGS)
def test_the_limited_space_has_one_structure(name: str) -> None:
    space = design_space(DAGS[name], ZEN, LIMITED_SPACE)
    assert len(space.sketches) == 1
    assert not kinds(space) & {CacheWrite, CacheRead, RFactor}
    assert (RewriteLayout in kinds(space)) == (name == "convolution")


@pytest.mark.parametrize("name", DAGS)
def test_its_tiles_have_two_levels_and_are_small(name: str) -> None:
    (sketch,) = design_space(DAGS[name], ZEN, LIMITED_SPACE).sketches
    genes = sample(sketch, 200, np.random.default_rng(0), LIMITED_SPACE)
    lengths = tiles(sketch, genes)
    assert lengths
    for variable in sketch.variables:
        if variable.stage != sketch.dag.outputs[0].name:
            continue  # a padding, whose rows many cores share in pieces
        chosen = lengths[variable.name]
        assert chosen.shape == (200, 2)
        assert (chosen.prod(axis=1) == variable.extent).all(), "no tails"
        assert chosen[:, 1].max() <= 16
    lower(replay(sketch.dag, steps(sketch, genes[0])))


@pytest.mark.parametrize("options", [DEFAULTS, *ABLATIONS.values()])
def test_every_ablation_has_a_space_to_search(options: SearchOptions) -> None:
    dag: ComputeDAG = DAGS["matmul"]
    space = design_space(dag, ZEN, options)
    sketch = space.sketches[-1]
    row = sample(sketch, 1, np.random.default_rng(0), options)[0]
    lower(replay(dag, steps(sketch, row)))


def test_only_the_limited_variant_is_limited() -> None:
    full = {sketch.steps for sketch in design_space(DAGS["matmul"], ZEN).sketches}
    same = {sketch.steps for sketch in design_space(DAGS["matmul"], ZEN, NO_DEFAULT).sketches}
    limited = {s.steps for s in design_space(DAGS["matmul"], ZEN, LIMITED_SPACE).sketches}
    assert full == same
    assert not full & limited
