"""The counts of compiled kernels are those of their register tiles."""

from __future__ import annotations

import re

import pytest

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.inspect.assembly import Loop, innermost_loops
from ansorc.codegen.llvm.binding import assembly
from ansorc.codegen.llvm.emit import emit_llvm

AVX2 = ac.Target.parse("x86_64-linux-gnu -mcpu=znver3")
AVX512 = ac.Target.parse("x86_64-linux-gnu -mcpu=znver5")
NEON = ac.Target.parse("aarch64-linux-gnu -mcpu=cortex-a53")
APPLE = ac.Target.parse("aarch64-apple-darwin -mcpu=apple-m1")


def product(rows: int, vectors: int, target: ac.Target, steps: int = 1) -> str:
    """The assembly of a matrix product with a register tile of `rows` × `vectors`.

    `steps` of k are unrolled.
    """
    columns = vectors * target.vector_bytes // 4
    a = ac.placeholder((4 * rows, 64), name="A")
    b = ac.placeholder((64, 2 * columns), name="B")
    state = ac.schedule(ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")]))
    state = state.split("C", "i", [rows]).split("C", "j", [columns])
    state = state.split("C", "k", [steps])
    state = state.reorder("C", ["i.0", "j.0", "k.0", "k.1", "i.1", "j.1"])
    state = state.unroll("C", "k.1").unroll("C", "i.1").vectorize("C", "j.1")
    prepared = prepare(ac.lower(state), target)
    return assembly(emit_llvm(prepared, target), target)


def hottest(rows: int, vectors: int, target: ac.Target, steps: int = 1) -> Loop:
    """The loop over k of such a product."""
    found = innermost_loops(product(rows, vectors, target, steps))
    return max(found, key=lambda loop: loop.fma)


@pytest.mark.parametrize(
    ("rows", "vectors", "target"),
    [(6, 2, AVX2), (1, 2, AVX2), (4, 3, AVX2), (8, 3, AVX512), (12, 2, AVX512), (8, 3, NEON),
     (4, 4, NEON), (8, 3, APPLE)],
)  # fmt: skip
def test_as_many_multiply_adds_as_the_tile_has(rows: int, vectors: int, target: ac.Target) -> None:
    loop = hottest(rows, vectors, target)
    steps, rest = divmod(loop.fma, rows * vectors)
    assert rest == 0
    assert steps >= 1
    assert loop.counts.loads >= steps * vectors
    assert loop.stores == 0
    assert loop.spills == 0
    assert loop.counts.scalar_fma == 0


@pytest.mark.parametrize(
    ("rows", "vectors", "target"), [(14, 2, AVX512), (9, 3, AVX512), (6, 2, AVX2)]
)
def test_unrolled_steps_need_no_more_registers_than_one(
    rows: int, vectors: int, target: ac.Target
) -> None:
    loop = hottest(rows, vectors, target, steps=8)
    assert loop.fma == 8 * rows * vectors
    assert loop.spills == 0
    assert loop.counts.loads == 8 * vectors
    assert loop.counts.broadcasts == 8 * rows


@pytest.mark.parametrize(("columns", "wider"), [(3, "[yz]mm"), (7, "zmm")])
def test_short_rows_are_short_vectors(columns: int, wider: str) -> None:
    a, b = ac.placeholder((8, 4), name="A"), ac.placeholder((4, columns), name="B")
    state = ac.schedule(ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")]))
    state = state.reorder("C", ["k", "i", "j"]).unroll("C", "i").vectorize("C", "j")
    text = assembly(emit_llvm(prepare(ac.lower(state), AVX512), AVX512), AVX512)
    assert "vfmadd" in text
    assert not re.search(wider, text)


@pytest.mark.parametrize(("vectors", "target"), [(2, AVX2), (5, NEON)])
def test_a_tile_that_is_too_large_spills(vectors: int, target: ac.Target) -> None:
    loop = hottest(12, vectors, target)
    assert loop.counts.vector_spills + loop.counts.vector_reloads > 0


@pytest.mark.parametrize(("rows", "vectors", "target"), [(9, 4, AVX512), (6, 3, AVX2)])
def test_vectors_are_spilled_to_aligned_places(rows: int, vectors: int, target: ac.Target) -> None:
    register = "%zmm" if target is AVX512 else "%ymm"
    text = product(rows, vectors, target)
    spilled = re.findall(rf"^\s+(vmov\w+)\s+{register}\d+, -?\d*\(%rsp\)", text, re.MULTILINE)
    assert set(spilled) <= {"vmovaps", "vmovapd", "vmovdqa", "vmovdqa64"}
    assert hottest(rows, vectors, target).counts.vector_spills > 0
    assert spilled
