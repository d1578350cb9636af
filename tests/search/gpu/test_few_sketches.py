"""Of many sketches few are tried, a choice at a time, and a good one is among them."""

from __future__ import annotations

import pytest

import ansorc as ac
from ansorc.search.evolution.by_estimate import EstimateSearch
from ansorc.search.gpu.default import UntunedOnGpu
from ansorc.search.gpu.few_sketches import choices_of
from ansorc.search.gpu.rules import complete_in_all_ways, gpu_rules, ways_on_gpu
from ansorc.search.sketch.generate import generate
from ansorc.search.sketch.sketch import Sketch
from ansorc.target import Target

TARGET = Target.parse("cuda -arch=sm_90")


def attention(queries: int, keys: int) -> ac.ComputeDAG:
    q = ac.placeholder((1, 2, queries, 32), "q")
    k = ac.placeholder((1, 2, keys, 32), "k")
    v = ac.placeholder((1, 2, keys, 32), "v")
    return ac.ComputeDAG([q, k, v, ac.ops.attention(q, k, v)])


def derived(dag: ac.ComputeDAG) -> tuple[Sketch, ...]:
    return generate(dag.plain, TARGET, gpu_rules())


def test_each_stage_has_its_own_choices() -> None:
    sketches = derived(attention(64, 64))
    names = {op.name for op in sketches[0].dag.ops}
    made = [choices_of(sketch) for sketch in sketches]
    assert all(set(each) <= names for each in made)
    for sketch, each in zip(sketches, made, strict=True):
        steps = sum(len(steps) for rules in each.values() for _, steps in rules)
        assert steps == sketch.derivation[-1].step_count
    texts = {str(sorted(each.items())) for each in made}
    assert len(texts) == len(sketches)


def test_few_are_tried() -> None:
    dag = attention(1, 128)
    every = sum(len(ways_on_gpu(sketch)) for sketch in derived(dag))
    untuned = UntunedOnGpu(dag.plain, TARGET)
    search = EstimateSearch(untuned)
    assert len(list(untuned.structures(search.cost_of))) < every / 2


@pytest.mark.nightly
@pytest.mark.parametrize("queries", [16, 64])
def test_about_the_best_of_all_is_found(queries: int) -> None:
    dag = attention(queries, 256)
    untuned = UntunedOnGpu(dag.plain, TARGET)
    search = EstimateSearch(untuned)
    every = [whole for sketch in derived(dag) for whole in complete_in_all_ways(sketch)]
    best = min(search.cost_of(untuned.structure_of(sketch)) for sketch in every)
    tried = untuned.structures(search.cost_of)
    assert min(map(search.cost_of, tried)) <= 1.2 * best
