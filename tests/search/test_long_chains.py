"""What a build does grows with the nodes of a computation, not with the ways through it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.call.build import compile_module
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.errors import LanguageError
from ansorc.ir.interpret import interpret
from ansorc.ir.node import walk
from ansorc.ir.stmt import Function
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, replay
from ansorc.search.default import default_steps
from ansorc.target import Target
from tests.support.element_chains import KINDS, SHAPE, chain, expected

ZEN3 = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=2")
NATIVE = Target.parse("native")


def lowered(dag: ac.ComputeDAG, target: Target = ZEN3) -> Function:
    return lower(replay(dag, default_steps(dag, target)))


def nodes(function: Function) -> int:
    return sum(1 for _ in walk(function))


class CountedCalls:
    """How many functions of Python are called: the work that a build is, on any machine."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> CountedCalls:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, arg: Any) -> None:
        self.count += event == "call"


def work(kind: str, length: int) -> tuple[int, int, int]:
    """The calls, the nodes of the loops, and the characters of LLVM IR of a build."""
    dag = chain(kind, length)
    with CountedCalls() as calls:
        function = lowered(dag)
        text = emit_llvm(prepare(function, ZEN3), ZEN3)
    return calls.count, nodes(function), len(text)


def require_growth_of_nodes(kind: str, short: int, long: int) -> None:
    """Twice as many nodes are twice as much code; what is done for it grows with their square at
    most, as sketches are changed one step after the other."""
    work(kind, 2)  # what is done once
    few, many = work(kind, short), work(kind, long)
    factor = long / short
    assert many[0] < factor**2 * few[0]
    assert many[1] < 1.6 * factor * few[1]
    assert many[2] < 1.6 * factor * few[2]


@pytest.mark.parametrize("kind", ["mixed"])
def test_work_grows_with_the_nodes(kind: str) -> None:
    require_growth_of_nodes(kind, 8, 20)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [*KINDS, "mixed"])
@pytest.mark.parametrize(("short", "long"), [(8, 20), (10, 50), (50, 100), (100, 200)])
def test_work_of_long_chains_grows_with_the_nodes(kind: str, short: int, long: int) -> None:
    require_growth_of_nodes(kind, short, long)


@pytest.mark.parametrize(("kind", "length"), [("add", 40), ("celu", 13), ("mixed", 13)])
def test_long_chains_are_right(kind: str, length: int) -> None:
    function = lowered(chain(kind, length), NATIVE)
    x = np.random.default_rng(length).uniform(-1, 1, SHAPE).astype(np.float32)
    y = np.full(SHAPE, np.nan, np.float32)
    compile_module(function, NATIVE, "chain")(x, y)
    # exp(x) - 1 loses digits near 0, once a node
    atol = 1e-6 if kind in ("celu", "mixed") else 1e-30
    np.testing.assert_allclose(y, expected(kind, length, x), 1e-3, atol)
    if length == 13:
        interpret(function, [x, y], fresh_outputs=True)
        np.testing.assert_allclose(y, expected(kind, length, x), 1e-3, 1e-5)


def shifted(length: int) -> ac.ComputeDAG:
    """Each node reads the one before it at two places, some of them under a condition."""
    width = 24
    source = last = ac.placeholder((4, width), "x")
    for number in range(length):
        before = last

        def body(i: Any, j: Any, t: ac.Tensor = before) -> Any:
            return ac.if_then_else(j > 0, t[i, j - 1], 0.5 * t[i, j]) * 0.25 + t[i, j] * 0.5

        last = ac.compute((4, width), body, f"t{number}")
    return ac.ComputeDAG([source, last])


def into_a_sum(length: int) -> ac.ComputeDAG:
    k = ac.reduce_axis(33, "k")
    dag_of = chain("silu", length)
    source = ac.placeholder(SHAPE, "x")
    last = source
    for number in range(len(dag_of.ops)):
        before = last
        last = ac.compute(SHAPE, lambda i, j, t=before: t[i, j] * ac.sigmoid(t[i, j]), f"t{number}")
    return ac.ComputeDAG([source, ac.compute((8,), lambda i: ac.sum(last[i, k], axis=k), "s")])


def with_residuals(length: int) -> ac.ComputeDAG:
    source = last = ac.placeholder(SHAPE, "x")
    for number in range(length):
        before = last
        inner = ac.compute(SHAPE, lambda i, j, t=before: ac.tanh(t[i, j]) * 0.5, f"f{number}")
        last = ac.compute(
            SHAPE, lambda i, j, t=before, f=inner: t[i, j] * 0.5 + f[i, j], f"t{number}"
        )
    return ac.ComputeDAG([source, last])


def with_outputs(length: int) -> ac.ComputeDAG:
    """Every fifth node is a result of the kernel, too."""
    source = last = ac.placeholder(SHAPE, "x")
    results: list[ac.Tensor] = []
    for number in range(length):
        before = last
        last = ac.compute(SHAPE, lambda i, j, t=before: t[i, j] * ac.sigmoid(t[i, j]), f"t{number}")
        results += [last] if number % 5 == 4 else []
    return ac.ComputeDAG([source, *dict.fromkeys([*results, last])])


def of_shared_values(length: int) -> ac.ComputeDAG:
    """One definition, in which each value is used twice by the next."""
    source = ac.placeholder(SHAPE, "x")

    def body(i: Any, j: Any) -> Any:
        v = source[i, j]
        for _ in range(length):
            v = v * 0.25 + v * ac.sigmoid(v)
        return v

    return ac.ComputeDAG([source, ac.compute(SHAPE, body, "y")])


@pytest.mark.parametrize(
    "build", [shifted, into_a_sum, with_residuals, with_outputs, of_shared_values]
)
def test_other_long_computations_are_right_and_short(
    build: Callable[[int], ac.ComputeDAG],
) -> None:
    sizes = [nodes(lowered(build(length))) for length in (5, 10, 15)]
    assert sizes[2] - sizes[1] < 3 * max(sizes[1] - sizes[0], 400)
    dag = build(12)
    function = lowered(dag, NATIVE)
    x = np.random.default_rng(1).uniform(-1, 1, dag.inputs[0].shape).astype(np.float32)
    outputs = [np.full(b.shape, np.nan, np.float32) for b in dag.outputs]
    compile_module(function, NATIVE, "kernel")(x, *outputs)
    for found, wanted in zip(outputs, evaluate(dag, [x]), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-4, 1e-6)


def test_a_value_that_cannot_be_written_out_is_refused() -> None:
    source, k = ac.placeholder((8,), "x"), ac.reduce_axis(8, "k")

    def body() -> Any:
        v = source[k]
        for _ in range(40):
            v = v + v
        return ac.sum(v, axis=k)

    with pytest.raises(LanguageError, match="'y' uses values again and again: written out it has"):
        ac.compute((), body, "y")


def test_a_chain_in_a_sum_goes_on_with_tensors() -> None:
    function = lowered(into_a_sum(40))
    assert nodes(function) < 40_000
