"""ExplorationBonus: structures of which little was measured are tried, whatever the model says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ansorc.lang import ComputeDAG, placeholder
from ansorc.lang import operators as ops
from ansorc.search.candidate import Candidate
from ansorc.search.evolution.evolve import evolve
from ansorc.search.evolution.selection import ExplorationBonus, SelectionPool, select
from ansorc.search.model import RooflineModel
from ansorc.search.options import PAPER, SearchOptions
from ansorc.search.space import Space, design_space
from tests.search.workloads import ZEN

OPTIONS = SearchOptions(population=400, generations=1, trials_per_round=32, epsilon=0.0)


def bonus(structures: Sequence[int], measured: dict[int, int], optimism: float) -> ExplorationBonus:
    return ExplorationBonus(structures, Counter(measured), optimism)


def offer(sketch: int, score: float) -> SelectionPool:
    keys = (np.arange(20) + 1000 * sketch).astype(np.uint64)
    genes = np.zeros((20, 2), dtype=np.int64)
    return SelectionPool(sketch, genes, keys, np.full(20, score), np.arange(20))


def picks(measured: int, optimism: float, scores: tuple[float, float] = (1.0, 0.85)) -> int:
    """How many of eight programs are of the second structure, of which so many were measured."""
    options = replace(OPTIONS, trials_per_round=8)
    pools = [offer(number, score) for number, score in enumerate(scores)]
    known = bonus((0, 1), {0: 99, 1: measured}, optimism)
    rng = np.random.default_rng(0)
    return Counter(each.sketch for each in select(pools, rng, options, known))[1]


def test_the_bound_is_higher_the_less_of_a_structure_was_measured() -> None:
    limit = 3  # of eight programs the first structure, which has one sketch, can take five
    assert picks(1, 0.0) == limit
    assert picks(1, 1.0) == 5, "0.85 is bound to be 1.45 after one program, 1.1 after ten"
    assert picks(7, 1.0) == 4
    assert picks(40, 1.0) == limit


def test_the_bound_of_a_negative_score_is_higher_as_well() -> None:
    assert picks(1, 1.0, (-1.0, -1.2)) == 5
    assert picks(1, 0.0, (-1.0, -1.2)) == 3


@given(st.floats(-10, 10), st.integers(0, 1000), st.integers(0, 1000), st.floats(0, 8))
def test_the_bound_is_never_below_what_is_expected_and_falls(
    score: float, one: int, other: int, optimism: float
) -> None:
    few, many = (
        bonus((0,), {0: known}, optimism).upper_bound(0, score) for known in sorted((one, other))
    )
    assert few >= many >= score


def test_without_a_bonus_scores_are_what_they_are() -> None:
    none = ExplorationBonus.none([0, 3])
    assert none.upper_bound(3, 0.5) == 0.5
    assert not none.is_untried(3)
    assert PAPER.optimism == 0.0


def convolution(options: SearchOptions = OPTIONS) -> Space:
    x, w = placeholder((1, 8, 8, 16), "x"), placeholder((3, 3, 16, 32), "w")
    dag = ComputeDAG([x, w, ops.conv2d(x, w, padding=1, name="conv")])
    return design_space(dag, ZEN, options)


def found(space: Space, options: SearchOptions, seeds: Sequence[Candidate] = ()) -> list[Candidate]:
    rng = np.random.default_rng(0)
    return list(evolve(space, RooflineModel(), rng, options, frozenset(), seeds).candidates)


def test_the_search_goes_on_with_structures_that_are_expected_to_be_slow() -> None:
    options = replace(OPTIONS, redefine=False)
    space = convolution(options)
    first = found(space, options)
    known = {space.structures[each.number]: each for each in first}
    common = space.structures[first[0].number]
    seeds = [*[known[common]] * 200, *known.values()]

    def others(optimism: float) -> int:
        again = found(space, replace(options, optimism=optimism), seeds)
        return sum(space.structures[each.number] != common for each in again)

    assert others(4.0) > others(0.0)


def test_a_structure_of_which_a_program_failed_was_tried() -> None:
    space = convolution()
    options = replace(OPTIONS, optimism=0.0)
    first = found(space, options)
    structures = {space.structures[each.number] for each in first}
    assert structures == set(space.structures)
    failed = [replace(each, score=0.0) for each in first]
    again = found(space, options, failed)
    assert {space.structures[each.number] for each in again} < structures
    keys = {each.key for each in again}
    assert keys == {each.key for each in found(space, options, failed)}
