"""Tensorize: what it does to the loops, that it keeps the numbers, and its refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.errors import ScheduleError
from ansorc.ir.interpret import interpret
from ansorc.ir.printer import to_text
from ansorc.lang.reference import evaluate
from ansorc.schedule import Schedule, lower, replay, schedule, steps_from_json, steps_to_json
from ansorc.schedule.steps import Tensorize
from ansorc.target import Target
from ansorc.target.dot_products import dot_products
from tests.support.assumed import executable
from tests.support.narrow_kernels import SPR, run, values
from tests.support.nightly import examples

KINDS = {
    ("dot4", "uint8", "int8"): "int32",
    ("dot2", "int8", "uint8"): "int32",
    ("dot2", "int16", "int16"): "int32",
    ("dot2", "bfloat16", "bfloat16"): "float32",
}


def matmul(
    shape: tuple[int, int, int], function: str, left: str, right: str, total: str = "int32"
) -> Schedule:
    n, m, depth = shape
    terms = int(function[-1])
    a = ac.placeholder((n, depth), "A", left)
    b = ac.placeholder((depth // terms, m, terms), "B", right)
    k = ac.reduce_axis(depth, "k")
    c = ac.compute(
        (n, m),
        lambda i, j: ac.sum(
            a[i, k].astype(total) * b[k // terms, j, k % terms].astype(total), axis=k
        ),
        "C",
    )
    d = ac.compute((n, m), lambda i, j: ac.maximum(c[i, j], 1), "D")
    return schedule(ac.ComputeDAG([a, b, d]))


def plain_matmul(shape: tuple[int, int, int], left: str, right: str, total: str) -> Schedule:
    """Return a product whose weights are not packed, so that their factors have to be gathered."""
    n, m, depth = shape
    a, b = ac.placeholder((n, depth), "A", left), ac.placeholder((depth, m), "B", right)
    c = ac.ops.matmul(a, b, "C", sum_dtype=total)
    d = ac.compute((n, m), lambda i, j: ac.maximum(c[i, j], 1), "D")
    return schedule(ac.ComputeDAG([a, b, d]))


def bytes_() -> Schedule:
    return matmul((6, 32, 16), "dot4", "uint8", "int8")


def tiled() -> Schedule:
    return bytes_().split("C", "k", [4]).reorder("C", ["i", "k.0", "j", "k.1"]).vectorize("C", "j")


def test_it_lowers_to_a_dot_product() -> None:
    state = tiled().tensorize("C", "k.1", "dot4")
    assert "tensorize k.1 in 0..4" in str(state)
    text = to_text(lower(state))
    assert "C[i, j] = dot4(C[i, j], A[i, k.0 * 4 + ramp(0, 1, 4)], B[" in text
    prepared = to_text(prepare(lower(state), Target.parse("x86_64-linux-gnu -mcpu=sapphirerapids")))
    assert "C.reg[ramp(j.chunk * 16, 1, 16)] = dot4(C.reg[ramp(j.chunk * 16, 1, 16)]" in prepared
    assert "B[k.0, j.chunk * 16 + ramp(0, 1, 64) // 4, ramp(0, 1, 64) % 4]" in prepared


def test_it_is_a_gene() -> None:
    state = tiled().tensorize("C", "k.1", "dot4")
    again = replay(state.dag, steps_from_json(steps_to_json(state.steps)))
    assert str(again) == str(state)


@st.composite
def programs(draw: st.DrawFn) -> Schedule:
    """Draw a tensorized product of any small shape, perhaps split, packed, fused and unrolled."""
    (function, left, right), total = draw(st.sampled_from(sorted(KINDS.items())))
    terms = int(function[-1])
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 40))
    shape = (n, m, terms * draw(st.integers(1, 5)))
    if draw(st.booleans()):
        state = matmul(shape, function, left, right, total)
    else:
        state = plain_matmul(shape, left, right, total)
    state = state.split("C", "k", [terms]).split("C", "j", [draw(st.sampled_from([1, 4, 8, 24]))])
    outer = draw(st.permutations(["i", "j.0", "k.0", "j.1"]))
    state = state.reorder("C", [*outer, "k.1"])
    if outer[0] != "j.1" and draw(st.booleans()):
        state = state.cache_read("B", "local", ["C"]).compute_at("B.local", "C", outer[0])
    for name in draw(st.lists(st.sampled_from(["i", "k.0"]), unique=True)):
        state = state.unroll("C", name)
    if draw(st.booleans()):
        state = state.vectorize("C", "j.1")
    state = state.tensorize("C", "k.1", function)
    if draw(st.booleans()):
        state = state.pragma("C", "auto_unroll_max_step", 16)
    return state


@given(programs(), st.integers(0, 1000))
@examples(9, nightly=40)
def test_it_keeps_the_numbers(state: Schedule, seed: int) -> None:
    inputs = [values(b, np.random.default_rng(seed)) for b in state.dag.inputs]
    (expected,) = evaluate(state.dag, inputs)
    out = np.full(expected.shape, 77, state.dag.outputs[0].dtype.numpy)
    target = executable(SPR)
    interpret(prepare(lower(state), target), [*inputs, out], fresh_outputs=True)
    allowed = 1e-4 if out.dtype.kind == "f" else 0.0
    assert np.abs(out.astype(np.float64) - expected).max() <= allowed
    function_name = next(s.function for s in state.steps if isinstance(s, Tensorize))
    names = [buffer.dtype.name for buffer in state.dag.inputs]
    if function_name == "dot2" and names[0] != "bfloat16":
        names = ["int16", "int16"]
    if dot_products(target, int(function_name[-1]), *names):
        np.testing.assert_array_equal(run(state, inputs, target)[0], out)


Refused = Callable[[], Schedule]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: tiled().tensorize("C", "k.1", "dot3"),
            "no dot product 'dot3'; use dot2, dot4, dot4_pairs",
        ),
        (lambda: tiled().tensorize("C", "k.1", "dot2"), "'k.1' runs 4 times, but dot2 adds 2"),
        (lambda: tiled().tensorize("C", "k.0", "dot4"), "'k.0' is not a reduction inside all"),
        (
            lambda: bytes_().reorder("C", ["k", "i", "j"]).tensorize("C", "j", "dot4"),
            "'j' is not a reduction inside all other loops; reorder first",
        ),
        (
            lambda: tiled().tensorize("C", "k.1", "dot4").reorder("C", ["k.1", "j"]),
            "'k.1' is tensorized and stays innermost",
        ),
        (
            lambda: tiled().tensorize("C", "k.1", "dot4").split("C", "k.1", [2]),
            "'k.1' is already marked tensorize; split it before that",
        ),
        (
            lambda: (
                tiled().tensorize("C", "k.1", "dot4").cache_read("B", "local", ["C"])
                .compute_at("B.local", "C", "k.1")
            ),
            "'j' is vectorized; choose a loop outside it",
        ),
        (
            lambda: (
                matmul((6, 32, 18), "dot2", "int8", "int8").split("C", "k", [4])
                .tensorize("C", "k.1", "dot4")
            ),
            "'k' was split into parts that do not divide it; pad it with zeros to a multiple",
        ),
        (
            lambda: (
                matmul((6, 32, 16), "dot4", "int16", "int8").split("C", "k", [4])
                .tensorize("C", "k.1", "dot4")
            ),
            r"the terms of 'C' are not cast\(int32, a\) \* cast\(int32, b\), a and b of int8",
        ),
        (
            lambda: (
                matmul((6, 32, 16), "dot4", "int8", "int8", "int64").split("C", "k", [4])
                .tensorize("C", "k.1", "dot4")
            ),
            "'C' is summed in int64, but dot4 makes sums of int32",
        ),
        (lambda: maximum().tensorize("M", "k.1", "dot4"), "'M' is no sum"),
    ],
)  # fmt: skip
def test_refusals(make: Refused, words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        make()


def maximum() -> Schedule:
    a, k = ac.placeholder((3, 8), "A", "int8"), ac.reduce_axis(8, "k")
    m = ac.compute((3,), lambda i: ac.max(a[i, k].astype("int32"), axis=k), "M")
    return schedule(ac.ComputeDAG([a, m])).split("M", "k", [4])
