"""The cases of `python -m bench operators`: enough of them, each with its source."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from bench.operators.case import OperatorCase
from bench.operators.cases import CASES
from bench.operators.command import OperatorResult


def test_cases_have_names_of_their_own_and_sources() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.source for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_case_is_a_definition_of_its_arrays(case: OperatorCase) -> None:
    inputs = {buffer.name: buffer.shape for buffer in case.dag().inputs}
    assert inputs == {**case.data, **case.weights}


def test_an_image_goes_to_other_libraries_channels_first_and_back() -> None:
    case = next(one for one in CASES if one.name == "depthwise-7x7x960")
    arrays = case.peer_arrays()
    assert arrays["X"].shape == (1, 960, 7, 7)
    assert arrays["W"].shape == (960, 1, 3, 3)
    np.testing.assert_array_equal(case.restored(arrays["X"]), case.arrays()["X"])


def test_a_result_is_compared_with_each_peer_turn_by_turn() -> None:
    result = OperatorResult("x", "norm", {"ansorc": [1.0, 2.0, 4.0], "torch": [2.0, 4.0, 8.0]})
    assert result.ratios("ansorc") == {"torch": 2.0}
    assert result.ratios("machine code") == {}


def test_a_small_case_is_right() -> None:
    case = next(one for one in CASES if one.name == "argmax-4096x10")
    arrays = case.arrays()
    found = ac.build(case.dag())(arrays["X"])
    np.testing.assert_array_equal(found, arrays["X"].argmax(-1))
