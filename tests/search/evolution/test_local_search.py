"""Polish: all neighbours of the best, none that is known, ranked by what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ansorc.lang import ComputeDAG, placeholder
from ansorc.lang import operators as ops
from ansorc.schedule import replay
from ansorc.search.candidate import Candidate, candidates
from ansorc.search.cost_model import CostModel, Sample
from ansorc.search.evolution.local_search import PARENTS, local_search
from ansorc.search.evolution.population import fitness_of, preselect
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import neighbourhood_of, neighbours
from ansorc.search.features import Features
from ansorc.search.model import RooflineModel
from ansorc.search.options import SearchOptions
from ansorc.search.space import Space, design_space, extract, phenotype_keys, tiles
from tests.search.workloads import ZEN, matmul

OPTIONS = SearchOptions(trials_per_round=20)
MATMUL = design_space(matmul(64, 64, 64), ZEN, OPTIONS)


def layer() -> Space:
    x, w = placeholder((1, 8, 8, 16), "x"), placeholder((3, 3, 16, 32), "w")
    return design_space(ComputeDAG([x, w, ops.conv2d(x, w, padding=1, name="conv")]), ZEN, OPTIONS)


def seeds_of(space: Space, count: int, sketch: int = 0) -> list[Candidate]:
    genes = sample(space.sketches[sketch], count, np.random.default_rng(4), OPTIONS)
    found = candidates(space, [(sketch, row) for row in genes])
    return [replace(one, score=float(count - place)) for place, one in enumerate(found)]


def improved(
    space: Space, seeds: Sequence[Candidate], measured: set[int], model: CostModel | None = None
) -> tuple[Candidate, ...]:
    known = measured | {seed.key for seed in seeds}
    rng = np.random.default_rng(0)
    return local_search(space, model or RooflineModel(), rng, OPTIONS, known, seeds).candidates


def test_neighbours_differ_in_one_gene_by_one_move() -> None:
    sketch = MATMUL.sketches[0]
    row = sample(sketch, 1, np.random.default_rng(1), OPTIONS)[0]
    found = neighbours(sketch, row, OPTIONS)
    assert ((found != row).sum(axis=1) == 1).all()
    assert len(np.unique(found, axis=0)) == len(found) > 20
    before, after = tiles(sketch, row), tiles(sketch, found)
    for variable in sketch.variables:
        changed = after[variable.name] != before[variable.name]
        assert (changed.sum(axis=1) <= 2).all(), "a divisor moves from one level to another"
    for column in range(len(sketch.variables), len(sketch.columns)):
        values = len(sketch.choices[column - len(sketch.variables)].values)
        assert (found[:, column] != row[column]).sum() == values - 1


def test_all_neighbours_are_proposed_once_and_then_none() -> None:
    seeds = seeds_of(MATMUL, 1)
    measured: set[int] = set()
    while found := improved(MATMUL, seeds, measured):
        keys = [candidate.key for candidate in found]
        assert len(set(keys)) == len(keys) <= OPTIONS.trials_per_round
        assert measured.isdisjoint(keys)
        measured |= set(keys)
        for candidate in found[:3]:
            replay(MATMUL.dag, candidate.steps)
    sketch = MATMUL.sketches[0]
    around = neighbours(sketch, seeds[0].genes, OPTIONS)
    expected = set(phenotype_keys(sketch, around).tolist()) - {seeds[0].key}
    assert measured == expected


def test_stages_move_to_other_places() -> None:
    space = layer()
    moves = neighbourhood_of(space).relocated
    number = next(n for n, numbers in enumerate(moves) if len(numbers) > 2)
    measured: set[int] = set()
    reached: set[int] = set()
    while found := improved(space, seeds_of(space, 1, number), measured):
        measured |= {candidate.key for candidate in found}
        reached |= {candidate.number for candidate in found}
    assert reached == {number, *moves[number]}


def test_only_the_fastest_have_neighbours() -> None:
    seeds = seeds_of(MATMUL, PARENTS + 1)
    found = improved(MATMUL, seeds, set())
    assert [c.key for c in found] == [c.key for c in improved(MATMUL, seeds[:-1], set())]


def test_what_the_model_is_wrong_by_for_a_parent_is_taken_out() -> None:
    """A model that finds one parent's neighbourhood ten times as fast as it is."""
    fast, slow = seeds_of(MATMUL, 2)
    known = extract(MATMUL.sketches[0], np.stack([fast.genes, slow.genes]), ZEN)

    @dataclass
    class Biased:
        def predict(self, features: Features) -> np.ndarray:
            gaps = [np.abs(features - each).sum(axis=(1, 2)) for each in known]
            return np.where(gaps[0] < gaps[1], 1.0, 10.0)

        def update(self, samples: Sequence[Sample]) -> None:
            raise AssertionError

    seeds = [replace(fast, score=2.0), replace(slow, score=1.0)]
    found = improved(MATMUL, seeds, set(), Biased())
    assert found[0].score >= 2.0
    near = np.array([(candidate.genes != fast.genes).sum() == 1 for candidate in found])
    assert near.mean() > 0.5


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_preselection_keeps_the_best_estimates(share: float) -> None:
    sketch = MATMUL.sketches[0]
    features = extract(sketch, sample(sketch, 50, np.random.default_rng(0), OPTIONS), ZEN)
    kept = preselect(features, share)
    assert len(kept) == round(50 * share)
    scores = fitness_of(RooflineModel(), features).scores
    others = np.setdiff1d(np.arange(50), kept)
    assert not len(others) or scores[kept].min() >= scores[others].max()
