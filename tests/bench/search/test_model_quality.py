"""The figures that tell how good a cost model is."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ansorc.search.model.training import metrics
from bench.search.model_quality import mean_by_task


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


def test_what_the_k_best_hold() -> None:
    """Predicted first: the labels 0.2, 1.0, 0.6; the three best are 1.0, 0.8, 0.6."""
    predicted, actual = np.array([7.0, 6.0, 9.0, 1.0, 0.0]), np.array([1.0, 0.6, 0.2, 0.8, 0.4])
    found = [metrics(predicted, actual, k) for k in (1, 2, 3, 5)]
    assert [one.recall for one in found] == [0, 0.5, pytest.approx(2 / 3), 1]
    assert [one.peak for one in found] == [0.2, 1, 1, 1]


def test_predictions_that_rank_well_may_be_far_off() -> None:
    """The paper's model has no scale: its predictions may be negative."""
    found = metrics(np.array([3.0, 2.0, -1.0]), np.array([1.0, 0.5, 0.0]), k=1)
    assert (found.pairwise, found.recall, found.peak) == (1, 1, 1)
    assert found.rmse == pytest.approx(np.sqrt((4 + 2.25 + 1) / 3))
    assert found.r2 == pytest.approx(1 - 7.25 / 0.5)


def test_failed_programs_alone_have_no_peak() -> None:
    found = metrics(np.array([0.2, 0.1]), np.zeros(2))
    assert (found.peak, found.pairwise, found.r2) == (0, 1, 0)


def test_pairs_are_counted_as_the_definition_says() -> None:
    """On more programs than are compared at once."""
    rng = np.random.default_rng(0)
    actual = np.round(rng.random(700), 2)
    predicted = np.round(actual + 0.3 * rng.random(700), 1)
    right, pairs = 0.0, 0
    for (label, said), (other, other_said) in combinations(
        zip(actual.tolist(), predicted.tolist(), strict=True), 2
    ):
        if label != other:
            pairs += 1
            right += 0.5 if said == other_said else (said > other_said) == (label > other)
    assert metrics(predicted, actual).pairwise == pytest.approx(right / pairs)


def test_the_mean_over_tasks() -> None:
    """Task a is ordered rightly, task b wrongly; together three of the four pairs that differ."""
    predicted, actual = np.array([0.9, 0.4, 0.5, 0.6]), np.array([1.0, 0.5, 1.0, 0.5])
    found = mean_by_task(predicted, actual, ["a", "a", "b", "b"], k=1)
    assert (found.pairwise, found.recall, found.peak, found.k) == (0.5, 0.5, 0.75, 1)
    assert metrics(predicted, actual).pairwise == 0.75


def test_a_task_with_fewer_programs_than_are_looked_for_does_not_count() -> None:
    predicted, actual = np.array([0.9, 0.4, 0.3, 0.6]), np.array([0.5, 1.0, 0.9, 0.5])
    found = mean_by_task(predicted, actual, ["a", "a", "b", "a"], k=2)
    assert (found.recall, found.k) == (0.5, 2)
    alone = mean_by_task(predicted[:2], actual[:2], ["a", "b"], k=2)
    assert (alone.recall, alone.k) == (1, 1)
