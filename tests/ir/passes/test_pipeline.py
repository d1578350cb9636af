"""The passes for CPUs, one after another."""

from __future__ import annotations

from ansorc.ir.passes.pipeline import CPU_PASSES, run_passes
from tests.ir.passes.nests import (
    Matmul,
)
from tests.ir.passes.test_pass_meaning import AVX


def test_the_trace_names_every_pass() -> None:
    seen: list[str] = []
    run_passes(CPU_PASSES, Matmul().function(), AVX, lambda name, function: seen.append(name))
    assert seen == [name for name, _ in CPU_PASSES]
    assert {"simplify", "partition_loops", "vectorize_loops"} <= set(seen)
