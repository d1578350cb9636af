"""Whatever a kernel or a network is called with, it is taken, or refused by an error of ansorc."""

# pyright: basic, reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import CallError
from tests.e2e.hostile.values import bare_errors

A = ac.placeholder((4, 4), "A")
P = ac.placeholder((4,), "P", "int64")
Z = ac.placeholder((), "Z")
J = ac.placeholder((), "J", "int8")
T = ac.placeholder((), "T", "bool")
E = ac.compute((4,), lambda i: A[i, i] * Z[()] + P[i].astype("float32"), "E")
F = ac.compute((4,), lambda i: ac.if_then_else(T[()], J[()], 0), "F")
TARGETS = ("native", "cuda-emulated -arch=sm_80")


def test_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ac.build(ac.ComputeDAG([A, P, Z, E]), name="f")
    given = [np.ones((4, 4), np.float32), np.arange(4), np.array(2, np.float32)]
    out = np.zeros(4, np.float32)
    found = bare_errors("call", module, [*given, out], {})
    found += bare_errors("time", module.time, [*given, out], {})
    found += bare_errors("save", module.save, [str(tmp_path / "f.so")], {})
    library = str(module.save(tmp_path / "g.so").library)
    found += bare_errors("load_library", ac.load_library, [library], {})
    assert not found


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_are_arrays_without_dimensions(target: str) -> None:
    module = ac.build(ac.ComputeDAG([A, P, Z, E]), target, "f")
    a, places, out = np.ones((4, 4), np.float32), np.arange(4), np.zeros(4, np.float32)
    numbers: list[Any] = [
        3, 3.0, np.float32(3), np.float64(3), np.int64(3), ml_dtypes.bfloat16(3),
        np.array(3.0, np.float32),
    ]  # fmt: skip
    for number in numbers:
        out[...] = 0
        module(a, places, number, out)
        np.testing.assert_array_equal(out, [3, 4, 5, 6])
    module(a, places, float("inf"), out)
    assert np.isinf(out).all()
    small = ac.build(ac.ComputeDAG([J, T, F]), target, "g")
    bytes_ = np.zeros(4, np.int8)
    small(np.int64(-5), np.True_, bytes_)
    np.testing.assert_array_equal(bytes_, -5)


REFUSED: list[tuple[str, Any, Any]] = [
    ("'Z' is the number 1e\\+300, but float32 does not hold it", 1e300, None),
    ("'Z' is the number True, but the kernel wants float32", True, None),
    ("'Z' has dtype float64", np.array(3.0), None),
    ("'Z' has shape \\(1,\\)", np.ones(1, np.float32), None),
    ("'J' is the number 300, but int8 does not hold it", 300, True),
    ("'J' is the number np.uint8\\(200\\)", np.uint8(200), True),
    ("'J' is the number 2.0, but the kernel wants int8", 2.0, True),
    ("'T' is the number 1, but the kernel wants bool", 3, 1),
]


@pytest.mark.parametrize(("words", "first", "second"), REFUSED)
def test_numbers_that_do_not_fit(words: str, first: Any, second: Any) -> None:
    module = ac.build(ac.ComputeDAG([A, P, Z, E] if second is None else [J, T, F]), name="f")
    arrays = np.ones((4, 4), np.float32), np.arange(4), first, np.zeros(4, np.float32)
    given = arrays if second is None else (first, second, np.zeros(4, np.int8))
    with pytest.raises(CallError, match=words):
        module(*given)


def test_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import helper  # noqa: PLC0415

    monkeypatch.chdir(tmp_path)
    kind = onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, kind, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    net = ac.from_onnx(model)
    module = ac.build(net)
    found = bare_errors("from_onnx", ac.from_onnx, [model, {"x": (2, 3)}, {}, "n"], {})
    found += bare_errors("shape", lambda s: ac.from_onnx(model, {"x": s}), [(2, 3)], {})
    found += bare_errors("extent", lambda s: ac.from_onnx(model, {"x": (2, s)}), [3], {})
    found += bare_errors("constant", lambda v: ac.from_onnx(model, constants={"x": v}), [x], {})
    found += bare_errors("build", ac.build, [net], {"target": None, "name": ""})
    found += bare_errors("call", module, [x, y], {}) + bare_errors("call of one", module, [x], {})
    found += bare_errors("run", module.run, [{"x": x}], {})
    found += bare_errors("run by name", lambda v: module.run({"x": v}), [x], {})
    found += bare_errors("profile", module.profile, [x], {})
    found += bare_errors("save", module.save, [str(tmp_path / "n.so")], {})
    assert not found


def test_workload_files(tmp_path: Path) -> None:
    path = tmp_path / "work.py"
    path.write_text(
        "import ansorc as ac\n@ac.workload\ndef f(n: int = 4):\n    A = ac.placeholder((n,), 'A')\n"
        "    return [A, ac.compute((n,), lambda i: A[i], 'B')]\n"
    )
    found = bare_errors("load_workload", ac.load_workload, [str(path), "f", {"n": 8}], {})
    found += bare_errors("setting", lambda n: ac.load_workload(path, "f", {"n": n}), [4], {})
    assert not found
