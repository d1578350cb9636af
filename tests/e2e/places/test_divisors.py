"""An integer divided by zero fails the call: in definitions, ONNX and PyTorch, in every lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.errors import DivisionByZeroError
from ansorc.ir.parser import parse
from ansorc.ir.stmt import Check, statements
from ansorc.lang.reference import evaluate
from ansorc.target import Target

Array = NDArray[Any]
COUNT = 53
TARGETS = ("native", "cuda-emulated")
KINDS = ("int8", "uint16", "int32", "int64", "uint64")


def _module(dag: ac.ComputeDAG, target: str) -> ac.Module:
    state = ac.schedule(dag)
    for op in dag.ops:
        state = state.split(op.name, "i", [16])
        if target == "native":
            state = state.vectorize(op.name, "i.1")
        else:
            state = state.bind(op.name, "i.0", "blockIdx.x").bind(op.name, "i.1", "threadIdx.x")
    return ac.build(state, target=target)


def _quotients(kind: str) -> ac.ComputeDAG:
    a, b = ac.placeholder((COUNT,), "A", kind), ac.placeholder((COUNT,), "B", kind)
    found = (
        ac.compute((COUNT,), lambda i: a[i] // b[i], "Q"),
        ac.compute((COUNT,), lambda i: a[i] % b[i], "R"),
        ac.compute((COUNT,), lambda i: ac.fmod(a[i], b[i]), "F"),
        ac.compute((COUNT,), lambda i: ac.truncated_divide(a[i], b[i]), "T"),
    )
    return ac.ComputeDAG([a, b, *found])


@pytest.mark.parametrize("target", TARGETS)
def test_a_literal_divisor_of_zero_fails_the_call(target: str) -> None:
    a = ac.placeholder((COUNT,), "A", "int64")
    k = ac.reduce_axis(COUNT)
    bodies = [
        k // 0, k % 0, a[k] % 0, ac.fmod(a[k], 0), k % 0 + k // 0 * 5, ac.truncated_divide(a[k], 0)
    ]  # fmt: skip
    for body in bodies:
        total = ac.sum(body + a[k], axis=k)
        dag = ac.ComputeDAG([a, ac.compute((COUNT,), lambda i, total=total: total, "Q")])
        module = _module(dag, target)
        with pytest.raises(DivisionByZeroError, match="divides an integer by zero"):
            module(np.arange(COUNT), np.empty(COUNT, np.int64))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_divisor_of_zero_fails_the_call(kind: str, target: str) -> None:
    dag = _quotients(kind)
    module, outputs = _module(dag, target), [np.empty(COUNT, kind) for _ in range(4)]
    a, b = np.arange(COUNT).astype(kind), np.arange(1, COUNT + 1).astype(kind)
    module(a, b, *outputs)
    np.testing.assert_array_equal(outputs[0], a // b)
    for place in (0, 17, COUNT - 1):
        wrong = b.copy()
        wrong[place] = 0
        with pytest.raises(DivisionByZeroError, match="divides an integer by zero, in 'B'"):
            module(a, wrong, *outputs)
        with pytest.raises(ZeroDivisionError, match="'Q' divides an integer by zero"):
            evaluate(dag, [a, wrong])
    module(a, b, *outputs)  # it goes on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["int8", "int32", "int64"])
def test_the_least_integer_divided_by_minus_one_wraps(kind: str, target: str) -> None:
    least = np.iinfo(kind).min
    module, outputs = _module(_quotients(kind), target), [np.empty(COUNT, kind) for _ in range(4)]
    module(np.full(COUNT, least, kind), np.full(COUNT, -1, kind), *outputs)
    for found, wanted in zip(outputs, (least, 0, 0, least), strict=True):
        assert (found == wanted).all()


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_not_evaluated_divides_nothing(target: str) -> None:
    a, b = ac.placeholder((COUNT,), "A", "int32"), ac.placeholder((COUNT,), "B", "int32")
    c = ac.compute((COUNT,), lambda i: ac.if_then_else(b[i] == 0, -1, a[i] // b[i]), "C")
    module, found = _module(ac.ComputeDAG([a, b, c]), target), np.empty(COUNT, np.int32)
    x, y = np.arange(COUNT, dtype=np.int32), np.arange(COUNT, dtype=np.int32) % 5
    module(x, y, found)
    np.testing.assert_array_equal(found, np.where(y == 0, -1, x // np.maximum(y, 1)))


def test_divisors_that_cannot_be_zero_are_not_checked() -> None:
    text = """\
kernel safe(A: int32[64], B: int32[64], C: int32[64]):
    for i in 0..64:
        C[i] = A[i] // max(B[i], int32(1)) + A[i] % int32(7) + A[i] // cast(int32, i + 1)
"""
    function = prepare(parse(text), Target.parse("native"))
    assert not [part for part in statements(function.body) if isinstance(part, Check)]


def test_one_divisor_is_checked_once() -> None:
    text = """\
kernel shared(A: int64[64], B: int64[], C: int64[64]):
    for i in 0..64:
        C[i] = A[i] // B[] + A[i] % B[]
"""
    function = prepare(parse(text), Target.parse("native"))
    (check,) = (part for part in statements(function.body) if isinstance(part, Check))
    assert check.about == "B"
    assert getattr(function.body, "stmts", (None,))[0] is check, "before the loop"


def test_a_literal_zero_is_found_when_the_call_runs() -> None:
    a = ac.placeholder((4,), "A", "int32")
    module = ac.build(ac.ComputeDAG([a, ac.compute((4,), lambda i: a[i] // 0, "C")]))
    with pytest.raises(DivisionByZeroError):
        module(np.ones(4, np.int32), np.empty(4, np.int32))


@pytest.mark.parametrize(("operator", "fmod"), [("Div", 0), ("Mod", 0), ("Mod", 1)])
def test_onnx(operator: str, fmod: int) -> None:
    helper = pytest.importorskip("onnx.helper")
    info = [helper.make_tensor_value_info(name, 7, [6]) for name in "aby"]
    options = {"fmod": fmod} if operator == "Mod" else {}
    graph = helper.make_graph(
        [helper.make_node(operator, ["a", "b"], ["y"], **options)], "net", info[:2], info[2:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    module = ac.build(ac.from_onnx(model))
    a, b = np.arange(6), np.array([1, 2, 3, -1, -2, -3])
    module.run({"a": a, "b": b})
    b[4] = 0
    with pytest.raises(DivisionByZeroError, match="net divides an integer by zero"):
        module.run({"a": a, "b": b})


@pytest.mark.filterwarnings("ignore")
def test_pytorch() -> None:
    torch: Any = pytest.importorskip("torch")

    def quotient(a: Any, b: Any) -> Any:
        return a // b

    a, b = torch.arange(6), torch.tensor([1, 2, 3, -1, -2, -3])
    compiled = torch.compile(quotient, backend="ansorc")
    with torch.no_grad():
        assert compiled(a, b).tolist() == quotient(a, b).tolist()
        b[3] = 0
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compiled(a, b)
        b[3] = 7
        assert compiled(a, b).tolist() == quotient(a, b).tolist()
