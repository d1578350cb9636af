"""Vectorised loops of a run-time extent become blocks of known length."""

from __future__ import annotations

import numpy as np

from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.passes.block_vectors import block_vectors
from ansorc.ir.printer import to_text
from ansorc.ir.specialize import specialize
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify

SUMS = """\
kernel f[n: 1..90](A: float32[3, n of 90], S: float32[3]):
    size dim.n in 0..91:
        for i in 0..3:
            S[i] = 0.0
            vectorized k in 0 .. dim.n of 90:
                S[i] = S[i] + A[i, k]
"""
DOUBLED = """\
kernel f[n: 1..90](A: float32[3, n of 90], S: float32[3, n of 90]):
    size dim.n in 0..91:
        for i in 0..3:
            vectorized k in 0 .. dim.n of 90:
                S[i, k] = A[i, k] * 2.0
"""


def _run(function: Function, n: int) -> tuple[np.ndarray, np.ndarray]:
    exact = specialize(function, {"n": n})
    a = np.random.default_rng(n).random((3, n), np.float32)
    result = np.zeros(exact.params[1].shape, np.float32)
    interpret(exact, [a, result], fresh_outputs=True)
    return a, result


def test_a_sum_has_one_partial_result_for_each_lane() -> None:
    function = block_vectors(parse(SUMS), 32)
    verify(function)
    text = to_text(function)
    assert "alloc S.part: float32[32] local" in text
    assert "ragged k.block in 0 .. dim.n // 32 of 3:" in text
    for n in (1, 31, 32, 33, 64, 90):
        a, result = _run(function, n)
        np.testing.assert_allclose(result, a.sum(axis=1), rtol=1e-5)


def test_other_loops_are_whole_blocks_and_masked_vectors() -> None:
    function = block_vectors(parse(DOUBLED), 16)
    verify(function)
    assert "vectorized k.last in 0..4:" in to_text(function)
    for n in (1, 15, 16, 17, 90):
        a, result = _run(function, n)
        np.testing.assert_array_equal(result, a * 2)


def test_loops_of_known_extents_stay() -> None:
    function = specialize(parse(DOUBLED), {"n": 9})
    assert block_vectors(function, 32) is function
