"""The math functions on NEON vectors, run under QEMU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ansorc.codegen.call.build import compile_module
from ansorc.ir.expr import Load, Var, as_expr
from ansorc.ir.math_call import call
from ansorc.ir.stmt import For, Function, Store
from ansorc.target import Target
from tests.codegen.llvm.llvm_harness import buffer, lanes, loop, seq
from tests.codegen.llvm.vector_math.math_kernels import UNARY
from tests.codegen.llvm.vector_math.math_references import (
    IN_FLOAT64,
    errors32,
    every_exponent,
    stated_errors,
)
from tests.support.arm.emulated import emulated, linked, needs_qemu

COUNT = 1 << 13


@needs_qemu
@pytest.mark.parametrize("cpu", ["cortex-a53", "neoverse-n1"])
def test_every_function_keeps_its_bound(cpu: str, tmp_path: Path) -> None:
    x, out = buffer("x", COUNT), buffer("out", len(UNARY), COUNT)

    def row(number: int) -> For:
        def vector(i: Var) -> Store:
            place = lanes(i * 4, 4)
            return Store(out, (as_expr(number), place), call(UNARY[number], Load(x, (place,))))

        return loop(f"i{number}", COUNT // 4, vector)

    kernel = Function("functions", (x, out), seq(*(row(n) for n in range(len(UNARY)))))
    module = compile_module(kernel, Target.parse(f"aarch64-linux-gnu -mcpu={cpu}"))
    data = every_exponent()[:: (1 << 20) // COUNT].copy()
    program = linked(module, tmp_path)
    code, found = emulated(program, [data], (len(UNARY), COUNT), threads=1, cpu=cpu)
    assert code == 0
    for name, results in zip(UNARY, found, strict=True):
        with np.errstate(all="ignore"):
            wanted = IN_FLOAT64[name](data.astype(np.float64))
        assert errors32(results, wanted).max() <= stated_errors()[name, "float32"], name
