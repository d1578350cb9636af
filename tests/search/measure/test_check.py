"""What counts as right: rounding passes, a missing term does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ansorc.lang import ComputeDAG, Reduction, compute, maximum, placeholder, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.search.measure.check import (
    Comparison,
    Expectation,
    Reference,
    Tolerance,
    reduction_length,
    tolerance,
)
from tests.support.nightly import examples


def compare(actual: NDArray[np.generic], reference: Reference, allowed: Tolerance) -> Comparison:
    return Expectation(reference, allowed).compare(actual)


def matmul(n: int, length: int) -> ComputeDAG:
    a = placeholder((n, length), name="A")
    b = placeholder((length, n), name="B")
    k = reduce_axis(length, name="k")

    def product(i: Scalar, j: Scalar) -> Reduction:
        return sum(a[i, k] * b[k, j], axis=k)

    c = compute((n, n), product, name="C")

    def relu(i: Scalar, j: Scalar) -> Scalar:
        return maximum(c[i, j], 0.0)

    d = compute((n, n), relu, name="D")
    return ComputeDAG([a, b, d])


def test_the_reduction_length_follows_the_chain_of_stages() -> None:
    assert reduction_length(matmul(8, 512), "D") == (512, 2)


@examples(6, nightly=25)
@given(st.integers(0, 2**32), st.sampled_from([1, 7, 64, 1000, 5000]), st.sampled_from([1, -1]))
def test_float32_sums_in_any_order_pass_and_a_missing_term_does_not(
    seed: int, length: int, direction: int
) -> None:
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (16, length)).astype(np.float32)
    b = rng.uniform(-1, 1, (length, 16)).astype(np.float32)
    reference = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    allowed = tolerance(matmul(16, length), "D", reference)
    total: NDArray[np.float32] = np.zeros((16, 16), np.float32)
    for k in range(length)[::direction]:
        total += a[:, k, None] * b[k]
    verdict = compare(np.maximum(total, np.float32(0)), reference, allowed)
    assert verdict.complaint == ""
    assert verdict.max_error < 0.5, "the tolerance should leave room for other orders"
    missing = np.maximum(total - a[:, 0, None] * b[0], np.float32(0))
    assert compare(missing, reference, allowed).complaint


FLOATS = Tolerance(relative=1e-6, scale=1.0)


@pytest.mark.parametrize(
    ("got", "wanted", "is_right"),
    [
        (1.0, 1.0, True),
        (1.0, 1.0 + 5e-7, True),
        (1.0, 1.0 + 5e-6, False),
        (0.0, 5e-7, True),
        (np.nan, 1.0, False),
        (np.nan, np.nan, True),
        (1.0, np.nan, False),
        (np.inf, 1e300, True),  # beyond float32
        (np.inf, 1.0, False),
        (-np.inf, 1e300, False),
        (3e38, np.inf, False),
    ],
)
def test_special_values(got: float, wanted: float, *, is_right: bool) -> None:
    actual = np.full((3, 4), 1.0, np.float32)
    reference = np.full((3, 4), 1.0)
    actual[2, 1], reference[2, 1] = got, wanted
    verdict = compare(actual, reference, FLOATS)
    assert (not verdict.complaint) == is_right
    if not is_right:
        assert "element [2, 1]" in verdict.complaint


def test_integers_must_be_equal() -> None:
    exact = Tolerance(0.0, 0.0)
    reference = np.arange(6.0).reshape(2, 3)
    actual = reference.astype(np.int32)
    assert not compare(actual, reference, exact).complaint
    actual[1, 2] += 1
    assert "element [1, 2] is 6" in compare(actual, reference, exact).complaint


def test_scalars_and_large_arrays_can_be_compared() -> None:
    assert not compare(np.asarray(2.0, np.float32), np.asarray(2.0), FLOATS).complaint
    reference = np.ones(600_000)
    actual = reference.astype(np.float32)
    actual[599_999] = 2
    assert "element [599999]" in compare(actual, reference, FLOATS).complaint
