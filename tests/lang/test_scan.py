"""Definitions of scans: what they mean in NumPy, their text, and what is refused, by its words."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.lang.reference import evaluate
from ansorc.lang.rounding import evaluate_with_rounding

A = ac.placeholder((4, 8), "A")
START = ac.placeholder((4,), "start")
DATA = np.random.default_rng(0).uniform(-1, 1, (4, 8)).astype(np.float32)
FIRST = np.arange(4, dtype=np.float32)


def by_hand(
    step: Callable[[Any, Any], Any], init: Any, data: np.ndarray, *, back: bool = False
) -> np.ndarray:
    """The states along the last axis of `data`, one after the other."""
    state, result = np.broadcast_to(init, data.shape[:-1]).astype(np.float64), np.zeros(data.shape)
    for t in reversed(range(data.shape[-1])) if back else range(data.shape[-1]):
        state = step(state, data[..., t].astype(np.float64))
        result[..., t] = state
    return result


STEPS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "sum": (lambda s, x: s + x, lambda s, x: s + x),
    "difference": (lambda s, x: s - x, lambda s, x: s - x),
    "product": (lambda s, x: x * s, lambda s, x: x * s),
    "extreme": (ac.maximum, np.maximum),
    "linear": (lambda s, x: 0.5 * s + x * x, lambda s, x: 0.5 * s + x * x),
    "linear in parts": (lambda s, x: (s + x) * x / 2.0 - s, lambda s, x: (s + x) * x / 2 - s),
    "not linear": (lambda s, x: ac.tanh(s + x), lambda s, x: np.tanh(s + x)),
}


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(("step", "of_numpy"), STEPS.values(), ids=STEPS)
def test_the_reference_is_that_of_numpy(
    step: Callable[[Any, Any], Any], of_numpy: Callable[[Any, Any], Any], *, back: bool
) -> None:
    y = ac.compute(
        (4, 8), lambda i, t: ac.scan(START[i], lambda s: step(s, A[i, t]), axis=t, reverse=back)
    )
    dag = ac.ComputeDAG([A, START, y])
    wanted = by_hand(of_numpy, FIRST, DATA, back=back)
    (found,), (bound,) = evaluate_with_rounding(dag, [DATA, FIRST])
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-12)
    bound = np.zeros(found.shape) if bound is None else bound
    assert np.all(bound < 1e-4)
    rounded = by_hand(lambda s, x: of_numpy(s, x).astype(np.float32), FIRST, DATA, back=back)
    assert np.all(np.abs(rounded - wanted) <= 8 * bound + 1e-12)


@pytest.mark.parametrize("back", [False, True])
def test_an_exclusive_scan_is_one_step_later(*, back: bool) -> None:
    def define(step: Callable[[Any, Any], Any], *, exclusive: bool) -> np.ndarray:
        y = ac.compute(
            (4, 8),
            lambda i, t: ac.scan(
                0.25, lambda s: step(s, A[i, t]), axis=t, reverse=back, exclusive=exclusive
            ),
        )
        return evaluate(ac.ComputeDAG([A, y]), [DATA])[0]

    steps: list[Callable[[Any, Any], Any]] = [lambda s, x: s + x, lambda s, x: ac.sin(s) + x]
    for step in steps:
        whole, later = define(step, exclusive=False), define(step, exclusive=True)
        order = slice(None, None, -1) if back else slice(None)
        np.testing.assert_allclose(later[:, order][:, 1:], whole[:, order][:, :-1], 1e-12)
        np.testing.assert_array_equal(later[:, order][:, 0], 0.25)


def test_states_advance_together() -> None:
    x, y = ac.compute_tuple(
        (4, 8), lambda i, t: ac.scan((0.0, 1.0), lambda x, y: (y + A[i, t], x * 0.5), axis=i)
    )
    found = evaluate(ac.ComputeDAG([A, x, y]), [DATA])
    a, b = np.zeros(8), np.ones(8)
    for i in range(4):
        a, b = b + DATA[i], a * 0.5
        np.testing.assert_allclose([found[0][i], found[1][i]], [a, b], 1e-12)


def test_steps_read_states_of_other_places() -> None:
    """The most probable paths of a hidden Markov model (Viterbi), and a recurrence of vectors."""
    table = ac.placeholder((8, 8), "W")
    k = ac.reduce_axis(8, "k")
    best = ac.compute(
        (4, 8),
        lambda t, j: ac.scan(
            A[0, j], lambda v: ac.max(v[k] + table[k, j], axis=k) + A[t, j], axis=t
        ),
        "best",
    )
    hidden = ac.compute(
        (4, 8),
        lambda t, j: ac.scan(
            0.0, lambda h: ac.tanh(ac.sum(h[k] * table[k, j], axis=k) + A[t, j]), axis=t
        ),
        "hidden",
    )
    dag = ac.ComputeDAG([A, table, best, hidden])
    assert ac.ComputeDAG.from_text(dag.to_text()) == dag
    w = np.random.default_rng(1).uniform(-1, 1, (8, 8)).astype(np.float32)
    found, bounds = evaluate_with_rounding(dag, [DATA, w])
    assert all(bound is not None and np.all(bound < 1e-3) for bound in bounds)
    v, h = DATA[0].astype(np.float64), np.zeros(8)
    for t in range(4):
        v, h = np.max(v[:, None] + w, axis=0) + DATA[t], np.tanh(h @ w + DATA[t])
        np.testing.assert_allclose([found[0][t], found[1][t]], [v, h], 1e-12)


def test_reductions_in_a_step_that_read_no_state_are_stages() -> None:
    k = ac.reduce_axis(8, "k")
    y = ac.compute(
        (4, 8), lambda i, t: ac.scan(0.0, lambda s: s + ac.max(A[i, k], axis=k), axis=t), "y"
    )
    dag = ac.ComputeDAG([A, y])
    assert [op.name for op in dag.ops] == ["y.max", "y"]
    wanted = np.cumsum(np.repeat(DATA.max(1, keepdims=True), 8, 1).astype(np.float64), 1)
    np.testing.assert_allclose(evaluate(dag, [DATA])[0], wanted, 1e-12)


def test_a_number_has_the_dtype_that_the_step_makes_of_it() -> None:
    narrow = ac.placeholder((8,), "N", "int8")
    y = ac.compute(8, lambda t: ac.scan(0, lambda s: s + narrow[t], axis=t), "y")
    assert y.dtype == narrow.dtype
    data = np.array([100, 100, 1, 2, 3, 4, 5, 6], np.int8)
    found = evaluate(ac.ComputeDAG([narrow, y]), [data])[0]
    np.testing.assert_array_equal(found, np.cumsum(data, dtype=np.int8))


def test_the_text_is_read_back_and_names_do_not_matter() -> None:
    def dag(names: list[str]) -> ac.ComputeDAG:
        y = ac.compute(
            (4, 8),
            lambda i, t: ac.scan(START[i], lambda s: s * 0.5 + A[i, t], axis=t, reverse=True),
            names[0],
        )
        pair = ac.compute_tuple(
            (4, 8), lambda p, q: ac.scan((0.0, 1.0), lambda a, b: (a + b, b * y[p, q]), axis=p),
            names[1:],
        )  # fmt: skip
        return ac.ComputeDAG([A, START, y, *pair])

    made = dag(["y", "a", "b"])
    assert ac.ComputeDAG.from_text(made.to_text()) == made
    assert "(i: 4, t: 8) scan back t from start[i] = y[i, t + 1] * 0.5 + A[i, t]" in str(made)
    assert "    also b: float32[4, 8] from 1.0 = b[p - 1, q] * y[p, q]" in str(made)
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.key == dag(["t0", "A1", "t1"]).key
    assert made.producers("y") == ("A", "start")
    assert made.readers("y") == ("a",)


def test_tensors_of_one_name_are_told_apart() -> None:
    first = ac.compute((4, 8), lambda i, t: A[i, t] * 2)
    second = ac.compute((4, 8), lambda i, t: ac.scan(0.0, lambda s: s + first[i, t], axis=t))
    third = ac.compute((4, 8), lambda i, t: ac.scan(0.0, lambda s: s + second[i, t], axis=t))
    found = evaluate(ac.ComputeDAG([A, third]), [DATA])[0]
    wanted = 2 * np.cumsum(np.cumsum(DATA.astype(np.float64), 1), 1)
    np.testing.assert_allclose(found, wanted, 1e-12)


def _one(init: Any, step: Callable[[Any], Any], axis: Any) -> Any:
    scan: Any = ac.scan
    return scan(init, step, axis=axis)


def _two(init: Any, step: Callable[[Any, Any], Any], axis: Any) -> Any:
    scan: Any = ac.scan
    return scan(init, step, axis=axis)


K, R, L = ac.reduce_axis(257, "K"), ac.reduce_axis(4, "R"), ac.reduce_axis(8, "L")


def _rows(body: Callable[[Any, Any], Any]) -> Callable[[], object]:
    return lambda: ac.compute((4, 8), body, "y")


REFUSED: list[tuple[Callable[[], object], str]] = [
    (_rows(lambda i, t: _one(0.0, lambda s: s + A[i, t], axis=2)),
     "axis= is an index of the compute around it"),
    (_rows(lambda i, t: _one(0.0, lambda s: s + A[i, t], axis=t + 1)),
     "axis= is an index of the compute around it"),
    (_rows(lambda i, t: _two(0.0, lambda s, u: s, axis=t)), "takes 1 states"),
    (_rows(lambda i, t: _one(A[i, t], lambda s: s + 1.0, axis=t)),
     "which depends on 't'; it is the state before the first step"),
    (_rows(lambda i, t: _two((0.0, 0.0), lambda s, u: s, axis=t)),
     "returns 1 states, but init has 2"),
    (_rows(lambda i, t: _one(0.0, lambda s: (s, s), axis=t)),
     "returns 2 states, but init has 1"),
    (_rows(lambda i, t: _two((0.0, 0.0), lambda s, u: (s, u), axis=t)),
     "use compute_tuple"),
    (_rows(lambda i, t: _one(ac.const(0, "int32"), lambda s: A[i, t], axis=t)),
     "begins with a int32, but its step returns a float32"),
    (_rows(lambda i, t: _one(0.0, lambda s: "x", axis=t)), "return an expression"),
    (_rows(lambda i, t: 1.0 + _one(0.0, lambda s: s + A[i, t], axis=t)),
     "must be all that the function of a compute returns"),
    (_rows(lambda i, t: _one(0.0, lambda s: s[i, t] + A[i, t], axis=t)),
     "reads a state at 2 indices, but has 1 axes besides 't'"),
    (_rows(lambda i, t: _one(0.0, lambda s: s[i + 1] + A[i, t], axis=t)), "outside of it"),
    (_rows(lambda i, t: _one(0.0, lambda s: s[0.5] + A[i, t], axis=t)),
     "a state is read at 0.5; give an integer for each axis"),
    (_rows(lambda i, t: _one(0.0, lambda s: s[(s[0] > 0.0).astype("int64")], axis=t)),
     "or that of another place that no state gives"),
    (_rows(lambda i, t: _one(0.0, lambda s: ac.sum(s[i] * K, K), axis=t)), "cast one operand"),
    (_rows(lambda i, t: _one(
        0.0, lambda s: ac.max(s[R] + ac.sum(A[R, L], axis=L), axis=R) + A[i, t], axis=t)),
     "with a reduction of something else inside: put that in its own compute"),
    (_rows(lambda i, t: _one(0.0, lambda s: s + ac.reduce_axis(8, "k"), axis=t)),
     "cast one operand"),
    (_rows(lambda i, t: _one(0.0, lambda s: s + A[i, t + 1], axis=t)), "outside of it"),
    (_rows(lambda i, t: _one(START[i + 1], lambda s: s + A[i, t], axis=t)),
     "outside of it"),
]  # fmt: skip


@pytest.mark.parametrize(("define", "words"), REFUSED)
def test_what_is_no_scan_is_refused(define: Callable[[], object], words: str) -> None:
    with pytest.raises(LanguageError) as refusal:
        define()
    assert words in str(refusal.value)


def test_a_state_belongs_to_its_scan() -> None:
    leaked: list[Any] = []

    def step(state: Any) -> Any:
        leaked.append(state)
        return state + A[0, 0]

    ac.compute(8, lambda t: ac.scan(0.0, step, axis=t))
    with pytest.raises(LanguageError, match="uses a state of another scan"):
        ac.compute(8, lambda t: ac.scan(0.0, lambda s: s + leaked[-1], axis=t))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("compute y: float32[4] (t: 4) scan u from 0.0 = y[t - 1]", "has to be one of its axes"),
        ("compute y: float32[4] (t: 4) scan t from 0.0 = y[t]", "a scan reads the one before"),
        ("compute y: float32[4] (t: 4) scan t from 0 = y[t - 1]", "begin with the dtypes"),
        ("compute y: float32[4] (t: 4) scan t from x[t] = y[t - 1]", "depends on 't'"),
        ("compute y: float32[4] (t: 4) scan t from 0.0 = y[t - 1]\nalso z: float32[4] = 0.0",
         "needs a value 'from"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_scan_is_refused(line: str, words: str) -> None:
    with pytest.raises((LanguageError, ac.AnsorcError)) as refusal:
        ac.ComputeDAG.from_text(f"input x: float32[4]\n{line}\nparams x, y\n")
    assert words in str(refusal.value)
