"""The figures that tell how good a cost model is."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.search.model.metrics import metrics


def test_a_perfect_prediction() -> None:
    actual = np.array([1.0, 0.5, 0.25, 0.0])
    found = metrics(actual, actual, k=2)
    assert (found.rmse, found.r2, found.pairwise, found.recall, found.peak) == (0, 1, 1, 1, 1)


def test_numbers_by_hand() -> None:
    """Of the six pairs the first two are swapped; the best of the two first is 0.8."""
    found = metrics(np.array([0.4, 0.9, 0.8, 0.1]), np.array([1.0, 0.8, 0.6, 0.2]), k=2)
    assert found.rmse == pytest.approx(np.sqrt((0.36 + 0.01 + 0.04 + 0.01) / 4))
    assert found.r2 == pytest.approx(1 - 0.42 / 0.35)
    assert found.pairwise == pytest.approx(4 / 6)
    assert (found.recall, found.peak) == (0.5, 0.8)


def test_ties_count_one_half() -> None:
    assert metrics(np.zeros(3), np.array([1.0, 0.5, 0.2])).pairwise == 0.5


def test_equal_labels_have_no_order() -> None:
    found = metrics(np.array([0.1, 0.9]), np.array([0.5, 0.5]))
    assert (found.r2, found.pairwise, found.k) == (0, 1, 2)
