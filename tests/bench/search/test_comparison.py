"""The figures that the search's benchmarks make of what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.search.comparison import Comparison, Run
from bench.search.finding import Figure, Finding, load, missed_goals, save, table

FAST = Run("full", 0, ((1, 4.0), (3, 2.0)), own_s=2.0, final_s=1.0, measured=4, failed=1)
SLOW = Run("full", 1, ((2, 4.0), (4, 1.5)), own_s=2.0, final_s=2.0, measured=4, failed=0)
OTHER = Run("beam", 0, ((1, 8.0), (4, 4.0)), own_s=4.0, final_s=4.0, measured=4, failed=0)
COMPARISON = Comparison("tiny", "a product", "a CPU", 2, 100.0, 200.0, 4, (FAST, SLOW, OTHER))


def test_curves_are_on_the_scale_of_the_times_taken_in_turns() -> None:
    assert FAST.seconds(4).tolist() == [2.0, 2.0, 1.0, 1.0]
    assert SLOW.seconds(4).tolist() == [np.inf, 4.0, 4.0, 2.0], "a lucky time does not count"


def test_shares_are_of_the_best_program_of_all_runs() -> None:
    assert COMPARISON.variants == ("full", "beam")
    assert COMPARISON.best_s == 1.0
    assert COMPARISON.shares("full").tolist() == [[0.5, 0.5, 1.0, 1.0], [0.0, 0.25, 0.25, 0.5]]
    assert COMPARISON.shares("beam").tolist() == [[0.125, 0.125, 0.125, 0.25]]


def test_the_ratio_is_that_of_the_medians() -> None:
    assert COMPARISON.ratio("beam", 4) == 3.0
    assert COMPARISON.ratio("full", 4) == 1.0


def test_a_comparison_is_read_as_it_was_written(tmp_path: Path) -> None:
    COMPARISON.save(tmp_path / "new" / "it.json")
    assert Comparison.load(tmp_path / "new" / "it.json") == COMPARISON


FOUND = Finding(
    "conv7", 0, trials=200, measured=200, failed=3, peak_share=0.9, seconds=1.0, default_s=1.6,
    wall_s=40.0, working_s=36.0, curve=((1, 2.0, 1.6), (30, 9.0, 1.05), (180, 33.0, 1.0)),
)  # fmt: skip


def test_what_a_run_took() -> None:
    assert FOUND.rate == 5.0
    assert FOUND.search_share == pytest.approx(0.1)
    assert FOUND.default_ratio == 0.625
    assert FOUND.enough_s == 9.0


def test_findings_are_read_as_they_were_written(tmp_path: Path) -> None:
    findings = [FOUND, replace(FOUND, seed=1, long_trials=1000, long_ratio=0.98)]
    save(findings, tmp_path / "new" / "it.json")
    assert load(tmp_path / "new" / "it.json") == findings
    assert load(tmp_path / "none.json") == []


def test_a_missed_goal_is_told_of() -> None:
    shares = [replace(FOUND, peak_share=share) for share in (0.9, 0.96, 0.94)]
    floor = Figure("share", lambda f: f.peak_share, ".0%", {"conv7": 0.93})
    assert floor.cell(shares) == "94% (90% to 96%)"
    assert floor.missed(shares) == ""
    assert floor.cell(shares[:1]) == "90%"
    assert floor.missed(shares[:1]) == "conv7: share 90%, goal 93%"
    ceiling = Figure("share", lambda f: f.peak_share, ".0%", {"": 0.93}, is_ceiling=True)
    assert ceiling.missed(shares) == "conv7: share 94%, goal 93%"
    assert ceiling.missed(shares[:1]) == ""
    assert Figure("s", lambda f: f.wall_s, ".0f", {"conv14": 1.0}).missed(shares) == ""


def test_the_long_run_counts_once_every_run_has_one() -> None:
    other = replace(FOUND, case="conv14", peak_share=0.95)
    assert missed_goals([FOUND, other]) == ["conv7: of the FMA peak 90.0%, goal 93.0%"]
    longer = [replace(f, long_trials=1000, long_ratio=0.9) for f in (FOUND, other)]
    assert len(missed_goals(longer)) == 3
    assert missed_goals(longer)[-1] == "conv14: of the long run's speed 90.0%, goal 97.0%"
    assert len(table(longer).rows) == len(table([FOUND, other]).rows) + 1
