"""A row of a population has the features of the same program alone."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.lang import ComputeDAG
from ansorc.schedule import fill_holes, replay, schedule
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import (
    COLUMNS,
    FEATURE_NAMES,
    MACHINE_FEATURES,
    FeatureSet,
    estimate_cycles,
)
from ansorc.search.options import SearchOptions
from ansorc.search.space import design_space, extract, extract_state, steps
from ansorc.search.tiles import tile_table
from ansorc.target import Target
from bench.search.paper_features import PAPER_FEATURES
from tests.search.features import feature_table
from tests.search.workloads import ZEN, convolution, matmul, smoothing, tiled_matmul, transpose
from tests.support.nightly import also_nightly, amount, examples

DAGS = {
    "matmul": matmul(32, 48, 24),
    "convolution": convolution(8, 8, 2),
    "convolution of weights": convolution(8, 8, 2, constant=True),
    "transpose": transpose(24, 64),
    "smoothing": smoothing(60),
}


@also_nightly
@pytest.mark.parametrize("name", DAGS)
def test_a_row_of_any_sketch_equals_its_program(name: str) -> None:
    """The program is replayed with numbers, its fused, parallel and unroll steps included."""
    dag: ComputeDAG = DAGS[name]
    rng = np.random.default_rng(3)
    for sketch in design_space(dag, ZEN, SearchOptions()).sketches:
        genes = sample(sketch, amount(1, 5), rng, SearchOptions())
        states = [replay(dag, steps(sketch, row)) for row in genes]
        for features in (MACHINE_FEATURES, PAPER_FEATURES):
            together = extract(sketch, genes, ZEN, features)
            assert together.shape[2] == len(features.names)
            for state, row in zip(states, together, strict=True):
                alone = features.extract_state(state, ZEN)
                np.testing.assert_allclose(alone[0], row, rtol=1e-5, atol=1e-5)


@examples(4, nightly=15)
@given(seed=st.integers(0, 1000))
def test_a_row_of_a_sketch_by_hand_equals_its_program(seed: int) -> None:
    dag, rng = matmul(24, 32, 12), np.random.default_rng(seed)
    tables = {"i": tile_table(24, 4, 24), "j": tile_table(32, 4, 32), "k": tile_table(12, 2, 12)}
    tiles = {name: table.rows[rng.integers(len(table), size=6)] for name, table in tables.items()}
    together = extract_state(replay(dag, tiled_matmul(), tiles), ZEN, rows=6)
    for row in range(6):
        one = fill_holes(tiled_matmul(), {name: levels[row] for name, levels in tiles.items()})
        alone = extract_state(replay(dag, one), ZEN)
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-5, atol=1e-5)


@also_nightly
@pytest.mark.parametrize("cpu", ["znver3", "znver5", "icelake-server", "x86-64-v2"])
def test_what_is_left_of_vectors_is_masked_row_by_row(cpu: str) -> None:
    """23 columns leave a part of a vector; panels of one column stand among panels of many."""
    target = Target.parse(f"x86_64-linux-gnu -mcpu={cpu} -cores=2")
    for sketch in design_space(matmul(13, 23, 5), target, SearchOptions()).sketches:
        genes = sample(sketch, amount(6, 20), np.random.default_rng(0), SearchOptions())
        together = extract(sketch, genes, target)
        for row in range(len(genes)):
            alone = extract(sketch, genes[row : row + 1], target)
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


def test_every_feature_is_documented() -> None:
    """The page is what `python -m tests.search.features.feature_table` writes."""
    assert feature_table.PAGE.read_text(encoding="utf-8") == feature_table.page()


@pytest.mark.parametrize(
    ("features", "rows"),
    [(MACHINE_FEATURES, feature_table.MACHINE), (PAPER_FEATURES, feature_table.PAPER)],
)
def test_the_page_has_every_column(features: FeatureSet, rows: feature_table.Rows) -> None:
    listed = [
        f"{name}.{field.name}"
        for names, group in rows
        for name in names
        for field in fields(group)  # pyright: ignore[reportArgumentType]
    ]
    assert listed == list(features.names)


def test_names_are_unique_and_estimates_positive() -> None:
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES) == len(COLUMNS)
    features = extract_state(schedule(matmul(8, 8, 8)), ZEN)
    assert (estimate_cycles(features) >= 1).all()


FAULTS = """
import resource

import numpy as np
from tests.search.workloads import ZEN, convolution

from ansorc.search.evolution.sampling import sample
from ansorc.search.features import MACHINE_FEATURES
from ansorc.search.space import design_space, extract

sketch = design_space(convolution(32, 32, 1), ZEN).sketches[0]
genes = sample(sketch, 2048, np.random.default_rng(0))
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    extract(sketch, genes, ZEN, MACHINE_FEATURES)
print(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries keep memory or not"
)
def test_a_population_gets_the_memory_of_the_one_before() -> None:
    """Its arrays are some thousand pages, which the system would have to clear again."""
    root = Path(__file__).parents[3]
    run = subprocess.run(
        [sys.executable, "-c", FAULTS], cwd=root, capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 300
