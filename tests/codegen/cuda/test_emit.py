"""Programs scheduled by hand for a GPU: what they compute after all passes, and their text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.cuda.emit import emit_cuda
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin, disassemble
from ansorc.codegen.program.launch_plan import KernelArgument
from ansorc.errors import BuildError
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.gpu.whole_tiles import compute_whole_tiles
from ansorc.ir.passes.pipeline import run_passes
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Barrier, Function, statements
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.schedule import Schedule
from ansorc.target import Target
from tests.codegen.cuda.hand_schedules import (
    argmax,
    elementwise,
    matmul_dag,
    row_sums,
    softmax,
    tiled_conv2d,
    tiled_matmul,
    transpose,
)
from tests.codegen.cuda.wheels import needs_wheels

GOLDEN = Path(__file__).parent / "golden"
TARGET = Target.parse("cuda -arch=sm_90")
SCHEDULES = {
    "matmul": tiled_matmul(matmul_dag(32, 32, 16), (2, 2, 2), (2, 2, 4), 8, 4),
    "matmul with tails": tiled_matmul(matmul_dag(30, 29, 13), (2, 2, 2), (2, 2, 4), 8, 1),
    "matmul of halves": tiled_matmul(matmul_dag(16, 16, 8, "float16"), (1, 2, 2), (1, 2, 8), 4, 2),
    "matmul of int8": tiled_matmul(matmul_dag(16, 16, 8, "int8"), (1, 2, 2), (1, 2, 4), 4, 4),
    "transpose": transpose(24, 16),
    "transpose with tails": transpose(23, 13),
    "vectors": elementwise(256, 32, lanes=4),
    "vectors of halves with tails": elementwise(250, 32, "float16", lanes=8),
    "conv2d": tiled_conv2d(8, 8, 16),
    "conv2d with tails": tiled_conv2d(7, 4, 20),
    "softmax": softmax(3, 70, 32),
    "softmax of long rows": softmax(2, 200, 64),
    "softmax in warps and a half": softmax(2, 100, 96),
    "argmax": argmax(5, 30, 8),
    "row sums": row_sums(40, 10),
}


def prepared(state: Schedule, name: str = "kernel") -> Function:
    return run_passes(CUDA_PASSES, ac.lower(state, name), TARGET)


def ready(text: str) -> Function:
    return run_passes(CUDA_PASSES, parse(text), TARGET)


def text_of(function: Function) -> str:
    return cuda_text(emit_cuda(function, TARGET))


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_passes_keep_the_meaning(name: str) -> None:
    state = SCHEDULES[name]
    rng = np.random.default_rng(0)
    kinds = {buffer.name: buffer.dtype.numpy for buffer in state.dag.inputs}
    inputs = [rng.uniform(-2, 2, b.shape).astype(kinds[b.name]) for b in state.dag.inputs]
    expected = evaluate(state.dag, inputs)
    given = dict(zip(kinds, inputs, strict=True))
    arrays = [given.get(b.name, np.zeros(b.shape, b.dtype.numpy)) for b in state.dag.params]
    interpret(prepared(state), arrays, fresh_outputs=True)
    tolerance = 4e-2 if "halves" in name else 1e-5
    for found, wanted in zip(arrays[-len(expected) :], expected, strict=True):
        single, exact = found.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(single, exact, tolerance, tolerance)


@pytest.mark.parametrize("name", ["transpose", "matmul"])
def test_the_text_is_readable(name: str) -> None:
    text = text_of(prepared(SCHEDULES[name], name))
    kernel = text[text.index('extern "C"') :]
    assert kernel == (GOLDEN / f"{name}.cu").read_text()


def test_every_schedule_has_a_text_with_its_plan() -> None:
    for state in SCHEDULES.values():
        plan = emit_cuda(prepared(state), TARGET).plan
        assert [launch.name for launch in plan.launches] == ["kernel_0"]
        assert plan.workspace_bytes == 0


@needs_wheels
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_texts_compile_without_spills(arch: str) -> None:
    for name, state in SCHEDULES.items():
        cubin = compile_cubin(text_of(prepared(state)), arch)
        for kernel in cubin.resources:
            assert kernel.spill_store_bytes == 0, name
            assert kernel.stack_bytes == 0, name


@needs_wheels
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_inner_loop_of_a_large_product_is_multiply_adds(arch: str) -> None:
    state = tiled_matmul(matmul_dag(512, 512, 512), (2, 16, 4), (2, 16, 4), 8, 4)
    cubin = compile_cubin(text_of(prepared(state)), arch)
    sass = disassemble(cubin.image)
    loop = max(re.split(r"^\.L_\w+:", sass, flags=re.M), key=lambda part: part.count("FFMA"))
    operations = re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\d+ )?([A-Z0-9.]+)", loop)
    assert operations.count("FFMA") >= 0.85 * len(operations)
    for wanted in ("LDS.128", "LDG.E.128", "STS.128", "STG.E.128"):
        assert wanted in sass
    assert "STL" not in sass


@pytest.mark.parametrize(
    "name", ["matmul of int8", "conv2d with tails", "argmax", "row sums", "softmax of long rows"]
)
def test_the_text_runs_on_a_cpu(name: str) -> None:
    state = SCHEDULES[name]
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-9, 9, b.shape).astype(b.dtype.numpy) for b in state.dag.inputs]
    outputs = [np.zeros(b.shape, b.dtype.numpy) for b in state.dag.outputs]
    ac.build(state, Target.parse("cuda-emulated"))(*inputs, *outputs)
    for found, wanted in zip(outputs, evaluate(state.dag, inputs), strict=True):
        single, exact = found.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(single, exact, 1e-5, 1e-5)


def test_what_is_kept_between_kernels_lies_in_the_workspace() -> None:
    a = ac.placeholder((100,), name="A")
    b = ac.compute((100,), lambda i: a[i] + 1.0, name="B")
    s = ac.schedule(ac.ComputeDAG([a, ac.compute((100,), lambda i: b[99 - i], name="C")]))
    plan = emit_cuda(prepared(s.bind("B", "i", "threadIdx.x")), TARGET).plan
    first, second = plan.launches
    assert first.arguments == (KernelArgument("parameter", 0), KernelArgument("workspace", 0))
    assert second.arguments == (KernelArgument("parameter", 1), KernelArgument("workspace", 0))
    assert (first.block, second.block, plan.workspace_bytes) == ((100, 1, 1), (1, 1, 1), 512)


def barriers(function: Function) -> int:
    return sum(isinstance(part, Barrier) for part in statements(function.body))


SHARED = """
kernel f(A: float32[64], B: float32[64]):
    bound blockIdx.x b in 0..2:
        alloc S: float32[32] shared
        bound threadIdx.x t in 0..32:
            for k in 0..3:
                S[t] = A[b * 32 + t]
                B[b * 32 + t] = B[b * 32 + t] + S[{place}]
"""


@pytest.mark.parametrize(("place", "expected"), [("t", 0), ("31 - t", 2), ("t % 2", 2)])
def test_threads_wait_only_for_what_others_have_stored(place: str, expected: int) -> None:
    assert barriers(ready(SHARED.format(place=place))) == expected


def test_a_barrier_that_not_all_threads_reach_is_refused() -> None:
    text = SHARED.replace("for k in 0..3:", "if A[t] > 0.0:").format(place="31 - t")
    with pytest.raises(BuildError, match="a barrier under a condition that not all threads"):
        ready(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("    bound threadIdx.x i in 0..2048:\n        A[i] = 0.0\n", "have 2048 threads"),
        (
            "    bound threadIdx.z i in 0..128:\n        A[i] = 0.0\n",
            "threadIdx.z runs over 128; the most is 64",
        ),
        (
            "    bound blockIdx.x b in 0..2:\n        alloc S: float32[80000] shared\n"
            "        bound threadIdx.x i in 0..8:\n            S[i] = 0.0\n",
            "a block shares 320000 bytes of memory; the most here is 232448",
        ),
        (
            "    for k in 0..2:\n        bound blockIdx.x i in 0..8:\n            A[i] = 0.0\n",
            "start the blocks again and again",
        ),
    ],
)  # fmt: skip
def test_what_no_gpu_launches_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BuildError, match=reason):
        emit_cuda(ready(f"kernel f(A: float32[4096]):\n{text}"), TARGET)


def test_register_tiles_have_no_tests_inside() -> None:
    text = text_of(prepared(SCHEDULES["matmul with tails"]))
    tiles = [part for part in text.split("__syncthreads") if "+ A_shared" in part]
    for tile in tiles:
        before = tile[: tile.index("+ A_shared")]
        assert "if (" not in before
        assert "for (int k_1" in before


GUARDED = """
kernel f(A: float32[30], B: float32[30]):
    bound blockIdx.x b in 0..8:
        alloc C: float32[4] local
        for i in 0..4:
            {first}
        for k in 0..2:
            for i in 0..4:
                if {test}:
                    C[i] = C[i] + {term}
        for i in 0..4:
            if b * 4 + i < 30:
                B[b * 4 + i] = C[i]
"""


ZERO = "if b * 4 + i < 30:\n                C[i] = 0.0"


@pytest.mark.parametrize(
    ("test", "term", "first"),
    [
        ("b * 4 + i < 30", "1.0", "C[i] = 0.0"),
        ("b * 4 + i < 30", "A[b * 4 + i]", ZERO),
        ("b * 4 + i + k < 30", "1.0", ZERO),
        ("b * 4 + i < 29", "1.0", ZERO),
    ],
)
def test_tests_that_matter_stay(test: str, term: str, first: str) -> None:
    function = parse(GUARDED.format(test=test, term=term, first=first))
    found = to_text(compute_whole_tiles(function))
    assert f"if {test}:\n                    C[i] = C[i]" in found


def test_tests_that_keep_every_store_away_go() -> None:
    function = parse(GUARDED.format(test="b * 4 + i < 30", term="1.0", first=ZERO))
    assert to_text(compute_whole_tiles(function)).count("if b * 4 + i < 30") == 1


def test_rows_of_shared_memory_are_padded_where_threads_meet_in_banks() -> None:
    text = """
kernel f(A: float32[32, 32], B: float32[32, 32]):
    bound threadIdx.x t in 0..32:
        alloc S: float32[32, 32] shared
        for i in 0..32:
            S[i, t] = A[i, t]
        for i in 0..32:
            B[i, t] = S[t, i]
"""
    assert "__shared__ __align__(16) float S[1056];" in text_of(ready(text))
    straight = text_of(ready(text.replace("S[t, i]", "S[i, t] + S[31 - i, t]")))
    assert "float S[1024];" in straight


def test_padding_is_loaded_as_whole_vectors() -> None:
    a = ac.placeholder((6, 16), name="A")
    b = ac.compute((8, 16), lambda i, j: ac.if_then_else(i < 6, a[i, j], 0.0), name="B")
    s = ac.schedule(ac.ComputeDAG([a, b])).split("B", "j", [4]).vectorize("B", "j.1")
    text = text_of(prepared(s.bind("B", "i", "blockIdx.x")))
    assert "i < 6 ? load<4>(&A[i * 16 + j_0 * 4]) : fill<4, float>(0.0f));" in text


def test_more_blocks_than_fit_along_y_lie_along_x() -> None:
    text = """
kernel f(A: float32[70000, 2]):
    bound blockIdx.y b in 0..70000:
        bound blockIdx.x c in 0..2:
            A[b, c] = 1.0
"""
    found = emit_cuda(ready(text), TARGET)
    assert found.plan.launches[0].grid == (140000, 1, 1)
    assert "A[b_c] = 1.0f;" in cuda_text(found)


def test_what_threads_exchange_through_memory_is_no_restricted_pointer() -> None:
    """The compiler kept a value of before the barrier in a register: wrong on an H200."""
    a = ac.placeholder((4, 2), name="A")
    k = ac.reduce_axis(2, name="k")
    t = ac.compute((4, 4), lambda i, j: ac.sum(a[i, k] * a[j, k], axis=k), name="T")
    r = ac.compute((4, 4), lambda i, j: 1.0 - t[i, j], name="R")
    s = ac.schedule(ComputeDAG([a, r])).bind("R", "j", "threadIdx.z")
    s = s.compute_at("T", "R", "i").bind("T", "i", "threadIdx.y")
    text = text_of(prepared(s))
    assert "const float *__restrict__ A, float *__restrict__ R, float *T)" in text
    assert text.count("__syncthreads();") == 2
