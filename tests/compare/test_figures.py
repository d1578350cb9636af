"""The arithmetic of the comparison, and the results as values and as a file."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.compare.figures import geometric_mean, largest_error, median_ratio, quartiles
from bench.compare.result import FILE, CaseResult, Results, SideResult

TIMES = st.lists(st.floats(1e-7, 10.0), min_size=1, max_size=20)


def result(name: str = "GMM-1-b1", threads: int = 2, **sides: SideResult) -> CaseResult:
    operator = name.partition("-")[0]
    return CaseResult(
        name, operator, threads, 16, 1000, 400, "FMA peak", (0.8e-3, 0.8e-3), dict(sides)
    )


def took(*seconds: float, dispatch_s: float = 0.0) -> SideResult:
    return SideResult("program", seconds, dispatch_s=dispatch_s)


CANNOT = SideResult(gap="there is no such operator", gap_kind="cannot")


def test_errors_are_a_share_of_the_largest_element() -> None:
    expected = np.array([1.5, -10.0])
    assert largest_error(np.array([1.0, -8.0], np.float32), expected) == 0.2
    assert largest_error(np.array([True]), np.array([True])) == 0.0
    assert largest_error(np.array([0.25]), np.array([0.0])) > 1.0
    assert math.isnan(largest_error(np.array([math.nan]), np.array([1.0])))


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean(value for value in [0.5]) == pytest.approx(0.5)
    assert math.isnan(geometric_mean([]))


@given(TIMES, st.floats(0.1, 10.0))
def test_geometric_mean_scales_and_lies_between(times: list[float], factor: float) -> None:
    mean = geometric_mean(times)
    assert min(times) * (1 - 1e-9) <= mean <= max(times) * (1 + 1e-9)
    assert geometric_mean([time * factor for time in times]) == pytest.approx(mean * factor)


@given(TIMES)
def test_quartiles_are_in_order(times: list[float]) -> None:
    low, middle, high = quartiles(times)
    assert min(times) <= low <= middle <= high <= max(times)


@given(
    st.lists(st.tuples(st.floats(1e-5, 1.0), st.floats(0.5, 2.0)), min_size=1), st.floats(0.1, 9)
)
def test_paired_ratio_cancels_the_clock(turns: list[tuple[float, float]], ratio: float) -> None:
    """Both sides are slowed alike in each turn: the ratio is what it is without."""
    own = [time * slow for time, slow in turns]
    other = [time * ratio * slow for time, slow in turns]
    assert median_ratio(own, other) == pytest.approx(ratio)


def test_ratio_to_the_best_peer() -> None:
    case = result(
        ansorc=took(1e-3, 1e-3), torch=took(3e-3, 3e-3), tvm=took(2e-3, 2e-3), halide=CANNOT
    )
    assert case.best_peer() == "tvm"
    assert case.ratio("tvm") == pytest.approx(2.0)
    assert case.ratio("torch") == pytest.approx(3.0)
    assert case.ratio("halide") is None
    assert case.share("ansorc") == pytest.approx(0.8)
    assert case.share("halide") is None


def test_no_peer_is_best_where_all_have_gaps() -> None:
    case = result(ansorc=took(1e-3), halide=CANNOT)
    assert case.best_peer() is None


def test_the_cost_of_a_call_can_be_left_out() -> None:
    case = result(
        ansorc=took(1e-3), torch=took(3e-3, dispatch_s=1e-3), numpy=took(1e-3, dispatch_s=1.0)
    )
    assert case.ratio("torch", less_dispatch=True) == pytest.approx(2.0)
    assert case.ratio("numpy", less_dispatch=True) == pytest.approx(0.05)  # never below zero


def test_results_round_trip(tmp_path: Path) -> None:
    one = result(ansorc=took(1e-3, 2e-3), halide=CANNOT)
    two = replace(one, threads=1)
    held = Results({"cpu": "one"}, {Results.key(c.case, c.threads): c for c in (one, two)})
    held.write(tmp_path)
    found = Results.read(tmp_path)
    assert found == held
    assert held.of_threads(1) == [two]
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_there_are_no_results_yet(tmp_path: Path) -> None:
    assert Results.read(tmp_path) is None


@pytest.mark.parametrize("text", ["{", "{}", '{"schema": 0, "machine": {}, "cases": {}}'])
def test_damaged_results_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=r"results\.json cannot be read: .*another directory"):
        Results.read(tmp_path)
