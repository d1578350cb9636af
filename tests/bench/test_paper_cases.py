"""The paper's workloads, built with the default schedule, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.search.measure.check import Expectation, tolerance
from bench.paper_cases import CASES, SHAPES, Case, case
from tests.support.nightly import sampled
from tests.support.paper_reference import chosen_places, expected

CHECKED = 4096
SMALL = {"C1D": 2, "C2D": 2, "C3D": 2, "GMM": 1, "GRP": 4, "DIL": 4, "DEP": 3, "T2D": 4, "CAP": 3}
FAST = [Case(operator, SMALL.get(operator, 3), 1) for operator in SHAPES]


def check(one: Case) -> None:
    """Run a case on poisoned memory and compare 4096 elements or more, all corners included."""
    dag, rng = one.dag(), np.random.default_rng(one.number + one.batch)
    arrays = [rng.uniform(-1, 1, b.shape).astype(np.float32) for b in dag.inputs]
    arrays.append(np.full(dag.outputs[0].shape, np.nan, np.float32))
    ac.build(dag, name="kernel")(*arrays)
    result = arrays.pop()
    assert np.isfinite(result).all()
    places = chosen_places(result.shape, CHECKED, rng)
    wanted = expected(one.operator, one.shape, arrays, places)
    allowed = tolerance(dag, dag.outputs[0].name, wanted)
    verdict = Expectation(wanted, allowed).compare(result[places])
    assert not verdict.complaint


@pytest.mark.parametrize("one", sampled(FAST, FAST[1::3]), ids=lambda one: one.name)
def test_the_small_ones(one: Case) -> None:
    check(one)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_all(one: Case) -> None:
    check(one)


def test_the_table_is_complete() -> None:
    assert len(CASES) == len({one.name for one in CASES}) == 12 * 4 * 2
    assert case("T2D-1-b16") == Case("T2D", 1, 16)
    assert case("GRP-1-b1").dag().inputs[0].shape == (1, 224, 224, 4)
    with pytest.raises(LanguageError, match="no case 'C2D-5-b1'; write operator-number-bBATCH"):
        case("C2D-5-b1")


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("C2D-1-b1", 2 * 112 * 112 * 64 * 147),
        ("C3D-4-b16", 2 * 16 * 16 * 7 * 7 * 512 * 512 * 27),
        ("GMM-2-b16", 2 * 16 * 512 * 32 * 512),
        ("GRP-3-b1", 2 * 14 * 14 * 256 * 9 * 64),
        ("DEP-1-b1", 2 * 112 * 112 * 32 * 9),
        ("T2D-1-b1", 2 * 8 * 8 * 256 * 512 * 4),
        ("CAP-2-b1", 2 * 8 * 8 * 16 * 32 * 9 * 4 * 32),
        ("NRM-1-b16", 2 * 16 * 256 * 256),
        ("ConvLayer-4-b1", 7 * 7 * 512 * (2 * 9 * 512 + 3)),
        ("TBS-1-b1", 12 * 128 * 128 * (2 * 64 + 4)),
    ],
)
def test_operations_are_those_of_the_formulas(name: str, operations: int) -> None:
    assert case(name).dag(constant=True).flops == operations
