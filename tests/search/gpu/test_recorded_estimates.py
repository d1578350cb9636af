"""Estimates of populations are those of the analysis, run once for a sketch or for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import replay
from ansorc.schedule.extent import as_array, same
from ansorc.search.gpu.default import sketches_on_gpu
from ansorc.search.gpu.estimated_programs import kernel_seconds, seconds_of
from ansorc.search.gpu.limits import kernel_limits
from ansorc.search.gpu.sampling import sample_on_gpu
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import genes as genes_module
from ansorc.search.space import recorded, tiles
from ansorc.search.space.genes import choice_values
from ansorc.search.space.recorded import Analysis, Population, analyse
from ansorc.target import Target

GPU = Target.parse("cuda -arch=sm_90")


def product() -> ComputeDAG:
    a, b = ac.placeholder((64, 512), "a"), ac.placeholder((512, 96), "b")
    return ComputeDAG([a, b, ac.ops.relu(ac.ops.matmul(a, b))])


def half_product() -> ComputeDAG:
    a, b = ac.placeholder((128, 64), "a", "float16"), ac.placeholder((64, 128), "b", "float16")
    return ComputeDAG([a, b, ac.ops.matmul(a, b)])


def convolution() -> ComputeDAG:
    x, w = ac.placeholder((1, 14, 14, 32), "x"), ac.placeholder((3, 3, 32, 48), "w", constant=True)
    return ComputeDAG([x, w, ac.ops.relu(ac.ops.conv2d(x, w, padding=1))])


def normalized() -> ComputeDAG:
    x = ac.placeholder((48, 260), "x")
    return ComputeDAG([x, ac.ops.softmax(x)])


def transposed() -> ComputeDAG:
    x = ac.placeholder((130, 96), "x")
    return ComputeDAG([x, ac.ops.relu(ac.ops.transpose(x, (1, 0)))])


DAGS = {
    "product": product(), "half product": half_product(), "convolution": convolution(),
    "softmax": normalized(), "transposition": transposed(),
}  # fmt: skip


@pytest.fixture(autouse=True)
def record_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "MANY_ROWS", 1)


def directly(analysis: Analysis, sketch: Sketch, genes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the results of an analysis of the replayed State, without any formula."""
    state = sketch.without_others(replay(sketch.dag, sketch.steps, tiles(sketch, genes)))
    population = Population(sketch, state, choice_values(sketch, genes), len(genes))
    for result in analysis(population):
        yield np.broadcast_to(result, (len(genes),))


@pytest.mark.parametrize("name", DAGS)
def test_recorded_numbers_are_those_that_are_computed_directly(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyses: list[Analysis] = []

    def noting(analysis: Analysis, sketch: Sketch, genes: np.ndarray) -> list[np.ndarray]:
        analyses.append(analysis)
        return analyse(analysis, sketch, genes)

    for place in (kernel_limits, kernel_seconds):
        monkeypatch.setitem(place.__globals__, "analyse", noting)
    rng = np.random.default_rng(3)
    for sketch in sketches_on_gpu(DAGS[name], GPU):
        for rows in (1, 37):
            genes = sample_on_gpu(sketch, rows, rng)
            seconds_of(sketch, genes)
            for analysis in {*analyses}:
                quick = analyse(analysis, sketch, genes)
                for one, other in zip(quick, directly(analysis, sketch, genes), strict=True):
                    np.testing.assert_array_equal(one, other)
    assert len({*analyses}) == 2


@pytest.mark.parametrize("name", DAGS)
def test_estimates_are_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No population needs a State of its own."""

    def refuse(sketch: Sketch, genes: np.ndarray) -> None:
        raise AssertionError(sketch.name)

    monkeypatch.setattr(recorded, "population_state", refuse)
    for sketch in sketches_on_gpu(DAGS[name], GPU):
        genes = sample_on_gpu(sketch, 16, np.random.default_rng(1), 6)
        assert np.isfinite(seconds_of(sketch, genes)).all()


def extents_of(programs: Population) -> list[np.ndarray]:
    loops = [loop for stage in programs.state.stages for loop in stage.iterators]
    return [as_array(loop.extent) for loop in loops]


def extents_that_are_alike(programs: Population) -> list[np.ndarray]:
    """Return 1 for each two extents that are equal in all programs, else the first of them."""
    extents = extents_of(programs)
    pairs = ((one, other) for n, one in enumerate(extents) for other in extents[:n])
    return [np.ones(1) if same(one, other) else one for one, other in pairs]


def test_what_cannot_be_recorded_is_computed_directly() -> None:
    """Here an analysis that asks for the numbers themselves."""
    sketch, *_ = sketches_on_gpu(DAGS["transposition"], GPU)
    genes = sample_on_gpu(sketch, 8, np.random.default_rng(0))

    def asking(programs: Population) -> list[np.ndarray]:
        return [np.asarray(extent) + 1 for extent in extents_of(programs)]

    results = analyse(asking, sketch, genes)
    for one, other in zip(results, directly(asking, sketch, genes), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_the_probe_misleads_about_is_computed_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one program as the probe all extents of it seem to be those of all programs."""
    monkeypatch.setattr(genes_module, "PROBES", 1)
    for sketch in sketches_on_gpu(normalized(), GPU):
        genes = sample_on_gpu(sketch, 20, np.random.default_rng(2))
        results = analyse(extents_that_are_alike, sketch, genes)
        expected = directly(extents_that_are_alike, sketch, genes)
        for one, other in zip(results, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_sketches_with_the_same_genes_share_how_they_begin() -> None:
    """Copying steps ahead is a pragma at the end, so all before it is replayed once."""
    dag = product()  # of this test alone: what others recorded is shared, too
    sketches = [s for s in sketches_on_gpu(dag, GPU) if "parts" not in s.name]
    skeletons = [recorded.skeleton_of_genes(sketch) for sketch in sketches]
    tapes = [skeleton.replays.tape for skeleton in skeletons if skeleton is not None]
    assert len(tapes) == len(sketches) > 1
    assert all(tape is tapes[0] for tape in tapes)
    lengths = len(tapes[0].steps)
    for sketch in sketches:
        seconds_of(sketch, sample_on_gpu(sketch, 4, np.random.default_rng(0), 6))
    assert len(tapes[0].steps) > lengths


def test_an_analysis_of_few_programs_is_computed_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorded, "MANY_ROWS", 5)
    sketch, *_ = sketches_on_gpu(product(), GPU)
    genes = np.zeros((4, len(sketch.columns)), dtype=np.int64)
    rows: list[int] = []

    def noting(programs: Population) -> list[np.ndarray]:
        rows.append(programs.rows)
        return extents_of(programs)

    for _ in range(3):
        analyse(noting, sketch, genes)
    assert rows == [4, 1]  # the second time as formulas, the third not at all
