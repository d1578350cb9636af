"""Reductions of tuples and several outputs: meaning, text, names, refusals, and all steps."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc.errors import LanguageError, ParseError, ScheduleError
from ansorc.ir.interpret import interpret
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import State, lower, replay
from ansorc.search.default import default_steps
from ansorc.target import Target

Array = NDArray[Any]
A = ac.placeholder((6, 11), "A")
X = np.random.default_rng(0).normal(size=(6, 11)).astype(np.float32)
SPECIAL = X.copy()
SPECIAL[0, 4] = SPECIAL[0, 7] = np.nan
SPECIAL[1], SPECIAL[2], SPECIAL[3] = -np.inf, np.inf, 1.5
SPECIAL[4, 2] = SPECIAL[4, 9] = 100.0
SPECIAL[5, :2] = -0.0, 0.0


def places(find: Callable[..., ac.TupleReduction] = ac.argmax) -> tuple[ac.Tensor, ...]:
    k = ac.reduce_axis(11, "k")
    return ac.compute_tuple(6, lambda i: find(A[i, k], axis=k), ["V", "I"])


def best(find: Callable[..., ac.TupleReduction] = ac.argmax) -> ComputeDAG:
    return ComputeDAG([A, *places(find)])


def outputs(dag: ComputeDAG) -> list[Array]:
    return [
        np.full(b.shape, np.nan if b.dtype.is_float else -7, b.dtype.numpy) for b in dag.outputs
    ]


def interpreted(state: State, *inputs: Array) -> list[Array]:
    found = outputs(state.dag)
    interpret(lower(state), [*inputs, *found], fresh_outputs=True)
    return found


def compiled(program: State | ComputeDAG, *inputs: Array) -> list[Array]:
    found = outputs(program if isinstance(program, ComputeDAG) else program.dag)
    ac.build(program)(*inputs, *found)
    return found


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes_are_those_of_numpy(name: str) -> None:
    dag = best(getattr(ac, name))
    value, place = getattr(np, name.removeprefix("arg")), getattr(np, name)
    for found in (
        evaluate(dag, [SPECIAL]),
        interpreted(ac.schedule(dag), SPECIAL),
        compiled(dag, SPECIAL),
    ):
        np.testing.assert_array_equal(found[1], place(SPECIAL, axis=1))
        np.testing.assert_array_equal(found[0], value(SPECIAL, axis=1))


def test_over_several_axes_the_place_is_that_in_row_major_order() -> None:
    i, j = ac.reduce_axis(6, "i"), ac.reduce_axis(11, "j")
    both = ac.compute_tuple((), lambda: ac.argmin(A[i, j], axis=[i, j]), "B")
    assert [tensor.name for tensor in both] == ["B.0", "B.1"]
    found = compiled(ComputeDAG([A, *both]), X)
    assert found[1] == np.argmin(X)
    assert found[0] == X.min()


def test_integers_and_a_shifted_axis() -> None:
    n = ac.placeholder(9, "N", "int32")
    k = ac.reduce_axis((2, 8), "k")
    both = ac.compute_tuple((), lambda: ac.argmax(n[k], axis=k), "B")
    array = np.array([9, 9, -4, 7, 3, 7, -9, 1, 9], np.int32)
    for found in (
        evaluate(ComputeDAG([n, *both]), [array]),
        compiled(ComputeDAG([n, *both]), array),
    ):
        assert [int(value) for value in found] == [7, 3]


STEPS: list[Callable[[ac.Schedule], ac.Schedule]] = [
    lambda s: s.reorder("V", ["k", "i"]).vectorize("V", "i"),
    lambda s: s.reorder("V", ["k", "i"]).unroll("V", "i"),
    lambda s: s.split("V", "i", [4]).reorder("V", ["i.0", "k", "i.1"]).parallel("V", "i.0"),
    lambda s: s.split("V", "k", [4]).rfactor("V", "k.1"),
    lambda s: s.split("V", "k", [4]).rfactor("V", "k.0").parallel("V.rf", "i"),
    lambda s: s.split("V", "k", [4]).rfactor("V", "k.1")
    .reorder("V.rf", ["i", "k.0", "k.1"]).vectorize("V.rf", "k.1"),
    lambda s: s.cache_write("V").compute_at("V.local", "V", "i"),
    lambda s: s.cache_write("V").split("V", "i", [2]).compute_at("V.local", "V", "i.0")
    .reorder("V.local", ["k", "i"]).vectorize("V.local", "i").vectorize("V", "i.1"),
    lambda s: s.cache_read("A", "local", ["V"]).compute_at("A.local", "V", "i"),
]  # fmt: skip


@pytest.mark.parametrize("steps", STEPS)
def test_schedules_keep_the_meaning(steps: Callable[[ac.Schedule], ac.Schedule]) -> None:
    state = steps(ac.schedule(best()))
    for found in (interpreted(state, SPECIAL), compiled(state, SPECIAL)):
        np.testing.assert_array_equal(found[0], SPECIAL.max(axis=1))
        np.testing.assert_array_equal(found[1], np.argmax(SPECIAL, axis=1))


def welford(a: tuple[Scalar, ...], b: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """(mean, squared distances to it, count) of two parts of a sample."""
    count = a[2] + b[2]
    share = ac.if_then_else(count > 0, b[2] / ac.maximum(count, 1), 0.0)
    step = b[0] - a[0]
    return a[0] + step * share, a[1] + b[1] + step * step * a[2] * share, count


@pytest.mark.parametrize("is_split", [False, True])
def test_mean_and_variance_in_one_pass(is_split: bool) -> None:  # noqa: FBT001
    k = ac.reduce_axis(11, "k")
    moments = ac.reducer(welford, (0, 0, 0), "welford")
    m, s, _ = ac.compute_tuple(6, lambda i: moments(A[i, k], 0.0, 1.0, axis=k), ["M", "S", "N"])
    variance = ac.compute(6, lambda i: s[i] / 11.0, "variance")
    dag = ComputeDAG([A, m, variance])
    state = ac.schedule(dag)
    if is_split:
        state = state.split("M", "k", [4]).rfactor("M", "k.1").compute_at("M.rf", "M", "i")
    shifted = X + np.float32(1000)
    exact = shifted.astype(np.float64)
    reference = evaluate(dag, [shifted])
    np.testing.assert_allclose(reference[0], exact.mean(axis=1), 1e-12)
    np.testing.assert_allclose(reference[1], exact.var(axis=1), 1e-9)
    for found in (interpreted(state, shifted), compiled(state, shifted)):
        np.testing.assert_allclose(found[0], exact.mean(axis=1), 1e-6)
        np.testing.assert_allclose(found[1], exact.var(axis=1), 2e-3)


def test_one_computation_fills_two_tensors_and_each_can_be_read() -> None:
    s, d = ac.compute_tuple(
        (6, 11), lambda i, j: (A[i, j] + 1.0, ac.cast(A[i, j], "int32")), ["S", "D"]
    )
    r = ac.compute((6, 11), lambda i, j: s[i, j] * 2.0, "R")
    dag = ComputeDAG([A, r, d])
    assert dag.readers("S") == ("R",)
    assert dag.producers("R") == ("S",)
    assert [len(op.buffers) for op in dag.ops] == [2, 1]
    for found in (
        evaluate(dag, [X]),
        compiled(dag, X),
        interpreted(replay(dag, default_steps(dag, Target.parse("native"))), X),
    ):
        np.testing.assert_allclose(found[0], (X + 1) * 2, 1e-6)
        np.testing.assert_array_equal(found[1], X.astype(np.int32))


def test_a_computation_of_two_tensors_can_be_inlined() -> None:
    p = ac.compute_tuple((6, 11), lambda i, j: (A[i, j] + 1.0, A[i, j] * 3.0), ["P", "Q"])
    r = ac.compute((6, 11), lambda i, j: p[0][i, j] * p[1][i, j], "R")
    state = ac.schedule(ComputeDAG([A, r])).compute_inline("P")
    np.testing.assert_allclose(interpreted(state, X)[0], (X + 1) * (X * 3), 1e-5)


TEXT = """\
input A: float32[6, 11]
compute S: float32[6] (i: 6) tuple over (k: 11) = A[i, k]
    also Q: float32[6] = A[i, k] * A[i, k]
    combine from 0.0 = l0 + r0
    combine from 0.0 = l1 + r1
params A, S, Q
"""


def test_text_key_and_pickle() -> None:
    k = ac.reduce_axis(11, "k")
    moments = ac.reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0, 0))
    both = ac.compute_tuple(6, lambda i: moments(A[i, k], A[i, k] * A[i, k], axis=k), ["S", "Q"])
    dag = ComputeDAG([A, *both])
    assert dag.to_text() == TEXT
    for one in (dag, best(), best(ac.argmin)):
        assert ComputeDAG.from_text(one.to_text()) == one
        assert pickle.loads(pickle.dumps(one)) == one
    assert len({dag.key, best().key, best(ac.argmin).key}) == 3
    assert ComputeDAG([A, both[1], both[0]]).key != dag.key
    assert ComputeDAG([A, both[1]]).to_text().startswith(TEXT.rpartition("params")[0])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    combine from 0.0 = l1 + r1\n", "", "is not one of 2 values"),
        ("l1 + r1", "l1 + A[0, 0]", "there is no buffer 'A'"),
        ("from 0.0 = l1", "from l0 = l1", "l0"),
        ("tuple over", "sum over", "'S' is not a reduction of tuples"),
        ("    also Q: float32[6]", "    also Q: float32[5]", "do not match the shape"),
        ("    also Q: float32[6]", "    also S: float32[6]", "two tensors 'S'"),
    ],
)
def test_bad_text_is_refused(old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises((ParseError, LanguageError), match=words):
        ComputeDAG.from_text(TEXT.replace(old, new))


def sum_of_first(a: Any, b: Any) -> Any:
    return (a[0] + b[0],)


def not_a_tuple(a: Any, b: Any) -> Any:
    return a[0] + b[0]


def reading(a: Any, b: Any) -> Any:
    return (a[0] + b[0] + A[0, 0],)


def comparing(a: Any, b: Any) -> Any:
    return (a[0] > b[0],)


@pytest.mark.parametrize(
    ("combine", "identities", "words"),
    [
        (sum_of_first, (0, 0), "'mine' has 2 identities, but is given 1 terms"),
        (sum_of_first, (0.5j,), "a complex64 is where a real number is needed"),
        (sum_of_first, (A[0, 0],), "identities .* must be numbers"),
        (sum_of_first, (ac.const(0.0, "float64"),), "begins at a float64, but its term is float32"),
        (not_a_tuple, (0,), "return a tuple of 1"),
        (reading, (0,), "'mine' reads 'A'"),
        (comparing, (0,), "is bool from float32, but its term is"),
    ],
)
def test_wrong_reducers_are_refused(combine: Any, identities: Any, words: str) -> None:
    k = ac.reduce_axis(11, "k")
    with pytest.raises(LanguageError, match=words):
        ac.reducer(combine, identities, "mine")(A[0, k], axis=k)
    with pytest.raises(LanguageError, match="mine needs axis="):
        ac.reducer(combine, identities, "mine")(A[0, 0], axis=[])


def test_wrong_tuples_are_refused() -> None:
    k, low = ac.reduce_axis(11, "k"), ac.reduce_axis((1, 3), "low")
    largest: Any = ac.argmax(A[0, k], axis=k)
    define: Any = ac.compute_tuple
    with pytest.raises(LanguageError, match="returned 2 values; use compute_tuple"):
        ac.compute((), lambda: largest, "B")
    with pytest.raises(LanguageError, match="return a tuple of expressions"):
        define((), lambda: A[0, 0], "B")
    with pytest.raises(LanguageError, match="2 tensors are computed, but the names are"):
        define((), lambda: largest, ["B"])
    with pytest.raises(LanguageError, match="must be all that the function"):
        define((), lambda: (largest + 1, 2), "B")
    with pytest.raises(LanguageError, match="counts from 0"):
        ac.argmax(A[low, k], axis=[low, k])
    with pytest.raises(ScheduleError, match="is a reduction; use compute_at"):
        ac.schedule(best()).compute_inline("V")
    value, place = places()
    read = ac.compute(6, lambda i: value[i] + 1.0, "R")
    with pytest.raises(ScheduleError, match="is an output"):
        ac.schedule(ComputeDAG([A, place, read])).compute_at("V", "R", "i")
