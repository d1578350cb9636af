"""The analytic model: what it must know before anything was measured."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.schedule import Schedule, schedule
from ansorc.search.model import RooflineModel
from ansorc.search.space import extract_state
from tests.search.workloads import ZEN, matmul


def score(state: Schedule) -> float:
    return float(RooflineModel().predict(extract_state(state, ZEN))[0])


COLUMNS = 128
"""Of the product: so many of the second matrix stay in the second cache of every machine."""


def tiled(rows: int, columns: int, *, depth: int = 256) -> Schedule:
    state = schedule(matmul(256, COLUMNS, depth)).split("C", "i", [rows]).split("C", "j", [columns])
    state = state.reorder("C", ["i.0", "j.0", "k", "i.1", "j.1"])
    return state.unroll("C", "i.1").vectorize("C", "j.1")


LANES = ZEN.vector_bytes // 4
TOO_MANY = 2 * ZEN.vector_registers * LANES // 16
"""Rows of 16 columns that fill the registers twice."""


def test_scores_are_shares() -> None:
    assert 0 < score(tiled(4, 16)) <= 1


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(tiled(4, 16), tiled(1, 8), id="a tile that hides the latency of sums"),
        pytest.param(tiled(4, 16), tiled(TOO_MANY, 16), id="a tile that fits the registers"),
        pytest.param(tiled(4, 16), tiled(16, LANES // 4), id="whole vectors"),
        pytest.param(tiled(4, 16), schedule(matmul(256, COLUMNS, 256)), id="any tile over none"),
        pytest.param(
            tiled(4, 16).parallel("C", "i.0"), tiled(128, 16).parallel("C", "i.0"), id="balance"
        ),
    ],
)
def test_the_better_program_scores_higher(better: Schedule, worse: Schedule) -> None:
    assert score(better) > 1.2 * score(worse)


def test_all_cores_score_higher_where_there_are_several() -> None:
    alone, together = score(tiled(4, 16)), score(tiled(4, 16).parallel("C", "i.0"))
    assert together > 1.2 * alone if ZEN.cores > 1 else together <= alone


def test_a_panel_that_fits_the_cache_scores_higher() -> None:
    """A matmul of depth 4096, cut into slices of depth 128, against whole columns."""
    whole = tiled(4, 16, depth=4096)
    state = schedule(matmul(256, COLUMNS, 4096)).split("C", "k", [128])
    state = state.split("C", "i", [4]).split("C", "j", [16])
    sliced = state.reorder("C", ["k.0", "j.0", "i.0", "k.1", "i.1", "j.1"])
    sliced = sliced.unroll("C", "i.1").vectorize("C", "j.1")
    assert score(sliced) > score(whole)


def test_statements_add_up() -> None:
    features = extract_state(tiled(4, 16), ZEN)
    twice = np.concatenate([features, features], axis=1)
    model = RooflineModel()
    single, double = model.predict(features)[0], model.predict(twice)[0]
    assert 1 / double - 1 == pytest.approx(2 * (1 / single - 1), rel=1e-5)
