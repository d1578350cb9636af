"""Programs that are described once: always the same ones, and nothing is described again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from search_model.workloads import ZEN, matmul, transpose

from ansorc.search import described as described_module
from ansorc.search.candidate import candidates
from ansorc.search.described import described, founders_of, together
from ansorc.search.evolve import evolve
from ansorc.search.features import Features, estimated_cycles, extract
from ansorc.search.model import RooflineModel
from ansorc.search.options import SearchOptions
from ansorc.search.polish import polish
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space, design_space, phenotype_keys, sample
from ansorc.search.strategies import Strategy
from ansorc.target import Target

SMALL = SearchOptions(population=200)
DAG = matmul(64, 64, 64)


def space(seed: int = 0) -> Space:
    return replace(design_space(DAG, ZEN, SMALL), seed=seed)


def genes_of(sketch: Sketch, count: int) -> Genes:
    return sample(sketch, count, np.random.default_rng(1), SMALL)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many programs each call described."""
    counts: list[int] = []

    def counted(sketch: Sketch, genes: Genes, target: Target) -> Features:
        counts.append(len(genes))
        return extract(sketch, genes, target)

    monkeypatch.setattr(described_module, "extract", counted)
    return counts


def test_founders_are_drawn_once_for_each_space_and_seed(asked: list[int]) -> None:
    one, same, other = space(), space(), space(seed=1)
    first = founders_of(one, 0, SMALL)
    assert founders_of(one, 0, SMALL) is first
    assert founders_of(one, 0, replace(SMALL, trials_per_round=3)) is first
    assert len(asked) == 1
    again, others = founders_of(same, 0, SMALL), founders_of(other, 0, SMALL)
    np.testing.assert_array_equal(again.programs.keys, first.programs.keys)
    assert set(others.programs.keys.tolist()) != set(first.programs.keys.tolist())


def test_founders_are_those_with_the_best_estimates() -> None:
    everything = founders_of(space(), 0, replace(SMALL, draft_share=1.0)).programs
    half = founders_of(space(), 0, replace(SMALL, draft_share=0.5)).programs
    cycles = estimated_cycles(everything.features).sum(axis=1)
    kept = np.isin(everything.keys, half.keys)
    assert kept.sum() == len(half.keys) == np.ceil(len(everything.keys) / 2)
    assert cycles[kept].max() <= cycles[~kept].min()


def test_founders_of_a_small_sketch_are_all_of_its_programs() -> None:
    small = design_space(transpose(4, 8), ZEN, SMALL)
    assert founders_of(small, 0, SMALL).is_complete
    assert not founders_of(space(), 0, SMALL).is_complete


def test_programs_are_described_once_each_and_without_those_to_skip() -> None:
    one = space()
    sketch = one.sketches[0]
    genes = genes_of(sketch, 20)
    twice = described(one, 0, np.concatenate([genes, genes]))
    assert sorted(twice.keys.tolist()) == sorted(set(phenotype_keys(sketch, genes).tolist()))
    np.testing.assert_array_equal(twice.features, extract(sketch, twice.genes, ZEN))
    np.testing.assert_array_equal(twice.keys, phenotype_keys(sketch, twice.genes))
    rest = described(one, 0, genes, twice.keys[:5])
    np.testing.assert_array_equal(rest.keys, twice.keys[5:])
    part = twice.at(np.array([2, 0]))
    np.testing.assert_array_equal(part.features, twice.features[[2, 0]])


@pytest.mark.parametrize("way", [evolve, polish])
def test_what_is_proposed_is_described_already(way: Strategy) -> None:
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


def test_seeds_join_founders_once() -> None:
    one = space()
    sketch, founders = one.sketches[0], founders_of(one, 0, SMALL).programs
    drawn = described(one, 0, genes_of(sketch, 40), founders.keys)
    new, old = candidates(one, [(0, drawn.genes[0]), (0, founders.genes[3])])
    assert together(founders, [old]) is founders
    joined = together(founders, [new, old, new])
    assert joined.keys.tolist() == [*founders.keys.tolist(), new.key]
    np.testing.assert_array_equal(joined.genes[-1], new.genes)
    np.testing.assert_array_equal(joined.features[-1], extract(sketch, new.genes[None, :], ZEN)[0])
