"""The node tests of the package `onnx`: a sample in this suite, all of them at night."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from ansorc.graph.onnx.converters import CONVERTERS
from bench.onnx_nodes import (
    REFUSED,
    RIGHT,
    WRONG,
    Outcome,
    disqualified,
    node_test,
    node_tests,
    outcome,
    outcomes,
)
from tests.graph.onnx.onnx_table import PAGE, page_with, table

LEAST_RIGHT = 1300
MODULES = (
    "affinegrid", "argmax", "bitwiseand", "bitshift", "clip", "compress", "concat", "cumsum",
    "depthtospace", "dft", "div", "dropout", "expand", "gather", "gathernd", "gelu",
    "gridsample", "hardmax", "isinf", "max", "mod", "negativeloglikelihoodloss",
    "nonmaxsuppression", "onehot", "pad", "pow", "prelu", "reduce_log_sum_exp", "reducel2",
    "reducemax", "reversesequence", "scatterelements", "scatternd", "slice", "softmax", "split",
    "squeeze", "tensorscatter", "tile", "topk", "trilu", "unsqueeze", "where", "xor",
)  # fmt: skip
REFUSED_TESTS = (
    "dropout_random", "nonmaxsuppression", "training_dropout", "triu_zero", "tril_zero",
    "slice_start_out_of_bounds", "split_zero_size",
)  # fmt: skip
"""Random, of a shape that depends on data, or without elements."""


@cache
def sample() -> Sequence[Outcome]:
    tests = [test for test in node_tests(MODULES) if not disqualified(test)]
    return [outcome(node_test(test)) for test in tests]


def test_a_sample_of_the_node_tests_is_right() -> None:
    found = sample()
    assert len({one.operator for one in found}) >= 35
    bad = [
        one
        for one in found
        if one.verdict != RIGHT
        and not (one.verdict == REFUSED and any(name in one.name for name in REFUSED_TESTS))
    ]
    assert not bad, bad


def test_a_shape_that_depends_on_data_is_refused_in_words() -> None:
    found = [one for one in sample() if one.operator == "NonMaxSuppression"]
    assert found
    for one in found:
        assert one.verdict == REFUSED
        assert "cut the network before it" in one.words


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("is_built", [False, True], ids=["float64", "built"])
def test_all_node_tests(is_built: bool) -> None:  # noqa: FBT001
    tests = [node_test(test) for test in node_tests() if not disqualified(test)]
    found = list(outcomes(tests, 2, is_built=is_built))
    assert [one for one in found if one.verdict == WRONG] == []
    assert sum(one.verdict == RIGHT for one in found) >= LEAST_RIGHT


def test_the_page_lists_the_operators() -> None:
    assert page_with(table()) == PAGE.read_text(), "run tests/graph/onnx/onnx_table.py"
    for name in CONVERTERS:
        assert f"`{name}`" in PAGE.read_text()
