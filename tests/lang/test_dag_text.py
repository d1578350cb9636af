"""DAGs as text and as keys: exact round trips, and names that do not count."""

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import ansorc.lang as ac
from ansorc.errors import LanguageError, ParseError
from ansorc.ir.interpret import interpret
from ansorc.ir.verify import verify
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, schedule
from tests.support.dag_strategies import dags, random_inputs
from tests.support.nightly import examples


def matmul_relu(names: str = "ABCDijk", n: int = 8, *, constant: bool = False) -> ComputeDAG:
    a = ac.placeholder((n, 4), names[0])
    b = ac.placeholder((4, 6), names[1], constant=constant)
    k = ac.reduce_axis(4, names[6])
    axes = names[4:6]
    c = ac.compute(
        (n, 6), lambda i, j: ac.sum(a[i, k] * b[k, j], axis=k), names[2], axes=list(axes)
    )
    d = ac.compute((n, 6), lambda i, j: ac.maximum(c[i, j], 0.0), names[3], axes=list(axes))
    return ComputeDAG([a, b, d])


TEXT = """\
input A: float32[8, 4]
input B: float32[4, 6] constant
compute C: float32[8, 6] (i: 8, j: 6) sum over (k: 4) = A[i, k] * B[k, j]
compute D: float32[8, 6] (i: 8, j: 6) = max(C[i, j], 0.0)
params A, B, D
"""


def test_text_is_readable() -> None:
    assert matmul_relu(constant=True).to_text() == TEXT


@examples(30, nightly=150)
@given(dags())
def test_text_and_pickle_round_trip(dag: ComputeDAG) -> None:
    again = ComputeDAG.from_text(dag.to_text())
    assert again == dag
    assert again.to_text() == dag.to_text()
    assert again.key == dag.key
    assert pickle.loads(pickle.dumps(dag)) == dag


def test_hints_round_trip() -> None:
    a = ac.placeholder((4,), "A")
    hints = {"always_unroll_inner": ["i"], "mine.tag": 'a "quoted" = #text', "flop": 12}
    b = ac.compute((4,), lambda i: a[i] + 1.0, "B", hints)
    dag = ComputeDAG([a, b])
    assert 'hint always_unroll_inner = "i"' in dag.to_text()
    assert ComputeDAG.from_text(dag.to_text()) == dag
    assert dag.flops == 12


def test_rank_zero_round_trips() -> None:
    a = ac.placeholder((), "A")
    dag = ComputeDAG([a, ac.compute((), lambda: a[()] * 2.0, "B")])
    assert ComputeDAG.from_text(dag.to_text()) == dag


def test_key_ignores_names_alone() -> None:
    key = matmul_relu().key
    assert key == matmul_relu("PQRSuvw").key == matmul_relu("DCBAkji").key
    others = [matmul_relu(n=9), matmul_relu(constant=True)]
    assert len({key, *(other.key for other in others)}) == 3
    assert len(key) == 20


def test_key_sees_hints_and_call_order() -> None:
    a, b = ac.placeholder((4,), "A"), ac.placeholder((4,), "B")
    plain = ac.compute((4,), lambda i: a[i] - b[i], "C")
    hinted = ac.compute((4,), lambda i: a[i] - b[i], "C", {"no_cache_read": ""})
    renamed = ac.compute((4,), lambda q: a[q] - b[q], "C", {"always_unroll_inner": ["q"]})
    same = ac.compute((4,), lambda i: a[i] - b[i], "C", {"always_unroll_inner": "i"})
    lists = [[a, b, plain], [b, a, plain], [a, b, hinted], [a, b, renamed]]
    keys = [ComputeDAG(tensors).key for tensors in lists]
    assert len(set(keys)) == 4
    assert ComputeDAG([a, b, same]).key == keys[-1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("params A, B, D\n", "", "no line 'params"),
        ("params A, B, D", "params A, B, X", "unknown tensor 'X'"),
        ("params A, B, D", "params A, D", "neither an input nor computed"),
        ("input A: float32[8, 4]", "input A: float31[8, 4]", "line 1 .*not a dtype"),
        ("input A", "inputs A", "line 1 of the DAG: expected 'input"),
        ("input B", "input A", "line 2 .*two tensors 'A'"),
        ("(k: 4)", "(k: four)", "line 3 .*'four' is not an extent"),
        ("sum over", "total over", "unknown reduction 'total'"),
        ("B[k, j]", "B[k, q]", "line 3 .*no variable 'q'"),
        ("B[k, j]", "B[k, j + 1]", "outside of it.*index 1 is j \\+ 1"),
        ("(i: 8, j: 6) sum", "(i: 8, j: 5) sum", "do not match the shape"),
        ("0.0)", "float64(0.0))", "its operands are float32 and float64"),
    ],
)
def test_bad_text_is_refused(old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises((ParseError, LanguageError), match=f"(?s){words}"):
        ComputeDAG.from_text(TEXT.replace(old, new))


@examples(12, nightly=60, options=settings(suppress_health_check=[HealthCheck.too_slow]))
@given(dags(most_stages=3))
def test_reference_agrees_with_the_interpreter(dag: ComputeDAG) -> None:
    """Two independent meanings: the DAG by NumPy, and its plain loops by the interpreter."""
    rng = np.random.default_rng(0)
    inputs = random_inputs(dag, rng)
    arrays = {b.name: array for b, array in zip(dag.inputs, inputs, strict=True)}
    for buffer in dag.outputs:
        arrays[buffer.name] = np.zeros(buffer.shape, buffer.dtype.numpy)
    function = lower(schedule(dag))
    verify(function)
    interpret(function, [arrays[buffer.name] for buffer in dag.params], fresh_outputs=True)
    for buffer, expected in zip(dag.outputs, evaluate(dag, inputs), strict=True):
        found = arrays[buffer.name]
        assert found.shape == expected.shape
        if buffer.dtype.is_float:
            scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * scale)
        else:
            np.testing.assert_array_equal(found, expected)
