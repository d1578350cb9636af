"""Pairs of weights whose products with bytes fit in int16."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.graph.importing.weight_pairs import largest_pairs, pairs_fit


def test_weights_of_one_sign_count_together() -> None:
    weight = np.array([[100, -3, 27], [29, -128, -99], [-7, 100, 100]], np.int8)
    assert largest_pairs(weight, 0).tolist() == [[129, 131, 99], [7, 100, 100]]
    assert largest_pairs(weight, 1).tolist() == [[100, 27], [128, 99], [100, 100]]
    assert largest_pairs(weight / 2, 0)[0].tolist() == [64.5, 65.5, 49.5]


@pytest.mark.parametrize(
    ("pair", "is_fitting"),
    [
        ((64, 64), True),
        ((127, 1), True),
        ((127, 2), False),
        ((-64, -65), False),
        ((-128, 127), True),
    ],
)
def test_pairs_fit_if_the_largest_bytes_do(pair: tuple[int, int], *, is_fitting: bool) -> None:
    weight = np.array(pair, np.int8).reshape(2, 1)
    assert pairs_fit(weight, 0) == is_fitting
    extreme = max(255 * sum(w for w in pair if w > 0), -255 * sum(w for w in pair if w < 0))
    assert (extreme < 2**15) == is_fitting


def test_other_weights_do_not_count() -> None:
    assert not pairs_fit(np.zeros((2, 2), np.int16), 0)
    assert not pairs_fit(np.zeros((2, 2), np.float32), 0)
