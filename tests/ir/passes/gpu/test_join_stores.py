"""Neighbouring threads exchange results: what is computed, where it pays, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.cuda.emit import emit_cuda
from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.cuda.requests import requests_of
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin, disassemble
from ansorc.errors import IRError
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.passes.gpu.join_stores import join_stores
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.pipeline import run_passes
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from ansorc.target import Target
from tests.codegen.cuda.hand_schedules import matrix_dag, matrix_matmul
from tests.codegen.cuda.wheels import needs_wheels

SM_80 = Target.parse("cuda -arch=sm_80")
TEXT = """
kernel f(X: float32[{m}, {n}], D: {dtype}[{m}, {n}]):
    bound blockIdx.x b in 0..2:
        bound threadIdx.x t in 0..64:
            unrolled v in 0..8:
                vectorized j in 0..2:
                    if {guard}:
                        D[{row}, {column} + j] = cast({dtype}, X[{row}, {column} + j] * 2.0)
"""
ROW, COLUMN = "b * 32 + t // 32 * 16 + v // 4 * 8 + t // 4 % 8", "v % 4 * 8 + t % 4 * 2"
GROUPED = """\
            unrolled v.turn in 0..2:
                alloc D.own: float16[8] local
                alloc D.joined: float16[8] local
                unrolled v.piece in 0..4:
                    vectorized j in 0..2:
                        D.own[v.piece * 2 + j] = cast(float16, """


def made(
    m: int = 64, n: int = 32, dtype: str = "float16", row: str = ROW, column: str = COLUMN
) -> Function:
    guard = [f"{row} < {m}"] * (m < 64) + [f"{column} < {n}"] * (n < 32)
    guarded = TEXT.replace("{guard}", " and ".join(guard))
    if not guard:
        lines = [line for line in guarded.splitlines() if "if " not in line]
        lines[-1] = lines[-1].removeprefix("    ")
        guarded = "\n".join(lines) + "\n"
    return parse(guarded.format(m=m, n=n, dtype=dtype, row=row, column=column))


def by_emulation(function: Function, arrays: list[Array]) -> None:
    program = EmulatedProgram(compile_library(emit_cuda(function, SM_80)))
    assert program.run(arrays, None) == 0


CASES = {
    "whole": ((64, 32, "float16"), 4),
    "rows": ((50, 32, "bfloat16"), 4),
    "both": ((50, 24, "float16"), 4),
    "columns in halves": ((64, 28, "float16"), 2),
    "columns in pairs": ((64, 30, "float16"), 0),
    "bytes": ((64, 32, "int8"), 4),
    "whole sectors": ((64, 32, "float32"), 0),
}


@pytest.mark.parametrize("run", [interpret, by_emulation], ids=["interpreted", "emulated"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_stored(name: str, run: Callable[[Function, list[Array]], None]) -> None:
    (m, n, dtype), count = CASES[name]
    function = run_passes(CUDA_PASSES, made(m, n, dtype), SM_80)
    verify(function)
    text = to_text(function)
    assert parse(text) == function
    assert f", {count})" in text if count else "transpose" not in text
    x, found = (aligned_empty(b.bytes, np.uint8).view(b.dtype.numpy) for b in function.params)
    x[...] = np.random.default_rng(0).integers(-60, 60, x.shape)
    found[...] = 0
    run(function, [x.reshape(m, n), found.reshape(m, n)])
    np.testing.assert_array_equal(found.astype(np.float64), 2 * x.astype(np.float64))


def test_an_array_may_be_named_as_a_function_of_the_text() -> None:
    named = parse(to_text(made()).replace("D", "exchange").replace("X", "fill"))
    program = emit_cuda(run_passes(CUDA_PASSES, named, SM_80), SM_80)
    assert "half *__restrict__ exchange_" in cuda_text(program)
    compile_library(program)


def test_the_text() -> None:
    assert GROUPED in to_text(join_stores(made()))


@pytest.mark.parametrize(
    ("row", "column"),
    [("b * 32 + v * 4 + t // 16", "t % 16 * 2"), (ROW, "v % 4 * 8 + t % 2 * 4 + t // 2 % 2 * 2")],
)
def test_neighbours_that_fill_sectors_and_others_stay(row: str, column: str) -> None:
    function = made(row=row, column=column)
    assert join_stores(function) == function


ILLEGAL = {
    "transpose(a[ramp(0, 1, 8)], 8)": "2 or 4 threads exchange as many pieces",
    "transpose(a[ramp(0, 1, 2)], 4)": "2 or 4 threads exchange as many pieces",
    "transpose(a[ramp(0, 1, 8)], 2)": "a piece of float16x8 is more than 4 bytes",
}


@pytest.mark.parametrize("value", ILLEGAL)
def test_illegal_exchanges(value: str) -> None:
    lanes = 2 if "1, 2" in value else 8
    text = f"""
kernel f(A: float16[8]):
    bound threadIdx.x t in 0..32:
        alloc a: float16[8] local
        a[ramp(0, 1, {lanes})] = {value}
"""
    with pytest.raises(IRError, match=ILLEGAL[value]):
        verify(parse(text))


@needs_wheels
def test_results_of_16_bits_are_stored_16_bytes_a_thread() -> None:
    dag = matrix_dag(64, 64, 64, "float16", sums="float16")
    state = matrix_matmul(dag, (1, 2), (2, 2), "mma_f16")
    function = run_passes(CUDA_PASSES, ac.lower(state, "kernel"), SM_80)
    (stored,) = (r for _, r in requests_of(function) if r.is_store and r.buffer.name == "C")
    assert (stored.width, stored.pieces) == (16, stored.least)
    code = disassemble(compile_cubin(cuda_text(emit_cuda(function, SM_80)), "sm_80").image)
    stores = [line for line in code.splitlines() if "STG" in line]
    assert stores
    assert all("STG.E.128" in line for line in stores)
