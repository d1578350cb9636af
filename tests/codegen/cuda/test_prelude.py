"""The functions of the prelude for matrix units: emulated, and as instructions of a GPU."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin, disassemble
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.target.gpu_requests import wavefronts
from tests.codegen.cuda.matrix_texts import A_PLACE, B_PLACE, product, tile
from tests.codegen.cuda.texts import changed
from tests.codegen.cuda.wheels import needs_wheels

rng = np.random.default_rng(0)
PER_REGISTER = {"mma_f16": 2, "mma_bf16": 2, "mma_tf32": 1, "mma_s8": 4}


def aligned(array: Array) -> Array:
    memory = aligned_empty(array.nbytes, np.uint8).view(array.dtype).reshape(array.shape)
    memory[...] = array
    return memory


def run(program: DeviceProgram, *arrays: Array) -> None:
    assert EmulatedProgram(compile_library(program)).run(arrays, None) == 0


def elements(function: str, *shape: int) -> tuple[Array, Array]:
    """Numbers that the function takes exactly: in its own bits, and as float64."""
    whole = rng.integers(-8, 8, shape)
    if function == "mma_s8":
        return whole.astype(np.int8).view(np.uint8), whole.astype(np.float64)
    if function == "mma_f16":
        return whole.astype(np.float16).view(np.uint16), whole.astype(np.float64)
    bits = whole.astype(np.float32).view(np.uint32)
    return (
        bits if function == "mma_tf32" else (bits >> 16).astype(np.uint16)
    ), whole.astype(np.float64)  # fmt: skip


@pytest.mark.parametrize("function", PER_REGISTER)
def test_a_tile_of_registers(function: str) -> None:
    """Where each lane has what is written here as the PTX manual has it, element by element."""
    per = PER_REGISTER[function]
    (a, a_value), (b, b_value) = elements(function, 16, 8 * per), elements(function, 8 * per, 8)
    held_a, held_b = (np.zeros((32, n, per), a.dtype) for n in (4, 2))
    sums = np.int32 if function == "mma_s8" else np.float32
    start = rng.integers(-8, 8, (16, 8)).astype(sums)
    held_c = np.zeros((32, 4), sums)
    for lane in range(32):
        group, place = divmod(lane, 4)
        for number in range(4):
            held_c[lane, number] = start[group + number // 2 * 8, place * 2 + number % 2]
            for e in range(per):
                depth = place * per + e
                held_a[lane, number, e] = a[group + number % 2 * 8, depth + number // 2 * 4 * per]
                if number < 2:
                    held_b[lane, number, e] = b[depth + number * 4 * per, group]
    c = aligned(held_c)
    words = [aligned(held.reshape(32, -1).view(np.uint32)) for held in (held_a, held_b)]
    run(tile(function, "unsigned", "int" if function == "mma_s8" else "float"), *words, c)
    expected = start + a_value @ b_value
    for lane in range(32):
        for number in range(4):
            row, column = lane // 4 + number // 2 * 8, lane % 4 * 2 + number % 2
            assert c[lane, number] == expected[row, column]


def operands(m: int, n: int, k: int) -> list[Array]:
    a, b = (aligned(rng.uniform(-1, 1, s).astype(np.float16)) for s in ((m, k), (k, n)))
    return [a, b, aligned(np.zeros((m, n), np.float32))]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_product_through_shared_memory(stages: int) -> None:
    a, b, c = operands(128, 256, 160)
    run(product(128, 256, 160, stages), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("load_matrices_transposed(\n            b", "load_matrices(\n            b"),
        ("part / 8 + lane / 16)", "part / 8 + lane / 8)"),
        ("B_AT(e / 128,", "B_AT(e / 128 + 1,"),
        ("b[j / 2][j % 2 * 2 + 1]", "b[j / 2][j % 2 + 1]"),
        ("j % 2 * 8) * 256", "j % 2 * 8 + 1) * 256"),
        ("await_copies<3 - 2>", "await_copies<3 - 1>"),
    ],
)
def test_what_is_wrong_computes_something_else(old: str, new: str) -> None:
    a, b, c = operands(128, 256, 160)
    padded = aligned(np.zeros((130, 256), np.float32))
    run(changed(product(128, 256, 160, 3), old, new, 1), a, b, padded)
    c[...] = padded[:128]
    assert not np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-2)


def test_no_banks_meet() -> None:
    """Neither where rows are stored, nor where 8 rows of a matrix are loaded at a time."""
    for place, parts in ((A_PLACE, 4), (B_PLACE, 16)):
        code = compile(place.replace("/", "//"), "place", "eval")
        number = np.arange(32)
        stored = {"row": number // parts, "part": number % parts}
        loaded = [
            {"row": np.arange(start, start + 8), "part": np.full(8, part)}
            for start in (0, 8) for part in range(parts)
        ]  # fmt: skip
        assert wavefronts(2 * eval(code, stored), 16) == 4
        for rows in loaded:
            assert wavefronts(np.tile(2 * eval(code, rows), 4), 16) == 4


def inner_loop(sass: str) -> Counter[str]:
    """The instructions between the first and the last HMMA, which are the body of the loop."""
    found = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ +)?([A-Z][A-Z0-9]*)", sass)
    places = [place for place, word in enumerate(found) if word == "HMMA"]
    return Counter(found[places[0] : places[-1] + 1])


@needs_wheels
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_machine_code_is_matrix_instructions(arch: str) -> None:
    cubin = compile_cubin(cuda_text(product(4096, 4096, 4096, 3)), arch)
    (resources,) = cubin.resources
    assert (resources.spill_store_bytes, resources.stack_bytes) == (0, 0)
    sass = disassemble(cubin.image)
    counts = inner_loop(sass)
    assert counts["HMMA"] == 64
    assert "LDGSTS" in sass
    assert "LDSM" in sass
    cycles = 16 * 8 * 16 // 256  # a quarter of an SM of sm_80 does 256 multiply-adds a cycle
    assert counts["HMMA"] * cycles > 2 * counts.total()
