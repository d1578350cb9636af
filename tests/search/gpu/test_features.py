"""Features and descriptions of GPU programs: of rows alone, and as counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import replay
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import FEATURE_NAMES, estimate_cycles
from ansorc.search.gpu.description import descriptions, seconds_of_kernel
from ansorc.search.gpu.features import GPU_FEATURES
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import (
    choice_values,
    design_space,
    extract,
    extract_state,
    population_state,
    steps,
)
from ansorc.search.space.genes import Genes, table_of
from tests.search import small_dags
from tests.search.gpu.counted_requests import counted_requests
from tests.search.gpu.gpu_programs import H100, ready, sketches_of
from tests.search.small_dags import DAGS

MATMUL = small_dags.matmul(1024, 1024, 1024)
EXPERT = {
    "C.local.i": (8, 1, 2, 16, 1, 4), "C.local.j": (1, 8, 2, 16, 1, 4), "C.local.k": (128, 1, 8),
    "in0.shared.vector": (1, 4), "in1.shared.vector": (1, 4),
}  # fmt: skip
"""128 × 128 results of 256 threads, 8 × 8 of each, 8 terms at a time."""


def chosen(sketch: Sketch, tiles: dict[str, tuple[int, ...]]) -> Genes:
    row = [table_of(sketch, v).find(np.array(tiles[v.name])) for v in sketch.variables]
    return np.array([*row, *(0 for _ in sketch.choices)])


def whole(computation: ComputeDAG) -> Sketch:
    """The first sketch whose sums are not made in parts."""
    found = design_space(computation, H100).sketches
    return next(sketch for sketch in found if " parts" not in sketch.name)


def test_the_kernel_of_an_expert_is_described_as_an_expert_would() -> None:
    sketch = whole(MATMUL)
    state = replay(MATMUL, steps(sketch, chosen(sketch, EXPERT)))
    (found,) = descriptions(state, 1)
    assert [np.asarray(extent).item() for extent in found.grid] == [8, 8]
    assert np.asarray(found.threads).item() == 256
    assert np.asarray(found.shared_bytes).item() == 2 * 128 * 8 * 4
    assert np.asarray(found.multiply_adds).item() == 64 * 1024
    assert np.asarray(found.independent).item() == 64
    assert np.asarray(found.steps).item() == 128
    a, b, c = found.global_accesses
    for each in (a, b):
        assert np.asarray(each.requests).item() == 128
        assert np.asarray(each.sectors).item() == 16
        assert np.asarray(each.block_bytes).item() == 128 * 1024 * 4
    assert [np.asarray(each).item() for each in a.depends_on] == [0, 1]
    assert [np.asarray(each).item() for each in b.depends_on] == [1, 0]
    assert np.asarray(c.requests).item() == 16
    stores_loads = [np.asarray(each.requests).item() for each in found.shared_accesses]
    assert stores_loads == [128, 128, 8 * 1024, 2 * 1024]


@pytest.mark.parametrize("name", ["matmul_odd", "conv_layer_nchw", "softmax", "transpose"])
def test_features_of_a_row_are_those_of_the_program_alone(name: str) -> None:
    for sketch in sketches_of(name)[:2]:
        genes = sample(sketch, 12, np.random.default_rng(0))
        together = extract(sketch, genes, H100)
        assert np.isfinite(together).all()
        for row, features in zip(genes, together, strict=True):
            alone = extract_state(replay(DAGS[name], steps(sketch, row)), H100)[0]
            np.testing.assert_allclose(features, alone, rtol=1e-5)


def test_the_estimate_stands_where_that_of_cpus_does() -> None:
    place = FEATURE_NAMES.index("estimate.total_cycles")
    assert GPU_FEATURES.names.index("estimate.total_cycles") == place
    sketch = whole(MATMUL)
    genes = sample(sketch, 64, np.random.default_rng(0))
    cycles = estimate_cycles(extract(sketch, genes, H100)).sum(axis=1)
    state, choices = population_state(sketch, genes), choice_values(sketch, genes)
    kernels = descriptions(state, len(genes), choices)
    wanted = sum(seconds_of_kernel(kernel, H100) for kernel in kernels) * 1e9
    np.testing.assert_allclose(cycles, wanted, rtol=1e-3)


@pytest.mark.parametrize("n", [1024, 4096])
def test_the_default_of_a_product_has_the_tiles_of_an_expert(n: int) -> None:
    computation = small_dags.matmul(n, n, n)
    state = replay(computation, default_steps(computation, H100))
    found, *_ = descriptions(state, 1)  # one kernel more adds up parts, if there are any
    assert 64 <= np.asarray(found.threads).item() <= 512
    assert np.asarray(found.independent).item() >= 16
    assert np.asarray(found.registers).item() <= 255


@pytest.mark.parametrize("seed", range(6))
def test_requests_and_sectors_are_those_of_the_lowered_program(seed: int) -> None:
    computation = small_dags.matmul(128, 64, 96)
    sketch = whole(computation)
    drawn = sample(sketch, 64, np.random.default_rng(seed))
    is_whole = np.ones(len(drawn), dtype=bool)
    for column, variable in enumerate(sketch.variables):
        rows = table_of(sketch, variable).rows[drawn[:, column]]
        is_whole &= rows.prod(axis=1) == variable.extent
        terms = rows[:, 1:].prod(axis=1)  # exact where the lengths divide each other (`LoopNest`)
        is_whole &= terms & (terms - 1) == 0
    made = steps(sketch, drawn[is_whole][0])
    (found,) = descriptions(replay(computation, made), 1)
    threads = int(np.asarray(found.threads).item())
    counted = list(counted_requests(ready(computation, made, H100), threads))
    for place, buffer in enumerate(("C", "in0", "in1")):
        own = [each for each in counted if each.buffer == buffer]
        (described,) = [
            access
            for access, name in zip(found.global_accesses, ("in0", "in1", "C"), strict=True)
            if name == buffer
        ]
        assert place == 0 or not described.is_store
        assert sum(each.executed for each in own) == np.asarray(described.requests).item()
        assert {each.sectors for each in own} == {np.asarray(described.sectors).item()}
