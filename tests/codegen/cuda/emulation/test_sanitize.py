from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.cuda.emulation.sanitize import Sanitizer, check_program
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.errors import BuildError, CallError
from ansorc.ir.aligned import Array, aligned_empty
from tests.codegen.cuda.texts import MATMUL, ROWS, TWICE, changed, kernel_of, launch, program_of
from tests.support.nightly import sampled, sampled_pairs

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def filled(*shape: int) -> Array:
    array = aligned_empty(int(np.prod(shape)) * 4, np.uint8).view(np.float32).reshape(shape)
    array[...] = rng.random(shape)
    return array


def run(
    source: DeviceProgram, *arrays: Array, workspace_bytes: int = 0, calls: int = 1, seed: int = 1
) -> int:
    workspace = aligned_empty(max(1, workspace_bytes), np.uint8)
    program = EmulatedProgram(compile_library(source))
    return program.run(arrays, workspace.ctypes.data, calls, seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_threads_meet_at_barriers(seed: int) -> None:
    a, b, c = filled(64, 64), filled(64, 64), filled(64, 64)
    assert run(MATMUL, a, b, c, seed=seed, calls=2) == 0
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-5)


def test_lanes_exchange_values() -> None:
    a, c = filled(50, 100), filled(50)
    assert run(ROWS, a, c) == 0
    np.testing.assert_allclose(c, a.astype(np.float64).sum(1), rtol=1e-5)


def test_launches_follow_each_other() -> None:
    a, c = filled(2, 128), filled(2, 128)
    assert run(TWICE, a, c, workspace_bytes=1024) == 0
    np.testing.assert_allclose(c, np.exp(2 * a[:, ::-1]), rtol=1e-5)


@pytest.mark.parametrize("blocks", sampled([1, 2, 3, 9, 15], [1, 2, 15]))
def test_each_block_runs_once_in_whatever_order(blocks: int) -> None:
    kernel = kernel_of("count_0", "float *C", 1, "  C[blockIdx.x] += 1.0f;")
    source = program_of(kernel, launch("count_0", (blocks, 1, 1), (1, 1, 1), 0))
    program = EmulatedProgram(compile_library(source))
    counts = filled(blocks)
    counts[...] = 0
    for seed in range(1, 17):
        assert program.run([counts], None, 1, seed) == 0
        assert (counts == seed).all()


def one(body: str) -> DeviceProgram:
    """One block of 64 threads that get `float *C`."""
    kernel = kernel_of("one", "float *C", 64, body)
    return program_of(kernel, launch("one", (1, 1, 1), (64, 1, 1), 0))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("if (threadIdx.x < 60) __syncthreads();",
         "line 2: a barrier that not all threads of the block reach"),
        ("if (threadIdx.x < 60) __syncthreads();\nelse __syncthreads();",
         "line [23]: a barrier while other threads wait at another one"),
        ("if (threadIdx.x < 60) C[0] = __shfl_down_sync(0xffffffffu, 1.0f, 1);",
         "line 2: a warp waits for (lanes that do not come|a lane that has ended)"),
        ("C[0] = __shfl_down_sync(0xffffu, 1.0f, 1);",
         "line 2: a lane calls a shuffle that its mask does not name"),
    ],
)  # fmt: skip
def test_who_does_not_come_is_named(body: str, words: str) -> None:
    with pytest.raises(CallError, match=rf"wrong, {words} \(thread \d+, 0, 0 of block 0, 0, 0\)"):
        run(one(body), filled(64))


def test_shared_memory_holds_nothing_at_first() -> None:
    body = "__shared__ float s[64];\nC[threadIdx.x] = s[threadIdx.x];\ns[threadIdx.x] = 1.0f;"
    c = filled(64)
    run(one(body), c)
    run(one(body), c)
    assert np.isnan(c).all()


def test_what_a_shuffle_does_at_the_edges() -> None:
    body = """\
      float x = threadIdx.x;
      unsigned all = 0xffffffffu;
      C[threadIdx.x] = __shfl_up_sync(all, x, 1);
      C[64 + threadIdx.x] = __shfl_down_sync(all, x, 2, 8);
      C[128 + threadIdx.x] = __shfl_sync(all, x, 3, 16);
      C[192 + threadIdx.x] = threadIdx.x % 2 ? __shfl_xor_sync(0xaaaaaaaau, x, 2) : 0.0f;
      C[256 + threadIdx.x] = __any_sync(all, x == 33) + 2 * __all_sync(all, x < 40);
      atomicAdd(C + 320, 1.0f);"""
    c = filled(321)
    c[320] = 0
    run(one(body), c)
    lanes = np.arange(64)
    np.testing.assert_array_equal(c[:64], np.where(lanes % 32 < 1, lanes, lanes - 1))
    np.testing.assert_array_equal(c[64:128], np.where(lanes % 8 > 5, lanes, lanes + 2))
    np.testing.assert_array_equal(c[128:192], lanes // 16 * 16 + 3)
    np.testing.assert_array_equal(c[192:256], np.where(lanes % 2, lanes ^ 2, 0))
    np.testing.assert_array_equal(c[256:320], np.where(lanes < 32, 2, 1))
    assert c[320] == 64


def test_16_bit_floats_are_rounded_once() -> None:
    body = "for (int i = threadIdx.x; i < 65536; i += 64) {\nhalf h{(unsigned short)i};"
    body += "\nC[i] = to_float(h);"
    tail = "half g = to_half(C[i] * 1.0009765f); C[65536 + i] = to_float(g);\n}"
    c = filled(2 * 65536)
    run(one(body + tail), c)
    half = np.arange(65536, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(c[:65536], half.astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (half.astype(np.float32) * np.float32(1.0009765)).astype(np.float16)
    np.testing.assert_array_equal(c[65536:], scaled.astype(np.float32))


def test_an_array_that_no_vector_fits_is_refused() -> None:
    array = filled(68)[1:65]
    with pytest.raises(CallError, match="array 0 lies at an address that is no multiple of 16"):
        run(one(""), array)


def test_what_is_no_cxx_is_refused() -> None:
    with pytest.raises(BuildError, match=r"kernel\.cu:2:.*'nothing' was not declared"):
        compile_library(one("C[0] = nothing;"))
    with pytest.raises(BuildError, match="cannot be loaded"):
        EmulatedProgram(b"no library")


RIGHT = {
    "matmul": (MATMUL, [(64, 64)] * 3),
    "rows": (ROWS, [(50, 100), (50,)]),
    "twice": (TWICE, [(2, 128)] * 2),
}


@pytest.mark.parametrize(("name", "sanitizer"), sampled_pairs(list(RIGHT), ["thread", "address"]))
def test_nothing_is_found_in_what_is_right(name: str, sanitizer: Sanitizer) -> None:
    program, sizes = RIGHT[name]
    arrays, expected = ([filled(*size) for size in sizes] for _ in range(2))
    for one, other in zip(arrays, expected, strict=True):
        one[...] = other
    assert check_program(program, arrays, sanitizer) is None
    run(program, *expected, workspace_bytes=1024)
    np.testing.assert_array_equal(arrays[-1], expected[-1])


@pytest.mark.parametrize(
    ("old", "new", "sanitizer", "words", "lines"),
    [
        ("    __syncthreads();\n    for", "    for", "thread", "data race", (8,)),
        ("    __syncthreads();\n  }", "  }", "thread", "data race", (8,)),
        ("t % 4 * 4 + j]", "t % 4 * 4 + j + 1]", "address", "index 128 out of bounds", (14,)),
        ("+ t / 4) * 64", "+ t / 4) * 66", "address", "heap-buffer-overflow", (19,)),
        ("    __syncthreads();\n  }", "    if (t < 9) __syncthreads();\n  }", "address",
         "a barrier", (11, 16)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(
    old: str, new: str, sanitizer: Sanitizer, words: str, lines: tuple[int, ...]
) -> None:
    found = check_program(
        changed(MATMUL, old, new, 1), [filled(64, 64) for _ in range(3)], sanitizer
    )
    assert found is not None
    assert words in found.kind
    known = range(min(found.lines) - 1, max(found.lines) + 2)  # which of the two is first is chance
    assert any(line in known for line in lines)


def test_warps_that_exchange_values_are_not_ordered() -> None:
    """What a thread of one warp stores and one of the other loads, both between shuffles."""
    body = """
__shared__ float last[1];
if (threadIdx.x == 0) last[0] = 1.0f;
float x = 1.0f;
for (int i = 0; i < 9; ++i) x += __shfl_xor_sync(0xffffffffu, x, 1);
if (threadIdx.x == 32) C[0] = last[0] + x;"""
    for seed in range(1, 6):
        found = check_program(one(body), [filled(64)], "thread", seed=seed)
        assert found is not None
        assert found.kind == "data race"


def test_a_misaligned_vector_is_found() -> None:
    body = "if (threadIdx.x < 15)\n*(float4 *)(C + threadIdx.x * 4 + 1) = float4{1, 2, 3, 4};"
    found = check_program(one(body), [filled(64)], "address")
    assert found is not None
    assert "misaligned address" in found.kind
    assert str(found).endswith("(line 3 of the text)")


def test_the_headers_are_installed() -> None:
    text = (Path(__file__).parents[4] / "pyproject.toml").read_text()
    assert "codegen/cuda/emulation/*.h" in text
