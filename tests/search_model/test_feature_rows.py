"""A row of a population has the features of the same program alone."""

from __future__ import annotations

from dataclasses import fields
from inspect import getsource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_model.workloads import ZEN, convolution, matmul, smoothing, tiled_matmul, transpose

from ansorc.lang import ComputeDAG
from ansorc.schedule import filled, replay, schedule
from ansorc.search.features import COLUMNS, FEATURE_NAMES, estimated_cycles, extract, extract_state
from ansorc.search.features.buffers import BufferFeatures
from ansorc.search.features.caches import CacheFeatures
from ansorc.search.features.columns import Group
from ansorc.search.features.estimate import EstimateFeatures
from ansorc.search.features.loops import LoopFeatures
from ansorc.search.features.operations import OperationFeatures
from ansorc.search.features.registers import RegisterFeatures
from ansorc.search.options import SearchOptions
from ansorc.search.space import design_space, sample, steps
from ansorc.search.tiles import tile_table

GROUPS: tuple[type[Group], ...] = (
    OperationFeatures, LoopFeatures, RegisterFeatures, CacheFeatures, EstimateFeatures,
    BufferFeatures,
)  # fmt: skip
DAGS = {
    "matmul": matmul(32, 48, 24),
    "convolution": convolution(8, 8, 2),
    "convolution of weights": convolution(8, 8, 2, constant=True),
    "transpose": transpose(24, 64),
    "smoothing": smoothing(60),
}


@pytest.mark.parametrize("name", DAGS)
def test_a_row_of_any_sketch_equals_its_program(name: str) -> None:
    """The program is replayed with numbers, its fused, parallel and unroll steps included."""
    dag: ComputeDAG = DAGS[name]
    rng = np.random.default_rng(3)
    for sketch in design_space(dag, ZEN, SearchOptions()).sketches:
        genes = sample(sketch, 5, rng, SearchOptions())
        together = extract(sketch, genes, ZEN)
        assert together.shape[2] == len(FEATURE_NAMES)
        for row, features in zip(genes, together, strict=True):
            alone = extract_state(replay(dag, steps(sketch, row)), ZEN)
            np.testing.assert_allclose(alone[0], features, rtol=1e-5, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_row_of_a_sketch_by_hand_equals_its_program(seed: int) -> None:
    dag, rng = matmul(24, 32, 12), np.random.default_rng(seed)
    tables = {"i": tile_table(24, 4, 24), "j": tile_table(32, 4, 32), "k": tile_table(12, 2, 12)}
    tiles = {name: table.rows[rng.integers(len(table), size=6)] for name, table in tables.items()}
    together = extract_state(replay(dag, tiled_matmul(), tiles), ZEN, rows=6)
    for row in range(6):
        one = filled(tiled_matmul(), {name: levels[row] for name, levels in tiles.items()})
        alone = extract_state(replay(dag, one), ZEN)
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-5, atol=1e-5)


def test_blocks_of_rows_make_no_difference() -> None:
    dag = matmul(64, 64, 64)
    sketch = design_space(dag, ZEN, SearchOptions()).sketches[0]
    genes = sample(sketch, 2100, np.random.default_rng(0), SearchOptions())
    whole = extract(sketch, genes, ZEN)
    assert np.isfinite(whole).all()
    np.testing.assert_array_equal(whole[2050:], extract(sketch, genes[2050:], ZEN))
    assert extract(sketch, genes[:0], ZEN).shape == (0, *whole.shape[1:])


def test_inlined_stages_have_no_statement() -> None:
    dag = convolution(8, 4, 1)
    assert extract_state(schedule(dag), ZEN).shape[:2] == (1, 2)
    assert extract_state(schedule(dag).compute_inline("P"), ZEN).shape[:2] == (1, 1)


@pytest.mark.parametrize("group", GROUPS)
def test_every_feature_is_documented(group: type[Group]) -> None:
    source = getsource(group)
    for field in fields(group):  # pyright: ignore[reportArgumentType]
        after = source.partition(f"\n    {field.name}: ")[2].partition("\n")[2]
        assert after.lstrip().startswith('"""'), field.name


def test_names_are_unique_and_estimates_positive() -> None:
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES) == len(COLUMNS)
    features = extract_state(schedule(matmul(8, 8, 8)), ZEN)
    assert (estimated_cycles(features) >= 1).all()
