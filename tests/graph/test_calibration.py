"""Ranges of tensors: what each method makes of data whose distribution is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.calibration import CalibrationMethod, Range, find_ranges, samples_of
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32, INT64
from tests.support.nightly import examples

COUNT = 1 << 15


def copied() -> ac.Graph:
    """A network whose tensor `y` is what it is given, cut off at 0."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (COUNT,)))
    return builder.graph([builder.add("relu", [x], "y")])


def range_of(values: Array, method: CalibrationMethod, tensor: str = "x") -> Range:
    graph = copied()
    samples = samples_of(graph, {"x": values.astype(np.float32)})
    return find_ranges(graph, [tensor], samples, method)[tensor]


def test_the_whole_range_holds_0() -> None:
    values = np.random.default_rng(0).uniform(2.0, 3.0, (2, COUNT))
    low, high = range_of(values, "minmax")
    assert low == 0.0
    assert high == np.float32(values.max())
    assert range_of(-values, "minmax") == (np.float32(-values.max()), 0.0)


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 100.0))
@examples(3, nightly=40)
def test_a_percentile_leaves_few_numbers_beyond(seed: int, width: float) -> None:
    values = np.random.default_rng(seed).normal(0.0, width, (2, COUNT)).astype(np.float32)
    low, high = range_of(values, "percentile")
    assert values.min() <= low < 0 < high <= values.max()
    assert np.count_nonzero((values < low) | (values > high)) <= 1e-4 * values.size


@given(st.integers(0, 2**32 - 1))
@examples(3, nightly=40)
def test_an_outlier_is_cut_off_by_entropy_and_percentiles(seed: int) -> None:
    values = np.random.default_rng(seed).normal(0.0, 1.0, COUNT).astype(np.float32)
    values[7] = 30.0
    assert range_of(values, "minmax")[1] == 30.0
    for method in ("percentile", "entropy"):
        low, high = range_of(values, method)
        assert 2.0 < high < 20.0
        assert low < 0


def test_zeros_of_a_relu_do_not_count() -> None:
    """Half of the numbers are 0, which a spike in a histogram would make of them."""
    values = np.random.default_rng(0).normal(0.0, 1.0, (4, COUNT)).astype(np.float32)
    low, high = range_of(values, "entropy", "y")
    assert low == 0.0
    assert high > 3.0


def test_few_numbers_have_no_distribution() -> None:
    values = np.zeros(COUNT, np.float32)
    values[:100] = np.random.default_rng(0).normal(0.0, 1.0, 100)
    assert range_of(values, "entropy") == range_of(values, "minmax")


@pytest.mark.parametrize(
    ("shape", "calls"), [((2, 3), 1), ((5, 2, 3), 5), ((8, 3), 4), ((1, 2, 3), 1)]
)
def test_data_is_divided_into_calls(shape: tuple[int, ...], calls: int) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    graph = builder.graph([builder.add("relu", [x])])
    data = np.random.default_rng(0).normal(size=shape)
    samples = samples_of(graph, {"x": data})
    assert len(samples) == calls
    joined = np.concatenate([sample["x"] for sample in samples])
    np.testing.assert_array_equal(joined.reshape(shape), data.astype(np.float32))


def two_inputs() -> ac.Graph:
    builder = GraphBuilder("both")
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    k = builder.input("k", TensorType(INT64, (2, 3)))
    return builder.graph([builder.add("add", [x, builder.add("cast", [k], dtype="float32")])])


X, K = np.zeros((4, 2, 3)), np.zeros((4, 2, 3), np.int64)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"x": X}, "the calibration of 'both' has nothing for the input 'k'; it takes 'x', 'k'"),
        ({"x": X, "k": K, "z": X}, "is for no input 'z'"),
        ({"x": X, "k": K[:3]}, "different numbers of calls: 4 for 'x', 3 for 'k'"),
        ({"x": X, "k": K.astype(np.float32)}, "'k' is float32, and the network takes int64"),
        ({"x": X[..., :2], "k": K}, r"'x' has the shape \[4, 2, 2\]; the network takes float32"),
        ({"x": X[0, :1], "k": K}, r"'x' has the shape \[1, 3\]"),
    ],
)
def test_data_that_does_not_fit_is_refused(data: dict[str, Array], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        samples_of(two_inputs(), data)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    values = np.ones((3, COUNT))
    values[1, 3] = number
    with pytest.raises(GraphError, match=r"'x' is not finite with the data .* leave out such"):
        range_of(values, "minmax")
