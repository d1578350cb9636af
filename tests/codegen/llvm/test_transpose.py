"""Transposed copies: right for every dtype and length, and without element-wise gathers."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.call.build import compile_module
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.ir.parser import parse
from ansorc.lang import operators as ops
from ansorc.schedule import lower
from ansorc.target import Target, detect


def transposed(n: int, m: int, dtype: str) -> ac.Schedule:
    x = ac.placeholder((2, n, m), "x", dtype=dtype)
    dag = ac.ComputeDAG([x, ops.transpose(x, (0, 2, 1), name="y")])
    state = ac.schedule(dag)
    return state.vectorize("y", state.stage("y").iterators[-1].name)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "bfloat16"])
@pytest.mark.parametrize(("n", "m"), [(32, 16), (64, 37), (48, 130), (16, 3)])
def test_values(n: int, m: int, dtype: str) -> None:
    state = transposed(n, m, dtype)
    module = ac.build(state)
    given, found = state.dag.params
    x = np.arange(2 * n * m).reshape(2, n, m).astype(given.dtype.numpy)
    y = np.zeros(found.shape, found.dtype.numpy)
    module(x, y)
    np.testing.assert_array_equal(y, x.transpose(0, 2, 1))


@pytest.mark.parametrize(
    "text",
    ["native", "x86_64-linux-gnu -mcpu=x86-64-v3", "x86_64-linux-gnu -mcpu=x86-64-v4",
     "aarch64-linux-gnu -mcpu=cortex-a72"],
)  # fmt: skip
def test_a_block_is_turned_in_registers(text: str) -> None:
    target = Target.parse(text)
    lanes = target.vector_bytes // 4
    state = transposed(4 * lanes, 4 * lanes, "float32")
    text = emit_llvm(prepare(lower(state), target), target)
    assert text.count("shufflevector") >= lanes * (lanes.bit_length() - 1)
    assert "insertelement" not in text


def test_strides_and_offsets() -> None:
    function = parse(
        """kernel pick(S: float32[3, 20, 12], T: float32[9, 5, 8]):
    for k in 0..8:
        for c in 0..2:
            unrolled r in 0..4:
                T[k + 1, c + 2, ramp(r * 2, 1, 2)] = S[c + 1, ramp(c * 3 + r, 5, 2), k + 3]
    for b in 0..2:
        unrolled k in 0..4:
            T[k + 4, 0, ramp(b * 4, 1, 4)] = S[2, ramp(b + 1, 3, 4), k + b * 4]
"""
    )
    rng = np.random.default_rng(0)
    source = rng.normal(size=(3, 20, 12)).astype(np.float32)
    wanted = np.zeros((9, 5, 8), np.float32)
    for k, c, r, lane in np.ndindex(8, 2, 4, 2):
        wanted[k + 1, c + 2, r * 2 + lane] = source[c + 1, c * 3 + r + lane * 5, k + 3]
    for b, k, lane in np.ndindex(2, 4, 4):
        wanted[k + 4, 0, b * 4 + lane] = source[2, b + 1 + lane * 3, k + b * 4]
    found = np.zeros_like(wanted)
    target = detect()
    compile_module(prepare(function, target), target, "pick")(source, found)
    np.testing.assert_array_equal(found, wanted)


def test_what_is_copied_into_registers_stays_unrolled() -> None:
    function = parse(
        """kernel sums(X: float32[2, 64]):
    for u in 0..3:
        unrolled v in 0..4:
            vectorized w in 0..2:
                X[w, v] = X[w, v] + 1.0
"""
    )
    prepared = prepare(function, detect())
    assert "X.reg" in str(prepared)
    x = np.zeros((2, 64), np.float32)
    compile_module(function, detect())(x)
    np.testing.assert_array_equal(x[:, :4], 3)
    np.testing.assert_array_equal(x[:, 4:], 0)
