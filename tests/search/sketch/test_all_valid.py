"""Random genotypes of the paper's operators: every one of them replays, lowers and verifies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ansorc.ir.verify import verify
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Step, lower, replay
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate, uniform_crossover
from ansorc.search.options import DEFAULTS, PAPER, SearchOptions
from ansorc.search.space import design_space, steps
from bench.paper_cases import SHAPES, Case
from tests.support.assumed import machine
from tests.support.nightly import sampled

TARGET = machine("x86_64-linux-gnu -mcpu=znver4 -cores=2")
SMALL = {"C2D": 3, "C3D": 3, "GRP": 3, "DIL": 3, "ConvLayer": 4}
"""The shapes that are drawn from, where it is not the first: those with a padding."""
FEW = replace(PAPER, max_locations=16)
FAST, MANY = 8, 10_000


def genotypes(dag: ComputeDAG, count: int, options: SearchOptions) -> Iterator[tuple[Step, ...]]:
    """Programs of all sketches in turn: a third each drawn, mutated and crossed."""
    rng = np.random.default_rng(count)
    sketches = design_space(dag, TARGET, options).sketches
    rows = -(-count // (3 * len(sketches)))
    left = count
    for place in rng.permutation(len(sketches)):
        sketch = sketches[int(place)]
        drawn = sample(sketch, rows, rng, options)
        mutated = mutate(sketch, drawn, rng, options)
        crossed = uniform_crossover(sketch, drawn, mutated[::-1], rng, options)
        for row in np.concatenate([drawn, mutated, crossed])[:left]:
            yield steps(sketch, row)
            left -= 1


def check(operator: str, count: int, options: SearchOptions) -> None:
    """Half of the genotypes are of constant weights, whose layout follows the tiles."""
    found = 0
    for constant in (False, True):
        dag = Case(operator, SMALL.get(operator, 1), 1).dag(constant=constant)
        for program in genotypes(dag, count // 2, options):
            verify(lower(replay(dag, program)))
            found += 1
    assert found == count


@pytest.mark.parametrize("options", [DEFAULTS, FEW], ids=["default", "paper"])
@pytest.mark.parametrize("operator", sampled(list(SHAPES), ["C2D", "T2D", "TBS"]))
def test_a_few(operator: str, options: SearchOptions) -> None:
    check(operator, FAST, options)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("operator", SHAPES)
def test_ten_thousand(operator: str) -> None:
    check(operator, MANY, DEFAULTS)
