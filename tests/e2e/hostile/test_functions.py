"""Whatever a user gives to the functions of `ac`, it is taken, or refused by an error of ansorc."""

# pyright: basic, reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.ir.expr import Var
from tests.e2e.hostile.values import bare_errors

Call = tuple[Callable[..., object], Sequence[Any], Mapping[str, Any]]

A = ac.placeholder((4, 4), "A")
k = ac.reduce_axis(4, "k")
e: Any = A[0, 0]
c: Any = e > 0.0
B = ac.compute((4, 4), lambda i, j: ac.sum(A[i, k] * A[k, j], axis=k), "B")
D = ac.compute((4, 4), lambda i, j: B[i, j] + 1.0, "D")
DAG = ac.ComputeDAG([A, D])
Q = ac.compute((4, 4), lambda i, j: A[i, j] * 2.0, "Q")
R = ac.ComputeDAG([A, ac.compute((4, 4), lambda i, j: Q[i, j] + 1.0, "R")])
S = ac.schedule(DAG)


def reduced(combine: Any, identities: Any, name: Any, term: Any, axis: Any) -> object:
    reduce = ac.reducer(combine, identities, name)
    return ac.compute(4, lambda i: reduce(term, axis=axis), "y")


def computed(value: Any) -> object:
    return ac.compute((4, 4), lambda i, j: value, "y")


def first_of(a: Any, b: Any) -> tuple[Any]:
    return (a[0] + b[0],)


DEFINITIONS: dict[str, Call] = {
    "placeholder": (ac.placeholder, [(4, 4), "P", "float32"], {"constant": True}),
    "compute": (ac.compute, [(4, 4), lambda i, j: A[i, j], "y", {"flop": 3}, ["i", "j"]], {}),
    "compute by name": (
        ac.compute, [4, lambda i: A[i, i]], {"name": "y", "hints": None, "axes": None}
    ),
    "compute_tuple": (
        ac.compute_tuple, [(4, 4), lambda i, j: (A[i, j], 1.0), ["y", "z"], {}, ["i", "j"]], {}
    ),
    "names of a tuple": (ac.compute_tuple, [(4, 4), lambda i, j: (A[i, j], 1.0), "y"], {}),
    "what compute returns": (computed, [1.0], {}),
    "what compute_tuple returns": (
        lambda value: ac.compute_tuple((4, 4), lambda i, j: value, "y"), [(1.0, 2.0)], {}
    ),
    "what a tuple holds": (
        lambda value: ac.compute_tuple((4, 4), lambda i, j: (value, 1.0), "y"), [1.0], {}
    ),
    "a hint": (lambda value: computed_with({"flop": value}), [3], {}),
    "extern": (
        lambda shape, inputs, name, source, reference: ac.extern(
            shape, inputs, name, source=source, reference=reference
        ),
        [(4, 4), [A], "f", "void f(const float *x, float *y) {}", np.sqrt], {},
    ),
    "complex": (ac.complex, [e, 0.0], {}),
    "reduce_axis": (ac.reduce_axis, [4, "k"], {}),
    "ends of an axis": (lambda low, high: ac.reduce_axis((low, high)), [0, 4], {}),
    "reducer": (reduced, [first_of, (0,), "n", A[0, k], k], {}),
    "what a reducer returns": (
        lambda value: reduced(lambda a, b: (a[0] + b[0] + value,), (0,), "n", A[0, k], k), [0.0], {}
    ),
    "scan": (
        lambda init, step, axis: ac.compute(4, lambda j: ac.scan(init, step, axis)),
        [0.0, lambda s: s + 1.0, ac.Scalar(Var("j"))], {},
    ),
    "options of a scan": (
        lambda reverse, exclusive: ac.compute(
            4, lambda j: ac.scan(
                0.0, lambda s: s + 1.0, j, reverse=reverse, exclusive=exclusive
            )
        ),
        [False, True], {},
    ),
    "what a step returns": (
        lambda value: ac.compute(4, lambda j: ac.scan(0.0, lambda s: value, j)), [0.0], {}
    ),
    "const": (ac.const, [1.0, "float32"], {}), "cast": (ac.cast, [e, "float16"], {}),
    "astype": (e.astype, ["float16"], {}), "if_then_else": (ac.if_then_else, [c, e, 0.0], {}),
    "checked": (ac.checked, [e, c, "x", 1], {}),
    "indices": (lambda i, j: A[i, j], [0, 0], {}), "index": (lambda i: A[i], [(0, 0)], {}),
    "logical_not": (ac.logical_not, [c], {}), "all_of": (ac.all_of, [c, c], {}),
    "any_of": (ac.any_of, [c, c], {}), "any": (ac.any, [A[0, k] > 0.0, k], {}),
    "all": (ac.all, [A[0, k] > 0.0, k], {}),
    "truncated_divide": (ac.truncated_divide, [ac.cast(e, "int32"), 3], {}),
    "ComputeDAG": (ac.ComputeDAG, [[A, D]], {}),
    "from_text": (ac.ComputeDAG.from_text, [DAG.to_text()], {}), "op": (DAG.op, ["D"], {}),
    "producers": (DAG.producers, ["D"], {}), "readers": (DAG.readers, ["B"], {}),
    "workload": (ac.workload, [lambda n=3: [A, D]], {}),
    "register_onnx_op": (ac.register_onnx_op, ["hostile::B", lambda x: x], {}),
}  # fmt: skip
for _name in ("exp", "exp2", "expm1", "log", "log1p", "log2", "tanh", "erf", "sigmoid", "sqrt",
              "rsqrt", "sin", "cos", "abs", "floor", "ceil", "round", "real", "imag",
              "conj"):  # fmt: skip
    DEFINITIONS[_name] = getattr(ac, _name), [e], {}
for _name in ("equal", "not_equal", "maximum", "minimum", "power", "fmod"):
    DEFINITIONS[_name] = getattr(ac, _name), [e, e], {}
for _name in ("sum", "max", "min", "prod", "argmax", "argmin"):
    DEFINITIONS[_name] = getattr(ac, _name), [A[0, k], k], {}
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le",
              "gt", "ge"):  # fmt: skip
    DEFINITIONS[f"operator {_name}"] = getattr(operator, _name), [e, e], {}
for _name in ("and_", "or_", "xor"):
    DEFINITIONS[f"operator {_name}"] = getattr(operator, _name), [c, c], {}

INLINED = ac.schedule(R)
TILED = S.split("B", "k", [2])
ROOTS = S.compute_at("B", "D", "i")
SCHEDULES: dict[str, Call] = {
    "schedule": (ac.schedule, [DAG], {"tiles": None}), "lower": (ac.lower, [S, "kernel"], {}),
    "replay": (ac.replay, [DAG, S.split("D", "i", [2]).steps], {"tiles": None}),
    "stage": (S.stage, ["D"], {}), "split": (S.split, ["D", "i", [2]], {}),
    "fuse": (S.fuse, ["D", ["i", "j"]], {}), "reorder": (S.reorder, ["D", ["j", "i"]], {}),
    "compute_at": (S.compute_at, ["B", "D", "i"], {}),
    "compute_inline": (INLINED.compute_inline, ["Q"], {}),
    "compute_root": (ROOTS.compute_root, ["B"], {}),
    "cache_read": (S.cache_read, ["A", "local", ["B"]], {}),
    "cache_write": (S.cache_write, ["B", "local"], {}),
    "rfactor": (TILED.rfactor, ["B", "k.1", -1], {}),
    "storage_align": (S.storage_align, ["B", "i", 8, 1], {}),
    "parallel": (S.parallel, ["D", "i"], {"sharing": "static", "chunk": 1}),
    "vectorize": (S.vectorize, ["D", "j"], {}), "unroll": (S.unroll, ["D", "j"], {}),
    "bind": (S.bind, ["D", "i", "threadIdx.x"], {}),
    "pragma": (S.pragma, ["D", "auto_unroll_max_step", 16], {}),
}  # fmt: skip


def computed_with(hints: Any) -> object:
    return ac.compute((4, 4), lambda i, j: A[i, j], "y", hints)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of its own: hostile arguments are names of files, too."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definitions(name: str) -> None:
    assert not bare_errors(name, *DEFINITIONS[name])


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    assert not bare_errors(name, *SCHEDULES[name])


def test_numbers_of_numpy_in_definitions() -> None:
    four = np.int64(4)
    for shape in (four, [four, 4], np.array([4, 4]), np.array(4)):
        for dtype in (np.float32, np.dtype("float32"), "float32"):
            x = ac.placeholder(shape, "x", dtype)
            assert set(x.shape) == {4}
            assert all(type(extent) is int for extent in x.shape)
            assert x.dtype.name == "float32"
    axis = ac.reduce_axis((np.int32(1), np.uint8(4)))
    assert (axis.lo, axis.extent) == (1, 3)
    assert ac.reduce_axis(np.int64(4)).extent == 4
    y = ac.compute(four, lambda i: ac.sum(A[i, k] * np.float32(2), axis=k), "y")
    assert "* 2.0" in ac.ComputeDAG([A, y]).to_text()
    for name in ("bool", "int8", "uint16", "float16", "float64"):
        assert ac.const(1, np.dtype(name)).dtype.name == name
    assert ac.cast(e, float).dtype.name == "float64"
    assert ac.cast(e, bool).dtype.name == "bool"


def test_numbers_of_numpy_in_schedules() -> None:
    two = np.int64(2)
    assert S.split("D", "i", [two]).steps == S.split("D", "i", [2]).steps
    assert S.split("D", "i", np.array([2])).steps == S.split("D", "i", [2]).steps
    assert S.storage_align("B", "i", np.int32(8)).steps == S.storage_align("B", "i", 8).steps
    assert "np.int64" not in repr(S.split("D", "i", [two]).steps)


def test_verbs(tmp_path: Path) -> None:
    records = str(tmp_path / "tune.db")
    calls: dict[str, Call] = {
        "Task": (ac.Task, [DAG, "native", "name"], {}),
        "Target": (ac.Target.parse, ["native"], {}),
        "aligned_empty": (ac.aligned_empty, [(2, 3), np.float32], {}),
        "build": (ac.build, [DAG, "native", "f"], {"records": None, "measure": "kernel"}),
        "Records": (lambda path: ac.Records.open(path).close(), [records], {}),
        "unregister_onnx_op": (_registered, ["hostile::C"], {}),
    }
    assert not [found for name, call in calls.items() for found in bare_errors(name, *call)]


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.nightly)])
def test_tune(step: int, tmp_path: Path) -> None:
    tuned = {"trials": 0, "records": str(tmp_path / "tune.db"), "seed": 0, "threads": 1,
             "time_budget": 1.0, "cache": "warm", "measure": "kernel",
             "cost_model": "random"}  # fmt: skip
    assert not bare_errors("tune", ac.tune, [ac.Task(DAG, "native", "task")], tuned, step)


WORDS: list[tuple[str, Callable[..., object]]] = [
    (
        r"sum: axis is 'x' \(str\), not an integer or a list, each an integer or None",
        lambda: ac.ops.sum(A, axis=untyped("x")),
    ),
    (r"softmax: axis is True \(bool\), not an integer", lambda: ac.ops.softmax(A, True)),
    (r"relu: data is 3 \(int\), not a tensor", lambda: ac.ops.relu(untyped(3))),
    (r"relu: data is array.* \(ndarray\), not a tensor", lambda: ac.ops.relu(untyped(np.ones(2)))),
    (r"relu: data is <A\[0, 0\]: float32> \(Scalar\)", lambda: ac.ops.relu(e)),
    (r"leaky_relu: slope is 'a' \(str\), not a number", lambda: ac.ops.leaky_relu(A, untyped("a"))),
    (r"conv2d: stride is 1.5 \(float\), not", lambda: ac.ops.conv2d(A, A, stride=untyped(1.5))),
    (r"split: lengths is 2 \(int\), not a list", lambda: S.split("D", "i", untyped(2))),
    (r"split: stage is 7 \(int\), not text", lambda: S.split(untyped(7), "i", [2])),
    (r"fuse: iterators is 5 \(int\), not a list, each text", lambda: S.fuse("D", untyped(5))),
    (r"there is no stage 'X'; the stages are 'B', 'D'", lambda: S.stage("X")),
    (r"lower: state is ComputeDAG.*, not a State", lambda: ac.lower(untyped(DAG))),
    (r"build: program is \[A: .*not a State or a ComputeDAG", lambda: ac.build(untyped([A, D]))),
    (r"Task: dag is \[A: .*not a ComputeDAG", lambda: ac.Task(untyped([A, D]))),
    (
        r"tune: trials is '9' \(str\), not an integer",
        lambda: ac.tune(untyped([]), trials=untyped("9")),
    ),
    (
        r"the shape \(4, 2.5\) of 'x' does not consist of integers",
        lambda: ac.placeholder(untyped((4, 2.5)), "x"),
    ),
    (r"7 cannot name a tensor; a name is text", lambda: ac.placeholder(4, untyped(7))),
    (r"runs over 'k'; give its extent, or \(lo, hi\)", lambda: ac.reduce_axis(untyped("k"))),
    (r"more than 2\*\*62 elements", lambda: ac.placeholder(10**20, "x")),
    (r"hints are a dict of names and values, not \['flop'\]", lambda: computed_with(["flop"])),
    (r"takes two tuples: lambda a, b", lambda: reduced(lambda a: a, (0,), "n", A[0, k], k)),
    (r"no array can have shape 'text'", lambda: ac.aligned_empty(untyped("text"))),
]  # fmt: skip


def untyped(value: object) -> Any:
    return value


@pytest.mark.parametrize(("words", "call"), WORDS)
def test_words(words: str, call: Callable[..., object]) -> None:
    with pytest.raises(ac.AnsorcError, match=words):
        call()


def _registered(name: Any) -> None:
    ac.register_onnx_op("hostile::C", lambda x: x)
    ac.unregister_onnx_op(name)
