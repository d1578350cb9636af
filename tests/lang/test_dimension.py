"""Definitions with dimensions whose size the caller gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import ArgumentError, LanguageError


def _mean_rows() -> ac.ComputeDAG:
    n, m = ac.dim("n", 1, 50), ac.dim("m", 8, 64, 8)
    x = ac.placeholder((n, m), name="x")
    k = ac.reduce_axis(x.shape[0], name="k")
    mean = ac.compute((m,), lambda j: ac.sum(x[k, j], axis=k) / n, name="mean")
    y = ac.compute((n, m), lambda i, j: x[i, j] - mean[j], name="y")
    return ac.ComputeDAG([x, y])


def test_a_definition_holds_at_every_size() -> None:
    dag = _mean_rows()
    assert [str(dim) for dim in dag.dims] == ["m: 8..64 by 8", "n: 1..50"]
    for n, m in ((1, 8), (7, 16), (50, 64)):
        x = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
        expected = x.astype(np.float64) - x.astype(np.float64).mean(axis=0)
        np.testing.assert_allclose(dag.evaluate(x), expected, atol=1e-12)
        np.testing.assert_allclose(dag.interpret(x), expected, atol=1e-5)
        assert dag.at({"n": n, "m": m}).inputs[0].shape == (n, m)


def test_text_and_key_name_the_dimensions() -> None:
    dag = _mean_rows()
    assert ac.ComputeDAG.from_text(dag.to_text()) == dag
    assert "dim n: 1..50\n" in dag.to_text()
    assert "input x: float32[n of 50, m of 64]\n" in dag.to_text()
    known = dag.at({"n": 50, "m": 64})
    assert len({dag.key, known.key, dag.within({"n": (1, 9)}).key}) == 3


def test_a_part_of_a_range_is_a_definition() -> None:
    dag = _mean_rows().within({"n": (3, 9), "m": (10, 20)})
    assert [str(dim) for dim in dag.dims] == ["n: 3..9"]  # 16 is the only multiple of 8
    assert dag.inputs[0].extents[1] == 16


def _refused(build: Callable[[], object], words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        build()


def test_dimensions_are_checked() -> None:
    _refused(lambda: ac.dim("n", 0, 4), "give 1 or more")
    _refused(lambda: ac.dim("n", 5, 4), "no multiple of 1 is in 5..4")
    _refused(lambda: ac.dim("n", 33, 63, 32), "no multiple of 32 is in 33..63")
    _refused(lambda: ac.dim("a b", 1, 4), "give it a name of letters")
    _refused(lambda: ac.dim("n", 1, 1 << 50), "at most 2\\*\\*40")


def test_reads_stay_inside_for_every_size() -> None:
    n, m = ac.dim("n", 1, 50), ac.dim("m", 1, 50)
    x = ac.placeholder((n, 8), name="x")
    _refused(lambda: ac.compute((n,), lambda i: x[i + 1, 0]), "that is 1 .. n, but the extent")
    _refused(lambda: ac.compute((m,), lambda i: x[i, 0]), "that is 0 .. m - 1, but the extent")
    _refused(lambda: ac.compute((9,), lambda i: x[i, 0]), "may read 'x' outside of it")
    y = ac.compute((n,), lambda i: ac.if_then_else(i < n - 1, x[i + 1, 0], 0.0), name="y")
    assert y.shape == (n,)
    _refused(
        lambda: ac.compute((n,), lambda i: ac.if_then_else(i < n, x[i + 1, 0], 0.0)),
        "reads 'x' outside of it",
    )


def test_inputs_tell_every_size() -> None:
    n, m = ac.dim("n", 1, 50), ac.dim("m", 1, 50)
    x = ac.placeholder((n * m,), name="x")
    y = ac.compute((n * m,), lambda i: x[i], name="y")
    _refused(lambda: ac.ComputeDAG([x, y]), "no input has the dimension 'm' as an extent")
    a = ac.placeholder((8,), name="a")
    b = ac.compute((8,), lambda i: a[i] * n, name="b")
    _refused(lambda: ac.ComputeDAG([a, b]), "uses the dimension 'n', which no input has")
    other = ac.placeholder((ac.dim("n", 1, 60),), name="other")
    c = ac.compute((n,), lambda i: ac.placeholder((n,), name="z")[i], name="c")
    _refused(lambda: ac.ComputeDAG([other, c]), "not listed|make it once")


def test_calls_of_other_sizes_are_refused() -> None:
    dag = _mean_rows()
    for shape, words in (
        ((51, 8), "was built for n: 1..50, but dimension 0 of 'x' is 51"),
        ((3, 9), "was built for m: 8..64 by 8, but dimension 1 of 'x' is 9"),
        ((3,), "takes 'x' of 2 dimensions"),
    ):
        with pytest.raises(ArgumentError, match=words):
            dag.evaluate(np.zeros(shape, np.float32))
    _refused(lambda: dag.at({"n": 0, "m": 8}), "n = 0 is not in the range of")
    _refused(lambda: dag.at({"n": 1, "m": 8, "k": 3}), "there is no dimension 'k'")


def test_what_needs_known_extents_says_so() -> None:
    n = ac.dim("n", 1, 50)
    x = ac.placeholder((n,), name="x")
    _refused(
        lambda: ac.compute((n,), lambda t: ac.scan(0.0, lambda s: s + x[t], axis=t)),
        "is a scan along a dimension",
    )
    i = ac.placeholder((n,), name="i", dtype="int32")
    _refused(lambda: ac.scatter((n,), i, x), "is not supported")
    _refused(lambda: ac.placeholder((n,), name="z", dtype="complex64"), "is not supported")
