"""Matrix units in schedules: what they compute, what is loaded how, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.cuda.emit import emit_cuda
from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.cuda.requests import requests_of
from ansorc.codegen.cuda.sass import hottest_loops
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin, disassemble
from ansorc.errors import BuildError, IRError, ScheduleError
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import dtype as dtype_named
from ansorc.ir.interpret import interpret
from ansorc.ir.node import rewrite
from ansorc.ir.parser import parse
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.pipeline import run_passes
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Barrier, Function, Seq, statements
from ansorc.ir.verify import verify
from ansorc.schedule import Schedule
from ansorc.target import Target
from tests.codegen.cuda.hand_schedules import matmul_dag, matrix_dag, matrix_matmul
from tests.codegen.cuda.texts import changed
from tests.codegen.cuda.wheels import needs_wheels
from tests.support.nightly import examples, sampled_pairs

rng = np.random.default_rng(0)
SM_80 = Target.parse("cuda -arch=sm_80")


def prepared(state: Schedule) -> Function:
    function = run_passes(CUDA_PASSES, ac.lower(state, "kernel"), SM_80)
    verify(function)
    return function


def filled(buffer: Buffer, *, is_zero: bool = False) -> Array:
    memory = aligned_empty(buffer.bytes, np.uint8).view(buffer.dtype.numpy).reshape(buffer.shape)
    if is_zero:
        memory[...] = 0
    elif buffer.dtype.is_float:
        memory[...] = rng.uniform(-1, 1, buffer.shape).astype(np.float32)
    else:
        memory[...] = rng.integers(-128, 128, buffer.shape)
    return memory


def of_units(array: Array) -> Array:
    """What matrix units take of an array, in float64."""
    if array.dtype == np.float32:
        array = (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return array.astype(np.float64)


def by_interpreter(function: Function, arrays: list[Array]) -> None:
    interpret(function, arrays)


def by_emulation(function: Function, arrays: list[Array]) -> None:
    program = EmulatedProgram(compile_library(emit_cuda(function, SM_80)))
    assert program.run(arrays, None) == 0


RUNNERS = {"interpreted": by_interpreter, "emulated": by_emulation}
CASES: dict[str, tuple[tuple[int, int, int], str, str, str, int, tuple[int, int]]] = {
    "float16": ((32, 64, 96), "float16", "mma_f16", "mk,kn", 3, (1, 1)),
    "float16, columns of weights": ((32, 64, 96), "float16", "mma_f16", "mk,nk", 3, (2, 0)),
    "float16, transposed": ((32, 64, 96), "float16", "mma_f16", "km,kn", 3, (0, 2)),
    "float16, all turned round": ((32, 64, 64), "float16", "mma_f16", "km,nk", 2, (1, 1)),
    "bfloat16": ((32, 32, 64), "bfloat16", "mma_bf16", "mk,kn", 2, (1, 1)),
    "sums of float16": ((32, 64, 96), "float16", "mma_f16", "mk,kn", 3, (1, 1)),
    "sums of bfloat16, ragged": ((50, 40, 64), "bfloat16", "mma_bf16", "mk,kn", 2, (1, 1)),
    "int8": ((32, 32, 64), "int8", "mma_s8", "mk,nk", 0, (2, 0)),
    "int8, bytes one by one": ((32, 32, 64), "int8", "mma_s8", "mk,kn", 0, (1, 0)),
    "tfloat32": ((32, 32, 32), "float32", "mma_tf32", "mk,nk", 0, (2, 0)),
    "tfloat32, one by one": ((32, 32, 32), "float32", "mma_tf32", "mk,kn", 0, (1, 0)),
    "ragged": ((50, 40, 64), "float16", "mma_f16", "mk,kn", 2, (1, 1)),
    "one step of terms": ((32, 32, 16), "float16", "mma_f16", "mk,kn", 0, (1, 0)),
    "a warp beyond the border": ((40, 33, 32), "float16", "mma_f16", "mk,nk", 0, (2, 0)),
}


def of_case(name: str) -> Schedule:
    (m, n, k), dtype, function, layout, stages, _ = CASES[name]
    sums = "int32" if dtype == "int8" else dtype if "sums" in name else "float32"
    lanes = {"int8": 16, "float32": 4}.get(dtype, 8)
    warps = 2 if max(m, n) > 32 else 1
    dag = matrix_dag(m, n, k, dtype, layout, sums)
    lanes = lanes if n % 2 == 0 or layout == "mk,nk" else 1
    return matrix_matmul(
        dag, (1, 2), (warps, 2), function, steps=1 if dtype == "int8" or k == 16 else 2,
        lanes=lanes, stages=stages,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "run"), sampled_pairs(list(CASES), list(RUNNERS.values())))
def test_products(name: str, run: Callable[[Function, list[Array]], None]) -> None:
    layout = CASES[name][3].split(",")
    function = prepared(of_case(name))
    assert parse(to_text(function)) == function
    arrays = [*map(filled, function.params[:2]), filled(function.params[2], is_zero=True)]
    run(function, arrays)
    a, b = (of_units(array) for array in arrays[:2])
    wanted = (a if layout[0] == "mk" else a.T) @ (b if layout[1] == "kn" else b.T)
    allowed = {np.dtype(np.int32): 0, np.dtype(np.float32): 1e-5, np.dtype(np.float16): 0.04}
    assert abs(arrays[2] - wanted).max() <= allowed.get(arrays[2].dtype, 0.04)


@pytest.mark.parametrize("name", CASES)
def test_four_matrices_are_loaded_at_a_time(name: str) -> None:
    text = to_text(prepared(of_case(name)))
    # what partition_loops has doubled is counted once
    found = {line.strip() for line in text.splitlines() if "matrix_load" in line}
    transposed = sum("matrix_load_transposed" in line for line in found)
    assert (len(found) - transposed, transposed) == CASES[name][5]
    assert "matrix " not in text
    assert "matrix_multiply" in text


TILE = """
kernel tile(A: float16[32, 16], B: float16[16, 16], C: float32[32, 16]):
    bound threadIdx.x t in 0..32:
        alloc S: float16[32, 16] shared
        alloc T: float16[16, 16] shared
        vectorized e in 0..16:
            S[t, e] = A[t, e]
        vectorized f in 0..8:
            T[t // 2, t % 2 * 8 + f] = B[t // 2, t % 2 * 8 + f]
        alloc L: float32[4, 4] local
        for i in 0..4:
            for j in 0..4:
                L[i, j] = 0.0
        matrix k in 0..16:
            unrolled i in 0..4:
                unrolled j in 0..4:
                    L[i, j] = L[i, j] + cast(float32, S[{row}, k]) * cast(float32, T[k, {column}])
        for i in 0..4:
            for j in 0..4:
                C[{row}, {column}] = L[i, j]
"""
MADE = """
            unrolled k.row in 0..2:
                S.left[k.row, ramp(0, 1, 8)] = \
matrix_load(S[k.row * 16 + t % 16, ramp(t // 16 * 8, 1, 8)])
            T.right[0, ramp(0, 1, 8)] = matrix_load_transposed(T[t % 16, ramp(t // 16 * 8, 1, 8)])
            unrolled k.row in 0..2:
                unrolled k.column in 0..2:
                    L[{sums}] = \
matrix_multiply(L[{sums}], S.left[k.row, ramp(0, 1, 8)], T.right[0, ramp(k.column * 4, 1, 4)])
"""


def test_the_text_of_a_tile() -> None:
    before = parse(TILE.format(row="i * 8 + t // 4", column="j // 2 * 8 + t % 4 * 2 + j % 2"))
    after = prepared_text(before)
    sums = "k.row * 2 + ramp(0, 1, 4) // 2, k.column * 2 + ramp(0, 1, 4) % 2"
    wanted = MADE.format(sums=sums)
    assert wanted in after
    assert_right(before, by_interpreter)


def prepared_text(function: Function) -> str:
    return to_text(run_passes(CUDA_PASSES, function, SM_80))


def assert_right(
    before: Function, run: Callable[[Function, list[Array]], None], allowed: float = 1e-6
) -> None:
    """The program after the passes must compute the product."""
    a, b = map(filled, before.params[:2])
    found = filled(before.params[2], is_zero=True)
    run(run_passes(CUDA_PASSES, before, SM_80), [a, b, found])
    np.testing.assert_allclose(found, a.astype(np.float64) @ b.astype(np.float64), atol=allowed)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("i * 8 + t // 4", "t % 4 * 4 + j"),  # neighbours, of which no tile is 8
        ("t // 4 * 4 + i", "j // 2 * 8 + t % 4 * 2 + j % 2"),
        ("i * 8 + t // 4", "t % 4 + j * 4"),
    ],
)
@pytest.mark.parametrize("run", RUNNERS.values(), ids=RUNNERS)
def test_any_rows_and_columns_make_tiles(
    row: str, column: str, run: Callable[[Function, list[Array]], None]
) -> None:
    text = TILE.format(row=row, column=column)
    assert_right(parse(text), run)
    narrow = text.replace("cast(float32, ", "(").replace("float32", "float16")
    assert_right(parse(narrow.replace("0.0", "cast(float16, 0.0)")), run, 0.01)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("t // 4", "t % 8"), r"% 32 // 4 alone, the columns on its number % 4 alone"),
        (("k in 0..16", "k in 0..8"), "adds up 16 products of float16, not 8"),
        (("in 0..32", "in 0..16"), "a multiple of 32, not 16 along threadIdx.x"),
        (("* cast(float32, T", "+ cast(float32, T"), "no sum, held by each thread, of products"),
        (("j in 0..4", "j in 0..3"), "of 2, 4, … rows with 2, 4, … columns, not 12 of 4 rows"),
        (("S[i * 8 + t // 4, k]", "S[(i * 8 + t // 4 + k * k) % 32, k]"), "do not lie evenly"),
    ],
)
def test_what_is_no_tile_is_refused(change: tuple[str, str], reason: str) -> None:
    text = TILE.format(row="i * 8 + t // 4", column="j // 2 * 8 + t % 4 * 2 + j % 2")
    assert change[0] in text
    with pytest.raises(BuildError, match=f"cannot use matrix units for 'k': .*{reason}"):
        run_passes(CUDA_PASSES, parse(text.replace(*change)), SM_80)


def test_a_condition_that_divides_a_tile_is_refused() -> None:
    text = TILE.format(row="i * 8 + t // 4", column="j // 2 * 8 + t % 4 * 2 + j % 2")
    at = " " * 20 + "L[i, j] = L[i, j] +"
    guarded = text.replace(at, " " * 20 + "if k < 12:\n    " + at)
    with pytest.raises(BuildError, match="kept from it by a condition"):
        run_passes(CUDA_PASSES, parse(guarded), SM_80)


def test_matrix_loops_are_for_gpus() -> None:
    tile = parse(TILE.format(row="i * 8 + t // 4", column="j // 2 * 8 + t % 4 * 2 + j % 2"))
    with pytest.raises(BuildError, match="GPUs from sm_80 on have"):
        run_passes(CUDA_PASSES, tile, Target.parse("cuda -arch=sm_75"))
    state = ac.schedule(matrix_dag(16, 16, 16, "float16")).tensorize("C", "k", "mma_f16")
    with pytest.raises(BuildError, match="for the matrix units of a GPU"):
        ac.build(state, target="native")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (lambda: ac.schedule(matmul_dag(16, 16, 16)), "'C' are not cast|makes sums of float32"),
        (lambda: ac.schedule(matrix_dag(16, 16, 32, "float16")), "runs 32 times, but mma_f16"),
        (lambda: ac.schedule(matrix_dag(16, 16, 16, "bfloat16")), "'C' are not cast"),
    ],
)
def test_steps_that_do_not_fit(state: Callable[[], Schedule], reason: str) -> None:
    with pytest.raises(ScheduleError, match=f"({reason})"):
        state().tensorize("C", "k", "mma_f16")


EXCHANGES = {
    "matrix_load(B[t, ramp(0, 1, 4)])": "a row of a matrix has 16 bytes; this is float16x4",
    "matrix_load_transposed(D[t, ramp(0, 1, 4)])": "only matrices of 16-bit elements",
    "matrix_load(B[t, ramp(0, 1, 8)]) + matrix_load(B[t, ramp(0, 1, 8)])": "store it on its own",
}


@pytest.mark.parametrize("value", EXCHANGES)
def test_illegal_loads(value: str) -> None:
    lanes, kind = (4, "float32") if "D" in value else (8, "float16")
    lanes = 4 if "1, 4" in value else lanes
    text = f"""
kernel f(B: float16[32, 8], D: float32[32, 8]):
    bound threadIdx.x t in 0..32:
        alloc a: {kind}[8] local
        a[ramp(0, 1, {lanes})] = {value}
"""
    with pytest.raises(IRError, match=EXCHANGES[value]):
        verify(parse(text))


MULTIPLIES = {
    ("float16", "float32", 4, 8, 4, 32): "",
    ("float16", "float64", 4, 8, 4, 32): "into float64; matrix units multiply float16 into",
    ("float64", "float64", 4, 8, 4, 32): "multiplies float64 and float64",
    ("float16", "float32", 4, 4, 4, 32): "4 sums, 8 and 4 factors of float16, not 4, 4 and 4",
    ("int8", "int32", 4, 16, 8, 32): "",
    ("float16", "float32", 4, 8, 4, 48): "whole warps of 32 threads work on matrices",
}


@pytest.mark.parametrize("case", MULTIPLIES)
def test_legal_and_illegal_products(case: tuple[str, str, int, int, int, int]) -> None:
    factor, sums, total, left, right, threads = case
    text = f"""
kernel f(X: {sums}[4]):
    bound threadIdx.x t in 0..{threads}:
        alloc a: {factor}[16] local
        alloc c: {sums}[4] local
        c[ramp(0, 1, {total})] = matrix_multiply(c[ramp(0, 1, {total})], \
a[ramp(0, 1, {left})], a[ramp(0, 1, {right})])
"""
    function = parse(text)
    assert parse(to_text(function)) == function
    assert dtype_named(factor).element == dtype_named(factor)
    if MULTIPLIES[case]:
        with pytest.raises(IRError, match=MULTIPLIES[case]):
            verify(function)
    else:
        verify(function)


def test_a_warp_whose_threads_part_is_found() -> None:
    text = """
kernel f(A: float16[32, 8]):
    bound threadIdx.x t in 0..32:
        alloc a: float16[8] local
        if t < 16:
            a[ramp(0, 1, 8)] = matrix_load(A[t, ramp(0, 1, 8)])
"""
    function = parse(text)
    with pytest.raises(IRError, match="only some threads of a block reach"):
        interpret(function, [np.zeros((32, 8), np.float16)])
    with pytest.raises(BuildError, match="exchange values under a condition"):
        run_passes(CUDA_PASSES, function, SM_80)


DEFECTS = {
    "rows not turned round": ("load_matrices_transposed(&", "load_matrices(&"),
    "half of the rows": ("% 16 * ", "% 8 * "),
    "the wrong half of the terms": ("% 32 / 16 * 8", "% 32 / 8 * 8"),
    "a tile further": ("k_2_column % 2 * 4]", "k_2_column % 2 * 4 + 2]"),
    "a group too few": ("await_copies<1>", "await_copies<2>"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_what_is_wrong_computes_something_else(name: str) -> None:
    state = matrix_matmul(matrix_dag(64, 64, 160, "float16"), (2, 2), (1, 4), "mma_f16", stages=3)
    function = prepared(state)
    wrong = changed(emit_cuda(function, SM_80), *DEFECTS[name])
    a, b, c = [*map(filled, function.params[:2]), filled(function.params[2], is_zero=True)]
    assert EmulatedProgram(compile_library(wrong)).run([a, b, c], None) == 0
    assert not np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-2)


def test_a_missing_barrier_is_a_race() -> None:
    state = matrix_matmul(matrix_dag(32, 32, 96, "float16"), (2, 1), (1, 2), "mma_f16", stages=3)
    function = prepared(state)
    assert any(isinstance(part, Barrier) for part in statements(function.body))
    without = rewrite(function, lambda node: Seq(()) if isinstance(node, Barrier) else None)
    with pytest.raises(IRError, match=r"has a race: .* no barrier is between"):
        interpret(without, [*map(filled, function.params)])


SIDES = st.sampled_from([(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)])


@examples(2, nightly=4)
@given(
    SIDES, SIDES, st.integers(0, 40), st.integers(0, 40), st.integers(1, 2), st.integers(0, 3),
    st.sampled_from(["mk,kn", "mk,nk", "km,kn", "km,nk"]),
)  # fmt: skip
def test_any_tiles(
    rows: tuple[int, int],
    columns: tuple[int, int],
    down: int,
    right: int,
    steps: int,
    stages: int,
    layout: str,
) -> None:
    """Products whose rows and columns are no multiples of their tiles, interpreted."""
    m, n = 16 * rows[0] * rows[1] + down, 8 * columns[0] * columns[1] + right
    first, second = layout.split(",")
    lanes = 8 if (first == "mk" or m % 8 == 0) and (second == "nk" or n % 8 == 0) else 1
    dag = matrix_dag(m, n, 32 * steps, "float16", layout)
    state = matrix_matmul(dag, rows, columns, "mma_f16", steps=steps, lanes=lanes, stages=stages)
    function = prepared(state)
    a, b, c = [*map(filled, function.params[:2]), filled(function.params[2], is_zero=True)]
    interpret(function, [a, b, c])
    left, other = (x.astype(np.float64) for x in (a, b))
    wanted = (left if first == "mk" else left.T) @ (other if second == "kn" else other.T)
    np.testing.assert_allclose(c, wanted, atol=1e-5)


def test_as_many_steps_are_written_out_as_there_are_slots() -> None:
    """Then no slot is computed; longer code than caches hold is not made."""
    dag = matrix_dag(512, 512, 512, "float16")
    for warp, is_written_out in (((2, 4), True), ((8, 16), False)):
        rows, columns = ((1, count) for count in warp)
        state = matrix_matmul(dag, rows, columns, "mma_f16", stages=3)
        text = cuda_text(emit_cuda(prepared(state), SM_80))
        assert ("#pragma unroll 3\n" in text) == is_written_out


@needs_wheels
@pytest.mark.parametrize(("arch", "least"), [("sm_80", 0.45), ("sm_90", 0.43)])
def test_the_machine_code_of_a_product(arch: str, least: float) -> None:
    """CUTLASS-like, warps of 64 x 64: 64 HMMA, 16 LDSM and 8 LDGSTS of 102, three times."""
    target = Target.parse(f"cuda -arch={arch}")
    dag = matrix_dag(4096, 4096, 4096, "float16")
    state = matrix_matmul(dag, (2, 4), (2, 8), "mma_f16", stages=3)
    function = run_passes(CUDA_PASSES, ac.lower(state, "kernel"), target)
    cubin = compile_cubin(cuda_text(emit_cuda(function, target)), arch)
    (resources,) = cubin.resources
    assert (resources.spill_store_bytes, resources.stack_bytes) == (0, 0)
    (loop,) = hottest_loops(disassemble(cubin.image))
    assert [loop.count(name) for name in ("HMMA", "LDSM", "LDGSTS")] == [192, 48, 24]
    assert loop.share("HMMA") >= least
    for _, request in requests_of(function):
        if not request.is_store:
            assert request.pieces == request.least
