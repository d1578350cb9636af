"""The identities of large results: stored beside the tile that adds to them, once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.ir.interpret import interpret
from ansorc.ir.passes.pipeline import CPU_PASSES, run_passes
from ansorc.ir.printer import to_text
from ansorc.ir.verify import verify
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.schedule import Schedule, lower
from ansorc.target import Target
from tests.support.nightly import examples

AVX = Target.parse("x86_64-linux-gnu -mcpu=x86-64-v2 -mattr=+avx")


def product(n: int, m: int, k: int) -> ComputeDAG:
    a, b = ac.placeholder((n, k), name="A"), ac.placeholder((k, m), name="B")
    r = ac.reduce_axis(k, name="k")
    c = ac.compute((n, m), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    return ComputeDAG([a, b, c])


def blocked(n: int, m: int, k: int, depth: tuple[int, int]) -> Schedule:
    """Two levels of k around the loops of i, and one inside."""
    s = ac.schedule(product(n, m, k)).split("C", "i", [4]).split("C", "j", [16])
    s = s.split("C", "k", depth)
    s = s.reorder("C", ["j.0", "k.0", "k.1", "i.0", "k.2", "i.1", "j.1"])
    return s.unroll("C", "i.1").vectorize("C", "j.1")


def test_a_large_result_begins_beside_its_tile() -> None:
    lines = [line.strip() for line in to_text(lower(blocked(128, 32, 8, (2, 2)))).splitlines()]
    assert "if k.0 == 0 and k.1 == 0:" in lines
    assert lines.index("if k.0 == 0 and k.1 == 0:") > lines.index("for i.0 in 0..32:")


def test_a_small_result_begins_before_all_its_terms() -> None:
    text = to_text(lower(blocked(16, 16, 8, (2, 2))))
    assert "if " not in text
    assert text.index("= 0.0") < text.index("for k.0")


def test_registers_are_set_or_loaded() -> None:
    prepared = run_passes(CPU_PASSES, lower(blocked(128, 32, 8, (2, 2))), AVX)
    lines = [line.strip() for line in to_text(prepared).splitlines()]
    first = lines.index("if k.0 == 0 and k.1 == 0:")
    assert lines[first - 1].startswith("alloc C.reg")
    assert lines[first + 4] == "else:"
    assert not [line for line in lines if line.startswith("C[") and "= broadcast(0.0" in line]


@examples(5, nightly=20)
@given(
    st.sampled_from((65, 70, 131)), st.sampled_from((16, 17, 40)), st.sampled_from((1, 5, 12)),
    st.sampled_from(((1, 1), (2, 1), (2, 3), (4, 2))),
)  # fmt: skip
def test_values(n: int, m: int, k: int, depth: tuple[int, int]) -> None:
    state = blocked(n, m, k, depth)
    rng = np.random.default_rng(n + m + k)
    inputs = [rng.integers(-4, 5, b.shape).astype(np.float32) for b in state.dag.inputs]
    for function in (lower(state), run_passes(CPU_PASSES, lower(state), AVX)):
        verify(function)
        found = np.full((n, m), np.nan, np.float32)
        interpret(function, [*inputs, found], fresh_outputs=True)
        np.testing.assert_array_equal(found, evaluate(state.dag, inputs)[0])
