"""Terms that go to places: copies of the results for threads, and atomic updates on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.schedule import replay
from ansorc.schedule.stage import Mark
from ansorc.schedule.steps import Fuse
from ansorc.search.cpu.rules import RULES
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.sketch import generate
from ansorc.search.space import design_space, steps
from ansorc.target import Target
from tests.schedule.meaning import keeps_the_meaning

ZEN3 = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=2")
GPU = Target.parse("cuda -arch=sm_90")


def histogram(terms: int = 1_000_000, bins: int = 256, dtype: str = "uint8") -> ac.ComputeDAG:
    index = ac.placeholder(terms, "I", dtype)
    return ac.ComputeDAG([index, ac.scatter(bins, index, 1, name="H")])


def segments(terms: int, bins: int, row: int) -> ac.ComputeDAG:
    index, value = ac.placeholder(terms, "I", "int32"), ac.placeholder((terms, row), "V")
    return ac.ComputeDAG([index, value, ac.scatter((bins, row), index, value, name="S")])


def test_each_number_of_copies_is_a_sketch() -> None:
    names = [sketch.name for sketch in generate(histogram(), ZEN3, RULES)]
    assert names == [
        "2 times 1 copies of H", "2 times 4 copies of H", "2 times 8 copies of H",
        "8 times 1 copies of H", "8 times 4 copies of H", "8 times 8 copies of H",
        "H without copies",
    ]  # fmt: skip


def test_long_rows_take_one_copy_for_a_thread_and_large_results_none() -> None:
    names = [sketch.name for sketch in generate(segments(100_000, 1000, 64), ZEN3, RULES)]
    assert names == ["2 times 1 copies of S", "8 times 1 copies of S", "S without copies"]
    assert len(generate(segments(1000, 100_000, 64), ZEN3, RULES)) == 1


def image_histogram(rows: int, columns: int) -> ac.ComputeDAG:
    index = ac.placeholder((rows, columns), "I", "uint8")
    return ac.ComputeDAG([index, ac.scatter(16, index, 1, name="H")])


def test_terms_of_an_image_are_divided_by_rows_without_a_division() -> None:
    dag = image_histogram(64, 128)
    (two, four, *_), (rows, columns) = generate(dag, ZEN3, RULES), ("n0", "n1")
    assert not any(isinstance(step, Fuse) for step in two.state.steps)
    assert [it.name for it in four.state.stages[0].iterators][1:] == [
        f"{rows}.1", f"{columns}.0", f"{rows}.0@{columns}.1.1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "dag",
    [
        histogram(5000, 7, "int32"), segments(600, 5, 20), image_histogram(64, 128),
        image_histogram(63, 100),
    ],
)  # fmt: skip
def test_programs_of_all_sketches_keep_the_meaning(dag: ac.ComputeDAG) -> None:
    rng = np.random.default_rng(0)
    for sketch in design_space(dag, ZEN3).sketches:
        for row in sample(sketch, 1, rng):
            keeps_the_meaning(replay(dag, steps(sketch, row)))


def test_the_untuned_program_has_a_copy_for_each_core() -> None:
    for dag in (histogram(), segments(100_000, 1000, 64)):
        state = replay(dag.plain, default_steps(dag, ZEN3))
        copies = state.stages[0]
        assert copies.op.places
        assert copies.region[0] == 2
        assert copies.iterators[0].mark is Mark.PARALLEL


def test_threads_of_a_gpu_update_atomically() -> None:
    state = replay(segments(1000, 7, 64).plain, default_steps(segments(1000, 7, 64), GPU))
    threads = [it.thread for it in state.stage("S").iterators]
    assert threads == ["blockIdx.x", "threadIdx.y", "", "threadIdx.x"]
    state = replay(histogram().plain, default_steps(histogram(), GPU))
    assert [it.thread for it in state.stage("H").iterators] == ["blockIdx.x", "threadIdx.x"]


def test_few_trials(tmp_path: Path) -> None:
    dag, records = histogram(20_000), str(tmp_path / "scatter.db")
    assert ac.tune(ac.Task(dag), trials=3, records=records).best is not None
    data = np.random.default_rng(0).integers(0, 256, 20_000).astype(np.uint8)
    found = ac.build(dag, records=records)(data)
    np.testing.assert_array_equal(found, np.bincount(data, minlength=256))
