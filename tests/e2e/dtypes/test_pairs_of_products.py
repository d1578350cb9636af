"""Dot products that add each two products of bytes in int16: text, rules, meaning, instructions."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.codegen.build import prepare
from ansorc.codegen.call.build import compile_module
from ansorc.errors import BuildError, IRError
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from ansorc.target import Target
from tests.support.assumed import executable
from tests.support.narrow_kernels import SPR, ZEN3, Array, assembly_of, mnemonics

TEXT = """kernel kernel(A: uint8[3, 12], B: int8[3, {columns}, 4], C: int32[3, {columns}]):
    for i in 0..3:
        for k in 0..3:
            vectorized j in 0..{columns}:
                C[i, j] = dot4_pairs(C[i, j], A[i, k * 4 + ramp(0, 1, 4)], B[k, j, ramp(0, 1, 4)])
"""


def product(columns: int) -> Function:
    return parse(TEXT.format(columns=columns))


def arrays_of(columns: int, most: int) -> list[Array]:
    """Return bytes, the ends of their ranges often; weights are up to `most`."""
    rng = np.random.default_rng(columns)
    data = np.where(rng.random((3, 12)) < 0.5, 255, rng.integers(0, 256, (3, 12)))
    signs = rng.choice([-1, 1], (3, columns, 4))
    weights = np.where(rng.random(signs.shape) < 0.5, most, rng.integers(0, most, signs.shape))
    sums = rng.integers(-(2**31), 2**31, (3, columns))
    return [data.astype(np.uint8), (signs * weights).astype(np.int8), sums.astype(np.int32)]


def interpreted(function: Function, arrays: list[Array]) -> Array:
    copies = [array.copy() for array in arrays]
    interpret(function, copies)
    return copies[-1]


def summed(arrays: list[Array]) -> Array:
    a, b, c = (array.astype(np.int64) for array in arrays)
    columns = b.shape[1]
    return (c + a @ b.transpose(0, 2, 1).reshape(-1, columns)).astype(np.int32)


def test_it_prints_and_parses() -> None:
    function = product(5)
    assert "dot4_pairs(C[i, j], A[i, k * 4 + ramp(0, 1, 4)], B[" in to_text(function)
    assert parse(to_text(function)) == function
    assert parse(to_text(function).replace("_pairs", "")) != function


def test_pairs_are_of_two_kinds_of_bytes() -> None:
    text = to_text(product(5)).replace("A: uint8", "A: int8")
    with pytest.raises(IRError, match="pairs are products of uint8 and int8"):
        verify(parse(text))


@pytest.mark.parametrize("columns", [1, 5, 8, 16, 23])
@pytest.mark.parametrize("target", [ZEN3, f"{SPR},-avx512vnni"])
def test_pairs_that_fit_are_exact(columns: int, target: str) -> None:
    function, arrays = product(columns), arrays_of(columns, 64)
    chosen = executable(target)
    np.testing.assert_array_equal(interpreted(function, arrays), summed(arrays))
    np.testing.assert_array_equal(interpreted(prepare(function, chosen), arrays), summed(arrays))
    module = compile_module(function, chosen, flops=1.0)
    out = arrays[-1].copy()
    module(*arrays[:-1], out)
    np.testing.assert_array_equal(out, summed(arrays))


def test_pairs_stay_at_the_ends_of_int16() -> None:
    data, zeros = np.full((3, 12), 255, np.uint8), np.zeros((3, 8), np.int32)
    for weight, end in ((127, 2**15 - 1), (-128, -(2**15))):
        weights = np.full((3, 8, 4), weight, np.int8)
        assert np.all(interpreted(product(8), [data, weights, zeros]) == 6 * end)


def test_the_instructions() -> None:
    found = mnemonics(assembly_of(product(16), ZEN3))
    assert {"vpmaddubsw", "vpmaddwd"} <= found
    arm = Target.parse("aarch64-linux-gnu -mcpu=neoverse-v1")
    with pytest.raises(BuildError, match="uses dot4_pairs of uint8 and int8, for which no ARM"):
        compile_module(product(16), arm, flops=1.0)
