"""Functions of one's own: in the reference, the interpreter, machine code, CUDA text and tuning."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import AnsorcError, BuildError, LanguageError
from ansorc.ir.aligned import Array
from ansorc.ir.interpret import interpret
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.intrinsic import Intrinsic
from ansorc.lang.reference import evaluate
from ansorc.lang.scalar_type import Scalar
from tests.lang.gradient.finite_differences import check_gradient
from tests.lang.intrinsic_references import double_of, fails, soft_sign

SOFT_SIGN = """define internal float @soft(float %x, float %y) {
  %size = call float @llvm.fabs.f32(float %x)
  %below = fadd float %size, 1.0
  %share = fdiv float %x, %below
  %sum = fadd float %share, %y
  ret float %sum
}
declare float @llvm.fabs.f32(float)
"""
DOUBLE = "define internal i32 @double(i32 %n) {\n  %d = shl i32 %n, 1\n  ret i32 %d\n}\n"


def _slope_of_root(x: Scalar) -> Scalar:
    return 0.5 / ac.sqrt(x)


def _slope_of_power(x: Scalar) -> Scalar:
    return ac.exp2(x) * 0.6931471805599453


def _nested() -> Callable[[Array], Array]:
    """Return a function that no other process can import."""

    def same(x: Array) -> Array:
        return x

    return same


def _soft() -> Intrinsic:
    return ac.intrinsic(
        "soft", arguments=["float32", "float32"], llvm=SOFT_SIGN,
        cuda="({0} / (1.0f + fabsf({0})) + {1})", reference=soft_sign,
    )  # fmt: skip


def _exp2() -> Intrinsic:
    return ac.intrinsic(
        "own_exp2", llvm="llvm.exp2", cuda="exp2f({0})", reference=np.exp2,
        gradient=_slope_of_power,
    )  # fmt: skip


def _double() -> Intrinsic:
    return ac.intrinsic(
        "double", arguments=["int32"], llvm=DOUBLE, cuda="({0} * 2)", reference=double_of
    )


def _dag() -> ComputeDAG:
    """Return a definition that calls three functions, on numbers and in a sum."""
    soft, exp2, double = _soft(), _exp2(), _double()
    x, n = ac.placeholder((5, 37), "x"), ac.placeholder((37,), "n", "int32")
    k = ac.reduce_axis(37, "k")
    y = ac.compute(
        (5, 37), lambda i, j: soft(exp2(x[i, j]), double(n[j]).astype("float32") + 1.0), "y"
    )
    z = ac.compute(5, lambda i: ac.sum(soft(y[i, k], 2.0), axis=k), "z")
    return ComputeDAG([x, n, y, z])


def _data() -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (5, 37)).astype(np.float32)
    n = rng.integers(-9, 9, 37).astype(np.int32)
    y: Any = soft_sign(np.exp2(x.astype(np.float64)), (n * 2).astype(np.float64) + 1.0)
    return [x, n], [y, soft_sign(y, np.full_like(y, 2.0)).sum(1)]


def _require_close(found: list[Any], expected: list[Any]) -> None:
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-6)


def test_reference() -> None:
    inputs, expected = _data()
    _require_close(evaluate(_dag(), inputs), expected)


def test_interpreter() -> None:
    inputs, expected = _data()
    outputs = [np.full(each.shape, np.nan, np.float32) for each in expected]
    interpret(ac.lower(ac.schedule(_dag())), [*inputs, *outputs])
    _require_close(outputs, expected)


@pytest.mark.parametrize("is_vectorised", [False, True])
def test_machine_code(is_vectorised: bool) -> None:  # noqa: FBT001
    inputs, expected = _data()
    outputs = [np.full(each.shape, np.nan, np.float32) for each in expected]
    schedule = ac.schedule(_dag())
    ac.build(schedule.vectorize("y", "j") if is_vectorised else schedule)(*inputs, *outputs)
    _require_close(outputs, expected)


def test_cuda_text() -> None:
    inputs, expected = _data()
    outputs = [np.full(each.shape, np.nan, np.float32) for each in expected]
    ac.build(_dag(), "cuda-emulated -arch=sm_80")(*inputs, *outputs)
    _require_close(outputs, expected)


def test_texts_and_keys() -> None:
    dag = _dag()
    again = ComputeDAG.from_text(dag.to_text())
    assert again == dag
    assert again.key == dag.key
    inputs, expected = _data()
    _require_close(evaluate(again, inputs), expected)
    x = ac.placeholder(4, "x")

    def key(llvm: str) -> str:
        own = ac.intrinsic("own", llvm=llvm, reference=np.sqrt)
        return ComputeDAG([x, ac.compute(4, lambda i: own(x[i]), "y")]).key

    assert key("llvm.sqrt") == key("llvm.sqrt") != key("llvm.fabs")
    assert pickle.loads(pickle.dumps(dag)) == dag


FILE = """
import numpy as np
import ansorc as ac


def half(x):
    return x * 0.5


@ac.workload
def halves(n: int = 64):
    text = "define internal float @h(float %x) {{ %y = fmul float %x, {factor} ret float %y }}"
    own = ac.intrinsic("half", llvm=text, reference=half)
    x = ac.placeholder(n, "x")
    return [x, ac.compute(n, lambda i: own(x[i]), "y")]
"""


@pytest.mark.parametrize(("factor", "is_right"), [("0.5", True), ("0.25", False)])
def test_tuning_checks_against_the_reference(tmp_path: Path, factor: str, is_right: bool) -> None:  # noqa: FBT001
    """Worker processes find the reference in the file of the workload."""
    file = tmp_path / "halves.py"
    file.write_text(FILE.format(factor=factor))
    result = ac.tune(ac.Task(ac.load_workload(file)), trials=2, records=str(tmp_path / "tune.db"))
    assert (result.best is not None) == is_right, str(result.notes)


def test_gradient() -> None:
    own = ac.intrinsic(
        "own", arguments=["float64"], llvm="llvm.sqrt", reference=np.sqrt,
        gradient=_slope_of_root,
    )  # fmt: skip
    x = ac.placeholder(7, "x", "float64")
    y = ac.compute(7, lambda i: own(x[i]) * x[i], "y")
    check_gradient(y, [x], [np.linspace(0.5, 2.0, 7)])


def _refused(words: str, error: type[AnsorcError] = LanguageError) -> pytest.RaisesExc[AnsorcError]:
    return pytest.raises(error, match=words)


def test_refusals() -> None:
    x = ac.placeholder(4, "x")
    with _refused("'own' has no reference=, against which programs are checked"):
        ac.intrinsic("own", llvm="llvm.sqrt")
    with _refused("'own' has no text; give llvm=, cuda=, or both"):
        ac.intrinsic("own", reference=np.sqrt)
    with _refused("no operands; give arguments="):
        ac.intrinsic("own", arguments=[], llvm="llvm.sqrt", reference=np.sqrt)
    with _refused("which other processes cannot import: define it by def"):
        ac.intrinsic("own", llvm="llvm.sqrt", reference=_nested())
    for text in ("f({1})", "[](float x) { return x; }({0})"):
        with _refused("0. to .0. are its operands, and other braces are written twice"):
            ac.intrinsic("own", cuda=text, reference=np.sqrt)
    soft = _soft()
    with _refused("'soft' takes 2 operands, not 1"):
        ac.compute(4, lambda i: soft(x[i]))
    with _refused("'soft' takes float32, not int64; cast the operand"):
        ac.compute(4, lambda i: soft(x[i], i))


def test_refused_back_ends() -> None:
    x = ac.placeholder(4, "x")
    for_gpus = ac.intrinsic("fast", cuda="__expf({0})", reference=np.exp)
    for_cpus = ac.intrinsic("root", llvm="llvm.sqrt", reference=np.sqrt)
    with _refused("'fast' has no text for CPUs; give ac.intrinsic.llvm=.", BuildError):
        ac.build(ac.schedule(ComputeDAG([x, ac.compute(4, lambda i: for_gpus(x[i]), "y")])))
    dag = ComputeDAG([x, ac.compute(4, lambda i: for_cpus(x[i]), "y")])
    with _refused("'root' has no text for GPUs; give ac.intrinsic.cuda=.", BuildError):
        ac.build(dag, "cuda-emulated -arch=sm_80")


def test_refused_texts() -> None:
    x = ac.placeholder(4, "x")

    def build(llvm: str) -> None:
        own = ac.intrinsic("own", llvm=llvm, reference=np.sqrt)
        ac.build(ac.schedule(ComputeDAG([x, ac.compute(4, lambda i: own(x[i]), "y")])))

    with _refused(r"'own' defines float .double., but its dtypes are those of float", BuildError):
        build("define float @f(double %x) { ret float 1.0 }")
    with _refused("LLVM refuses the generated code", BuildError):
        build("define float @f(float %x) { ret float }")


def test_references_that_fail() -> None:
    x = ac.placeholder(4, "x")
    array = np.ones(4, np.float32)
    own = ac.intrinsic("own", llvm="llvm.sqrt", reference=fails)
    with _refused("the reference .*fails' of 'own' failed: ValueError: no such number"):
        evaluate(ComputeDAG([x, ac.compute(4, lambda i: own(x[i]), "y")]), [array])
    lost = ac.intrinsic("own", llvm="llvm.sqrt", reference="no_module:function")
    with _refused("'no_module:function' of 'own' cannot be loaded: ModuleNotFoundError"):
        evaluate(ComputeDAG([x, ac.compute(4, lambda i: lost(x[i]), "y")]), [array])


def test_there_is_no_derivative_unless_it_is_given() -> None:
    x = ac.placeholder(4, "x")
    soft = _soft()
    y = ac.compute(4, lambda i: soft(x[i], x[i]), "y")
    with _refused("the derivative of soft@.* in 'y' is not known"):
        ac.gradient(ac.ops.sum(y), [x])
