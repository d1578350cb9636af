"""Populations: the initial one is always the same, and no features are extracted twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ansorc.search.candidate import candidates
from ansorc.search.evolution import population
from ansorc.search.evolution.evolve import evolve
from ansorc.search.evolution.local_search import local_search
from ansorc.search.evolution.population import initial_population, population_of, with_seeds
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import Features, estimate_cycles
from ansorc.search.model import RooflineModel
from ansorc.search.options import SearchOptions
from ansorc.search.proposals import Strategy
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space, design_space, extract, phenotype_keys
from ansorc.target import Target
from tests.search.workloads import ZEN, matmul, transpose

SMALL = SearchOptions(population=200)
DAG = matmul(64, 64, 64)


def space(seed: int = 0) -> Space:
    return replace(design_space(DAG, ZEN, SMALL), seed=seed)


def genes_of(sketch: Sketch, count: int) -> Genes:
    return sample(sketch, count, np.random.default_rng(1), SMALL)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many programs each call extracted the features."""
    counts: list[int] = []

    def counted(sketch: Sketch, genes: Genes, target: Target) -> Features:
        counts.append(len(genes))
        return extract(sketch, genes, target)

    monkeypatch.setattr(population, "extract", counted)
    return counts


def test_initial_programs_are_drawn_once_for_each_space_and_seed(asked: list[int]) -> None:
    one, same, other = space(), space(), space(seed=1)
    first = initial_population(one, 0, SMALL)
    assert initial_population(one, 0, SMALL) is first
    assert initial_population(one, 0, replace(SMALL, trials_per_round=3)) is first
    assert len(asked) == 1
    again, others = initial_population(same, 0, SMALL), initial_population(other, 0, SMALL)
    np.testing.assert_array_equal(again.programs.keys, first.programs.keys)
    assert set(others.programs.keys.tolist()) != set(first.programs.keys.tolist())


def test_initial_programs_are_those_with_the_best_estimates() -> None:
    everything = initial_population(space(), 0, replace(SMALL, preselected_share=1.0)).programs
    half = initial_population(space(), 0, replace(SMALL, preselected_share=0.5)).programs
    cycles = estimate_cycles(everything.features).sum(axis=1)
    kept = np.isin(everything.keys, half.keys)
    assert kept.sum() == len(half.keys) == np.ceil(len(everything.keys) / 2)
    assert cycles[kept].max() <= cycles[~kept].min()


def test_initial_programs_of_a_small_sketch_are_all_of_its_programs() -> None:
    small = design_space(transpose(4, 8), ZEN, SMALL)
    assert initial_population(small, 0, SMALL).is_complete
    assert not initial_population(space(), 0, SMALL).is_complete


def test_a_population_has_each_program_once_and_without_those_to_skip() -> None:
    one = space()
    sketch = one.sketches[0]
    genes = genes_of(sketch, 20)
    twice = population_of(one, 0, np.concatenate([genes, genes]))
    assert sorted(twice.keys.tolist()) == sorted(set(phenotype_keys(sketch, genes).tolist()))
    np.testing.assert_array_equal(twice.features, extract(sketch, twice.genes, ZEN))
    np.testing.assert_array_equal(twice.keys, phenotype_keys(sketch, twice.genes))
    rest = population_of(one, 0, genes, twice.keys[:5])
    np.testing.assert_array_equal(rest.keys, twice.keys[5:])
    part = twice.at(np.array([2, 0]))
    np.testing.assert_array_equal(part.features, twice.features[[2, 0]])


@pytest.mark.parametrize("way", [evolve, local_search])
def test_what_is_proposed_has_its_features(way: Strategy) -> None:
    """The model learns from the proposed programs as soon as they are measured."""
    one = space()
    (seed,) = candidates(one, [(0, genes_of(one.sketches[0], 1)[0])])
    rng = np.random.default_rng(2)
    seeds = [replace(seed, score=1.0)]
    found = way(one, RooflineModel(), rng, SMALL, frozenset(), seeds).candidates
    assert len(found) >= 16
    for candidate in found:
        genes = candidate.genes[None, :]
        np.testing.assert_array_equal(candidate.features, extract(candidate.sketch, genes, ZEN)[0])
        assert candidate.features.base is None, "it keeps nothing else"


def test_seeds_join_initial_programs_once() -> None:
    one = space()
    sketch, initial = one.sketches[0], initial_population(one, 0, SMALL).programs
    drawn = population_of(one, 0, genes_of(sketch, 40), initial.keys)
    new, old = candidates(one, [(0, drawn.genes[0]), (0, initial.genes[3])])
    assert with_seeds(initial, [old]) is initial
    joined = with_seeds(initial, [new, old, new])
    assert joined.keys.tolist() == [*initial.keys.tolist(), new.key]
    np.testing.assert_array_equal(joined.genes[-1], new.genes)
    np.testing.assert_array_equal(joined.features[-1], extract(sketch, new.genes[None, :], ZEN)[0])
