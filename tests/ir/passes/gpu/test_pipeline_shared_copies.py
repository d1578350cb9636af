"""Copies to shared memory that run ahead: what they compute, and that a missing wait is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.cuda.emit import emit_cuda
from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.cuda.emulation.sanitize import check_program
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin, disassemble
from ansorc.errors import IRError, ScheduleError
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.interpret import interpret
from ansorc.ir.node import Node, rewrite
from ansorc.ir.parser import parse
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.pipeline import run_passes
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Await, Barrier, Function, Seq, Store, statements
from ansorc.schedule import Schedule
from ansorc.target import Target
from tests.codegen.cuda.hand_schedules import matmul_dag, tiled_matmul
from tests.codegen.cuda.texts import changed
from tests.codegen.cuda.wheels import needs_wheels

ARCHES = ["sm_75", "sm_80"]
CASES = [
    (32, 32, 32, 4, 3, "float32"),
    (30, 29, 45, 1, 2, "float32"),
    (30, 29, 45, 1, 4, "float32"),
    (32, 32, 16, 4, 3, "float16"),
    (16, 16, 8, 4, 3, "float32"),
]


def product(m: int, n: int, k: int, lanes: int, stages: int, dtype: str = "float32") -> Schedule:
    tiled = tiled_matmul(matmul_dag(m, n, k, dtype), (2, 2, 2), (2, 2, 4), 8, lanes)
    return tiled.pragma("C.local", "async_stages", stages)


def prepared(state: Schedule, arch: str = "sm_80") -> Function:
    return run_passes(CUDA_PASSES, ac.lower(state, "kernel"), Target.parse(f"cuda -arch={arch}"))


def operands(function: Function) -> list[Array]:
    rng = np.random.default_rng(0)
    arrays: list[Array] = []
    for buffer in function.params:
        memory = aligned_empty(buffer.bytes, np.uint8).view(buffer.dtype.numpy)
        arrays.append(memory.reshape(buffer.shape))
        arrays[-1][...] = rng.uniform(-1, 1, buffer.shape)
    return arrays


def error(arrays: list[Array]) -> float:
    a, b, c = (array.astype(np.float64) for array in arrays)
    return float(np.max(np.abs(c - a @ b)))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("case", CASES)
def test_the_interpreter_finds_the_same(case: tuple[int, ...], arch: str) -> None:
    function = prepared(product(*case), arch)  # pyright: ignore[reportArgumentType]
    assert parse(to_text(function)) == function
    arrays = operands(function)
    interpret(function, arrays)
    assert error(arrays) < (2e-2 if "float16" in case else 1e-5)


def test_one_barrier_an_iteration() -> None:
    for arch in ARCHES:
        parts = list(statements(prepared(product(32, 32, 32, 4, 3), arch).body))
        assert sum(isinstance(part, Barrier) for part in parts) == 1
        begun = [part for part in parts if isinstance(part, Store) and part.is_async]
        assert len(begun) == (4 if arch == "sm_80" else 0)


def without(function: Function, what: type[Node]) -> Function:
    def rule(old: Node) -> Node | None:
        return Seq(()) if isinstance(old, what) else None

    return replace(function, body=rewrite(function.body, rule))


def waiting_for_less(function: Function) -> Function:
    def rule(old: Node) -> Node | None:
        return replace(old, pending=old.pending + 1) if isinstance(old, Await) else None

    return replace(function, body=rewrite(function.body, rule))


def test_the_interpreter_finds_what_is_missing() -> None:
    function = prepared(product(32, 32, 64, 4, 3))
    arrays = operands(function)
    with pytest.raises(IRError, match=r"an element of A\.shared: .* shared that nobody wrote"):
        interpret(without(function, Await), arrays)
    for mutant in (without(function, Barrier), waiting_for_less(function)):
        with pytest.raises(IRError, match="has a race: threads"):
            interpret(mutant, arrays)


@pytest.mark.parametrize("case", CASES)
def test_the_text_computes_the_same(case: tuple[int, ...]) -> None:
    function = prepared(product(*case))  # pyright: ignore[reportArgumentType]
    program = emit_cuda(function, Target.parse("cuda -arch=sm_80"))
    arrays = operands(function)
    assert EmulatedProgram(compile_library(program)).run(arrays, None) == 0
    assert error(arrays) < (2e-2 if "float16" in case else 1e-5)


def test_the_emulation_finds_what_is_missing() -> None:
    program = emit_cuda(prepared(product(32, 32, 64, 4, 3)), Target.parse("cuda -arch=sm_80"))
    assert check_program(program, operands(prepared(product(32, 32, 64, 4, 3))), "thread") is None
    arrays = operands(prepared(product(32, 32, 64, 4, 3)))
    less = changed(program, "await_copies<1>()", "await_copies<2>()")
    EmulatedProgram(compile_library(less)).run(arrays, None)
    assert not error(arrays) < 1e-2
    found = check_program(changed(program, "__syncthreads();", "", 1), arrays, "thread")
    assert found is not None
    assert "data race" in found.kind


@needs_wheels
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_the_machine_code_copies_to_shared_memory(arch: str) -> None:
    function = prepared(product(32, 32, 32, 4, 3), arch)
    cubin = compile_cubin(cuda_text(emit_cuda(function, Target.parse(f"cuda -arch={arch}"))), arch)
    assert cubin.resources[0].spill_store_bytes == 0
    assert ("LDGSTS" in disassemble(cubin.image)) is (arch != "sm_75")


def test_too_many_stages_are_refused() -> None:
    with pytest.raises(ScheduleError, match="need too much shared memory; the most is 8"):
        product(32, 32, 32, 4, 9)


@pytest.mark.parametrize(
    ("rows", "test", "waits"), [(16, "0 < 1", 0), (17, "0 < 1", 1), (2, "t + r * 32 < 50", 1)]
)
def test_copies_that_a_thread_would_wait_for_are_begun_together(
    rows: int, test: str, waits: int
) -> None:
    text = f"""\
kernel k(A: float32[{rows * 32}], C: float32[{rows * 32}]):
    bound threadIdx.x t in 0..32:
        alloc S: float32[{rows * 32}] shared
        for r in 0..{rows}:
            if {test}:
                S[r * 32 + t] = A[r * 32 + t]
        for q in 0..{rows}:
            C[q * 32 + t] = S[{rows * 32 - 1} - q * 32 - t]
"""
    function = run_passes(CUDA_PASSES, parse(text), Target.parse("cuda -arch=sm_80"))
    parts = list(statements(function.body))
    assert sum(isinstance(part, Await) for part in parts) == waits
    assert any(isinstance(part, Store) and part.is_async for part in parts) == bool(waits)
    older = run_passes(CUDA_PASSES, parse(text), Target.parse("cuda -arch=sm_75"))
    assert not any(isinstance(part, Await) for part in statements(older.body))
