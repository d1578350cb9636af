"""Of many sketches few are tried, a choice at a time, and a good one is among them."""

from __future__ import annotations

import pytest

import ansorc as ac
from ansorc.search.gpu.estimated_programs import ThreadPrograms
from ansorc.search.gpu.few_sketches import FewOfMany, choices_of
from ansorc.search.gpu.rules import completed_on_gpu, gpu_rules, ways_on_gpu
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
    sketches = derived(attention(1, 128))
    every = sum(len(ways_on_gpu(sketch)) for sketch in sketches)
    assert len(FewOfMany(sketches, rows=32).pools()) < every / 2


@pytest.mark.nightly
@pytest.mark.parametrize("queries", [16, 64])
def test_about_the_best_of_all_is_found(queries: int) -> None:
    sketches = derived(attention(queries, 256))
    every = [one for sketch in sketches for one in completed_on_gpu(sketch)]
    best = min(ThreadPrograms.draw(sketch, 512).best for sketch in every)
    assert min(programs.best for programs in FewOfMany(sketches).pools()) <= 1.2 * best
