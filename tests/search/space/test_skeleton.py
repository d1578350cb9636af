"""The States of populations that are made of formulas are those that replaying gives."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.lang import ComputeDAG
from ansorc.schedule import replay
from ansorc.schedule.extent import Extent
from ansorc.schedule.stage import Stage
from ansorc.search.evolution.sampling import sample
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import design_space, population_state, tiles
from ansorc.search.space.skeleton import Formula, Tape, skeleton_of
from tests.search.workloads import ZEN, convolution, matmul, transpose

DAGS = {
    "matrix product": matmul(48, 60, 24),
    "odd matrix product": matmul(49, 61, 23),
    "convolution": convolution(14, 8, 1, constant=True),
    "convolution of stride 2": convolution(14, 8, 2),
    "transposition": transpose(24, 64),
}


def extents_of(stage: Stage) -> list[Extent]:
    return [iterator.extent for iterator in stage.iterators] + list(stage.region)


@pytest.mark.parametrize("name", DAGS)
def test_formulas_give_what_replaying_gives(name: str) -> None:
    dag: ComputeDAG = DAGS[name]
    rng = np.random.default_rng(1)
    for sketch in design_space(dag, ZEN).sketches:
        for rows in (1, 20):
            genes = sample(sketch, rows, rng)
            quick = population_state(sketch, genes)
            slow = replay(dag, sketch.steps, tiles(sketch, genes))
            for one, other in zip(quick.stages, slow.stages, strict=True):
                assert [it.name for it in one.iterators] == [it.name for it in other.iterators]
                assert one.attach == other.attach
                for found, expected in zip(extents_of(one), extents_of(other), strict=True):
                    np.testing.assert_array_equal(found, expected)


def test_the_steps_are_replayed_once() -> None:
    sketch = design_space(DAGS["matrix product"], ZEN).sketches[0]
    genes = sample(sketch, 4, np.random.default_rng(0))
    first, second = population_state(sketch, genes), population_state(sketch, genes)
    assert all(a.op is b.op for a, b in zip(first.stages, second.stages, strict=True))


def test_the_same_arithmetic_is_recorded_once() -> None:
    levels = np.array([1, 2, 3]), np.array([4, 4, 4])
    tape = Tape(levels)
    a, b = Formula(tape, 0), Formula(tape, 1)
    results = [tape.record(np.add, (tape.record(np.multiply, (a, b)), 1)) for _ in range(2)]
    assert len(tape.steps) == 2
    assert results[0].number == results[1].number
    values = tape.run([np.array([5]), np.array([6])])
    assert values is not None
    assert values[results[0].number].tolist() == [31]


def test_a_population_that_the_probe_was_no_guide_to_is_refused() -> None:
    """Levels that are equal in the probe were taken for equal; others are not."""
    tape = Tape([np.array([2, 3]), np.array([2, 3])])
    a, b = Formula(tape, 0), Formula(tape, 1)
    assert tape.are_equal(a, b)
    assert not tape.are_equal(tape.record(np.add, (a, 1)), b)
    assert tape.run([np.array([7]), np.array([7])]) is not None
    assert tape.run([np.array([7]), np.array([8])]) is None


def test_a_misleading_probe_is_made_up_for_by_replaying() -> None:
    """All probes are one program, so that many extents seem equal."""
    sketch = design_space(convolution(14, 8, 1), ZEN).sketches[1]
    genes = sample(sketch, 30, np.random.default_rng(3))

    def probe(_: Sketch) -> dict[str, np.ndarray]:
        return tiles(sketch, genes[:1])

    skeleton = skeleton_of(sketch, probe)
    state = population_state(sketch, genes)
    expected = replay(sketch.dag, sketch.steps, tiles(sketch, genes))
    for one, other in zip(state.stages, expected.stages, strict=True):
        for found, wanted in zip(extents_of(one), extents_of(other), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert skeleton is None or skeleton.tape.guards
