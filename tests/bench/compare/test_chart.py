"""The heights of the bars, and that both figures are written."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench.compare.chart import bars, draw
from tests.compare.test_figures import CANNOT, result, took


def test_heights_are_means_of_shares_normalised_to_the_best() -> None:
    cases = [
        result("GMM-1-b1", ansorc=took(1.0), torch=took(2.0), tvm=took(4.0)),
        result("GMM-2-b1", ansorc=took(1.0), torch=took(8.0), tvm=CANNOT),
    ]
    found = bars(cases, ["ansorc", "torch", "tvm", "halide"])
    assert found["ansorc"].height == pytest.approx(1.0)
    assert found["torch"].height == pytest.approx(0.25)
    assert found["torch"].deviation == pytest.approx(math.sqrt(2 * 0.1875**2))
    assert not found["torch"].is_partial
    assert found["tvm"].height == pytest.approx(0.25)
    assert found["tvm"].is_partial
    assert math.isnan(found["halide"].height)


def test_the_best_bar_is_one_though_each_side_is_best_once() -> None:
    cases = [
        result("GMM-1-b1", ansorc=took(1.0), torch=took(2.0)),
        result("GMM-2-b1", ansorc=took(4.0), torch=took(2.0)),
    ]
    found = bars(cases, ["ansorc", "torch"])
    assert found["ansorc"].height == pytest.approx(1.0)
    assert found["torch"].height == pytest.approx(1.0)


def test_figures_are_written(tmp_path: Path) -> None:
    cases = [
        result(name, ansorc=took(1.0), torch=took(2.0), halide=CANNOT)
        for name in ("GMM-1-b1", "GMM-1-b16", "C2D-1-b16", "TBS-1-b1")
    ]
    paths = draw(cases, {"cpu": "a test"}, 2, tmp_path)
    assert [path.name for path in paths] == [
        "operators-2-threads.svg", "operators-2-threads.png",
        "subgraphs-2-threads.svg", "subgraphs-2-threads.png"]  # fmt: skip
    assert all(path.stat().st_size > 5000 for path in paths)
    assert "<svg" in paths[0].read_text()


def test_no_figure_of_what_was_not_run(tmp_path: Path) -> None:
    paths = draw([result("TBS-1-b1", ansorc=took(1.0))], {"cpu": "a test"}, 1, tmp_path)
    assert [path.name for path in paths] == ["subgraphs-1-threads.svg", "subgraphs-1-threads.png"]
