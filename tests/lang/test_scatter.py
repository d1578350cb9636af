"""`ac.scatter`: what it means, its text, and what it refuses in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import LanguageError, OutOfRangeError, ParseError
from ansorc.lang.reference import evaluate
from ansorc.lang.rounding import evaluate_with_rounding
from ansorc.lang.wanted_values import find_wanted_values
from tests.support.nightly import examples

REDUCE: dict[str, tuple[np.ufunc, float]] = {
    "add": (np.add, 0), "mul": (np.multiply, 1), "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}  # fmt: skip


@examples(12, nightly=200, options=settings(deadline=None))
@given(
    st.sampled_from(sorted(REDUCE)),
    st.sampled_from([(5,), (7, 3), (2, 2, 4)]),
    st.sampled_from([(), (3,), (2, 5)]),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_tensors(
    reduce: str, terms: tuple[int, ...], row: tuple[int, ...], dimensions: int, seed: int
) -> None:
    """Any number of dimensions of terms, of places and of rows, against `ufunc.at`."""
    places = (4, 2, 3)[:dimensions]
    indices = [ac.placeholder(terms, f"I{d}", "int32") for d in range(dimensions)]
    value = ac.placeholder((*terms, *row), "V")
    result = ac.scatter((*places, *row), indices, value, reduce, name="S")
    dag = ac.ComputeDAG([*indices, value, result])
    assert ac.ComputeDAG.from_text(dag.to_text()).to_text() == dag.to_text()
    rng = np.random.default_rng(seed)
    given_places = [rng.integers(0, extent, terms).astype(np.int32) for extent in places]
    given_value = rng.normal(size=(*terms, *row)).astype(np.float32)
    combine, identity = REDUCE[reduce]
    expected = np.full((*places, *row), identity, np.float64)
    combine.at(expected, tuple(given_places), given_value.astype(np.float64))
    found, (bound,) = evaluate_with_rounding(dag, [*given_places, given_value])
    np.testing.assert_allclose(found[0], expected)
    assert bound is None or (np.isfinite(bound).all() and (bound < 1e-3).all())
    module, out = ac.build(dag), np.full(expected.shape, np.nan, np.float32)
    module(*given_places, given_value, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_histogram() -> None:
    index = ac.placeholder(1000, "I", "uint8")
    dag = ac.ComputeDAG([index, ac.scatter(256, index, 1, name="H")])
    data = np.random.default_rng(0).integers(0, 256, 1000).astype(np.uint8)
    np.testing.assert_array_equal(ac.build(dag)(data), np.bincount(data, minlength=256))
    assert find_wanted_values(dag) == {}  # all bytes are bins
    assert dag.flops == 1000


def test_expressions_of_reduce_axes() -> None:
    """A place may follow the rest of the axes: PyTorch's `scatter_add` along dimension 0."""
    index = ac.placeholder((9, 4), "I", "int64")
    value = ac.placeholder((9, 4), "V")
    n = ac.reduce_axis((1, 9), "n")

    def term(d: ac.Scalar) -> ac.Scalar:
        return value[n, d] * 2

    product = ac.scatter((5, 4), index[n, 0] // 2, term, axis=n, name="P")
    dag = ac.ComputeDAG([index, value, product])
    assert "at s0 = I[n + 1, 0] // 2" in dag.to_text()
    rng = np.random.default_rng(0)
    places = rng.integers(0, 10, (9, 4))
    numbers = rng.random((9, 4), np.float32)
    expected = np.zeros((5, 4))
    np.add.at(expected, places[1:, 0] // 2, 2.0 * numbers[1:])
    np.testing.assert_allclose(evaluate(dag, [places, numbers])[0], expected)
    assert find_wanted_values(dag) == {"I": (0, 9)}


def test_init() -> None:
    index, first = ac.placeholder(6, "I", "int32"), ac.placeholder(3, "F")
    dag = ac.ComputeDAG([index, first, ac.scatter(3, index, 2.0, "max", init=first, name="S")])
    arrays = [np.array([0, 0, 2, 0, 2, 2], np.int32), np.array([5, -1, -1], np.float32)]
    np.testing.assert_array_equal(ac.build(dag)(*arrays), [5, -1, 2])


def test_bools() -> None:
    index, flag = ac.placeholder(4, "I", "int32"), ac.placeholder(4, "B", "bool")
    results = [ac.scatter(3, index, flag, word, name=word) for word in ("any", "all")]
    dag = ac.ComputeDAG([index, flag, *results])
    arrays = [np.array([0, 0, 2, 2], np.int32), np.array([True, False, True, True])]
    found = [np.zeros(3, bool), np.zeros(3, bool)]
    ac.build(dag)(*arrays, *found)
    assert [each.tolist() for each in found] == [[True, False, True], [False, True, True]]


def test_a_wrong_place_is_told_by_the_reference() -> None:
    index = ac.placeholder(3, "I", "int32")
    dag = ac.ComputeDAG([index, ac.scatter(3, index, 1, name="H")])
    with pytest.raises(OutOfRangeError, match="index 3 for dimension 0 of 'H'"):
        evaluate(dag, [np.array([0, 3, 1], np.int32)])


I = ac.placeholder(6, "I", "int32")  # noqa: E741
V, F = ac.placeholder((6, 2), "V"), ac.placeholder(6, "F")
N = ac.reduce_axis(6, "n")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ac.scatter(4, I, F, "mean"), "no reduce='mean'; use 'add', 'mul'"),
        (lambda: ac.scatter(4, I, F, "any"), "combines float32s by any; compare them first"),
        (lambda: ac.scatter((4, 2), [I, I, I], 1), "along 3 dimensions; give an index for each"),
        (lambda: ac.scatter(4, [], 1), "give a tensor for each dimension"),
        (lambda: ac.scatter(4, I[N], 1), "with axis= expressions of reduce axes"),
        (lambda: ac.scatter(4, I, F, axis=N), "are elements, like I.n.; leave axis out"),
        (lambda: ac.scatter((4, 2), [I, V], 1), "have several shapes"),
        (lambda: ac.scatter(4, F, 1), "is indexed by a float32; cast it to int64"),
        (lambda: ac.scatter((4, 2), I, ac.placeholder((5, 2))), "does not begin with the shape"),
        (lambda: ac.scatter((4, 3), I, V), "d0"),
        (lambda: ac.scatter(4, I, cast(Any, "one")), "give a tensor, a number or an element"),
        (lambda: ac.scatter((4, 2), I[N], lambda: 1, axis=N), "does not take 1 indices"),
        (lambda: ac.scatter(4, I, 1.0, init=V), "give init the same shape and dtype"),
        (lambda: ac.scatter(4, N, 1, axis=N), "adds to 'scatter' outside of it: index 0 is n"),
        (lambda: ac.scatter((4, 0), I, 1), "is empty"),
        (lambda: ac.scatter(4, I[ac.reduce_axis(6)], 1, axis=N), "does not reduce over it"),
    ],
)
def test_refusals(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        make()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("at s0 = cast(int64, I[n])", "at x = n", "has places along x; give one along each"),
        ("at s0 = cast(int64, I[n])", "at s0 = s0", "uses the axis 's0', along which"),
        ("at s0 = cast(int64, I[n])", "at s0 = I[n]", "a place of 'H' is int32, not int64"),
        ("sum over (n: 6) = 1\n    at s0 = cast(int64, I[n])", "= s0\n    at s0 = 0", "no sum"),
    ],
)
def test_texts_that_are_refused(old: str, new: str, words: str) -> None:
    text = ac.ComputeDAG([I, ac.scatter(4, I, 1, name="H")]).to_text()
    assert old in text
    with pytest.raises((LanguageError, ParseError), match=words):
        ac.ComputeDAG.from_text(text.replace(old, new))
