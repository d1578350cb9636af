"""The States of populations that are made of formulas are those that replaying gives."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from ansorc.lang import ComputeDAG
from ansorc.schedule import replay, schedule
from ansorc.schedule.extent import Extent, Hole
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import Split
from ansorc.search.evolution.sampling import sample
from ansorc.search.sketch.sketch import Sketch, TileVariable
from ansorc.search.space import design_space, population_state, tiles
from ansorc.search.space import genes as genes_module
from ansorc.search.space.genes import numbers_of, skeleton_of_genes, table_of
from ansorc.target import Target
from tests.codegen.cuda.hand_schedules import matmul_dag
from tests.search.workloads import ZEN, convolution, matmul, transpose

GPU = Target.parse("cuda -arch=sm_90")
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


def test_what_a_block_shares_is_cut_off_at_the_axis() -> None:
    """Rows of A are copied inside a loop over them, so the box of one iteration is a part."""
    dag = matmul_dag(8, 8, 8)
    state = schedule(dag).cache_write("C", "local").split("C", "i", [2, 2])
    state = state.reorder("C", ["i.0", "i.1", "i.2", "j"]).bind("C", "i.0", "blockIdx.x")
    state = state.bind("C", "i.1", "threadIdx.x").compute_at("C.local", "C", "i.1")
    state = state.cache_read("A", "shared", ["C.local"]).compute_at("A.shared", "C.local", "i")
    holes = Split("C", "i", (Hole("C.i", (1,)), Hole("C.i", (2,))))
    steps = tuple(holes if isinstance(step, Split) else step for step in state.steps)
    sketch = Sketch(dag, GPU, "", steps, (TileVariable("C.i", 8, 3, 8),))
    genes = np.arange(len(table_of(sketch, sketch.variables[0])), dtype=np.int64)[:, None]
    quick, slow = population_state(sketch, genes), sketch.replay(tiles(sketch, genes))
    for found, expected in zip(
        quick.stage("A.shared").region, slow.stage("A.shared").region, strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_the_steps_are_replayed_once() -> None:
    sketch = design_space(DAGS["matrix product"], ZEN).sketches[0]
    genes = sample(sketch, 4, np.random.default_rng(0))
    first, second = population_state(sketch, genes), population_state(sketch, genes)
    assert all(a.op is b.op for a, b in zip(first.stages, second.stages, strict=True))


def test_a_misleading_probe_is_made_up_for_by_replaying(monkeypatch: pytest.MonkeyPatch) -> None:
    """All probes are one program, so that many extents seem equal."""
    sketch = design_space(convolution(14, 8, 1), ZEN).sketches[1]
    genes = sample(sketch, 30, np.random.default_rng(3))

    every = range(sum(variable.levels for variable in sketch.variables) + len(sketch.choices))

    def probe(_: Sketch) -> list[np.ndarray]:
        return numbers_of(sketch, genes[:1], every)

    monkeypatch.setattr(genes_module, "_probe", probe)
    skeleton = skeleton_of_genes(sketch)
    assert skeleton is not None
    assert skeleton.fill(partial(numbers_of, sketch, genes), tiles(sketch, genes)) is None
    state = population_state(sketch, genes)
    expected = replay(sketch.dag, sketch.steps, tiles(sketch, genes))
    for one, other in zip(state.stages, expected.stages, strict=True):
        for found, wanted in zip(extents_of(one), extents_of(other), strict=True):
            np.testing.assert_array_equal(found, wanted)
