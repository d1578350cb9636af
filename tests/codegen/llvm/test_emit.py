"""The machine code of random programs computes exactly what the interpreter computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ansorc.ir.interpret import interpret
from ansorc.ir.passes.pipeline import CPU_PASSES, run_passes
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.target import Target
from tests.codegen.llvm.llvm_harness import call
from tests.support.assumed import executable
from tests.support.guarded_memory import guarded
from tests.support.ir_strategies import Options, arrays_for, functions
from tests.support.nightly import examples

SSE = "x86_64-linux-gnu -mcpu=x86-64-v2"
TARGETS = (
    Target.parse(SSE),
    Target.parse(f"{SSE} -mattr=+avx"),
    Target.parse(f"{SSE} -mattr=+avx,+avx2,+avx512bw"),
    Target.parse(f"{SSE} -mattr=+avx,+avx2,+avx512bw,+avx512vl"),
)
WIDE_TREES = [HealthCheck.too_slow, HealthCheck.data_too_large]


def _assert_same(function: Function, code: Function, seed: int, threads: int) -> None:
    expected = arrays_for(function, seed)
    found = [guarded(array, at_end=seed % 2 == 0) for array in expected]
    interpret(function, expected)
    status, _ = call(code, found, threads, has_contraction=False)
    assert status == 0
    for param, ours, theirs in zip(function.params, found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=param.name)


@examples(12, nightly=60, options=settings(suppress_health_check=WIDE_TREES))
@given(functions(Options(has_math=False)), st.integers(0, 99), st.integers(1, 2))
def test_programs_as_they_are(function: Function, seed: int, threads: int) -> None:
    _assert_same(function, function, seed, threads)


@examples(12, nightly=60, options=settings(suppress_health_check=WIDE_TREES))
@given(functions(Options(has_math=False)), st.integers(0, 99), st.sampled_from(TARGETS))
def test_programs_prepared_for_a_cpu(function: Function, seed: int, target: Target) -> None:
    prepared = run_passes(CPU_PASSES, function, target)
    _assert_same(function, prepared, seed, threads=1)


@pytest.mark.parametrize("text", ["x86_64-linux-gnu", "x86_64-linux-gnu -mcpu=x86-64-v3"])
@examples(4, nightly=8, options=settings(suppress_health_check=WIDE_TREES))
@given(functions(Options(has_math=False)))
def test_older_processors_compute_the_same(text: str, function: Function) -> None:
    target = executable(text)
    if "f16c" not in target.real.features:
        assume("float16" not in to_text(function))  # refused there
    expected, found = arrays_for(function, 0), arrays_for(function, 0)
    interpret(function, expected)
    assert call(function, found, target=target, has_contraction=False)[0] == 0
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
