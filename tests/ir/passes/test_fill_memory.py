"""Memory that nobody wrote shows in compiled kernels of tests, wherever it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ansorc.codegen.call.build import compile_module
from ansorc.codegen.cuda.emit import emit_cuda
from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.ir.aligned import aligned_empty
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.parser import parse
from ansorc.ir.passes.fill_memory import VARIABLE, fill_memory
from ansorc.target import Target

SIZES = {"local": 4, "register": 4, "global": 4, "local, large": 40_000}


def kernel(dtype: str, scope: str, size: int, zero: str) -> str:
    home = "" if scope == "global" else f" {scope}"
    return f"""
kernel k(A: {dtype}[2], R: {dtype}[2]):
    alloc T: {dtype}[{size}]{home}
    T[0] = A[0]
    R[0] = T[0]
    R[1] = T[1] + A[1] * {zero}
"""


@pytest.mark.parametrize("place", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32", "uint8"])
def test_what_nobody_wrote_shows(place: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    scope, size = place.removesuffix(", large"), SIZES[place]
    is_float = "float" in dtype
    zero = (
        ("0.0" if is_float else "0")
        if dtype == "float32"
        else f"{dtype}({'0.0' if is_float else 0})"
    )
    function = parse(kernel(dtype, scope, size, zero))
    kind = function.params[0].dtype
    a, r = np.ones(2, kind.numpy), np.zeros(2, kind.numpy)
    compile_module(function, Target.parse("native"))(a, r)
    wanted: Any = np.nan if is_float else integer_range(kind)[1]
    np.testing.assert_array_equal(r.astype(np.float64), [1, wanted])


def test_an_output_that_is_not_stored_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    function = parse("\nkernel k(A: float32[3], R: float32[2, 3]):\n    R[0, 1] = A[1]\n")
    r = np.zeros((2, 3), np.float32)
    compile_module(function, Target.parse("native"))(np.ones(3, np.float32), r)
    assert r[0, 1] == 1
    assert np.isnan(r).sum() == 5


def test_an_output_that_is_read_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    function = parse("\nkernel k(R: float32[2]):\n    R[0] = R[0] + 1.0\n")
    r = np.ones(2, np.float32)
    compile_module(function, Target.parse("native"))(r)
    assert list(r) == [2, 1]


def test_what_a_thread_of_a_gpu_has_is_filled() -> None:
    text = """
kernel k(A: float32[4], R: float32[4]):
    bound threadIdx.x t in 0..4:
        alloc T: float32[2] local
        T[0] = A[t]
        R[t] = T[0] + T[1] * 0.0
"""
    function, target = parse(text), Target.parse("cuda -arch=sm_80")
    arrays = [aligned_empty(16, np.uint8).view(np.float32) for _ in range(2)]
    for array in arrays:
        array[...] = 1
    library = compile_library(emit_cuda(fill_memory(function, has_threads=True), target))
    assert EmulatedProgram(library).run(arrays, None) == 0
    assert np.isnan(arrays[1]).all()
