"""CUDA programs for matrix units, written by hand: what a schedule is to become."""

from __future__ import annotations

import re
from dataclasses import replace

from ansorc.codegen.program.device_program import DeviceProgram
from tests.codegen.cuda.texts import kernel_of, launch, program_of

A_PLACE, B_PLACE = (
    "(row) * 32 + ((part) + (row) / 2) % 4 * 8",
    "(row) * 128 + ((part) + (row)) % 16 * 8",
)
"""Where in shared memory the elements 8 `part` on of a row lie: rotated, so that no banks meet."""
_PRODUCT = (
    f"""\
#define A_AT(row, part) ({A_PLACE})
#define B_AT(row, part) ({B_PLACE})
"""
    + """\
  half *const As = reinterpret_cast<half *>(shared_memory);
  half *const Bs = reinterpret_cast<half *>(shared_memory + STAGES * 8192);
  const int t = threadIdx.x, lane = t % 32, m = t / 64 * 64, n = t / 32 % 2 * 64;
  const half *const Ab = A + blockIdx.y * 128 * K, *const Bb = B + blockIdx.x * 128;
  float sums[4][8][4];
  #pragma unroll
  for (int i = 0; i < 128; ++i) sums[i / 32][i / 4 % 8][i % 4] = 0.0f;
  for (int k = 0; k < STAGES - 1; ++k) {
    await_copies<STAGES - 1>();
    COPY(k)
  }
  #pragma unroll 1
  for (int k = 0; k < K / 32; ++k) {
    await_copies<STAGES - 2>();
    __syncthreads();
    if (k + STAGES - 1 < K / 32) {
      COPY(k + STAGES - 1)
    }
    const half *const As_k = As + k % STAGES * 4096, *const Bs_k = Bs + k % STAGES * 4096;
    #pragma unroll
    for (int part = 0; part < 32; part += 16) {
      unsigned a[4][4], b[4][4];
      #pragma unroll
      for (int i = 0; i < 4; ++i)
        load_matrices(a[i], As_k + A_AT(m + i * 16 + lane % 16, part / 8 + lane / 16));
      #pragma unroll
      for (int j = 0; j < 4; ++j)
        load_matrices_transposed(
            b[j], Bs_k + B_AT(part + lane % 16, n / 8 + j * 2 + lane / 16));
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
          const unsigned column[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
          float(&c)[4] = sums[i][j];
          mma_f16(c[0], c[1], c[2], c[3], a[i], column);
        }
      }
    }
  }
  float *const Cb = C + (blockIdx.y * 128 + m + lane / 4) * N + blockIdx.x * 128 + n + lane % 4 * 2;
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
      lanes<float, 2> pair = {sums[i][j / 2][j % 2 * 2], sums[i][j / 2][j % 2 * 2 + 1]};
      store<2>(Cb + (i * 16 + j % 2 * 8) * N + j / 2 * 8, pair);
    }
  }
"""
)
_COPY = """
    _Pragma("unroll")
    for (int u = 0; u < 4; ++u) {
      const int e = (u * 128 + t) * 8;
      copy_async<16>(As + (PLACE) % STAGES * 4096 + A_AT(e / 32, e / 8 % 4),
                     Ab + e / 32 * K + (PLACE) * 32 + e % 32);
      copy_async<16>(Bs + (PLACE) % STAGES * 4096 + B_AT(e / 128, e / 8 % 16),
                     Bb + ((PLACE) * 32 + e / 128) * N + e % 128);
    }"""


def product(m: int, n: int, k: int, stages: int) -> DeviceProgram:
    """C = A B, float16 to float32: blocks of 128 by 128 by 32, warps of 64 by 64."""
    body = _PRODUCT
    for place in ("k + STAGES - 1", "k"):
        body = body.replace(f"COPY({place})", _COPY.replace("PLACE", place))
    for name, value in (("STAGES", stages), ("K", k), ("N", n)):
        body = _with_number(body, name, value)
    shared = stages * (8192 + 8192)
    kernel = replace(
        kernel_of("product_0", _parameters("half", "float"), 128, body),
        parts=("half", "lanes", "asynchronous", "matrix_units"),
        dynamic_memory="shared_memory",
    )
    grid = n // 128, m // 128, 1
    return program_of(kernel, launch("product_0", grid, (128, 1, 1), 0, 1, 2, shared=shared))


def tile(function: str, kind: str, sums: str) -> DeviceProgram:
    """A tile of the matrix unit by one warp, from the 32-bit registers of its lanes."""
    body = f"""\
  const int lane = threadIdx.x;
  const unsigned a[4] = {{A[lane * 4], A[lane * 4 + 1], A[lane * 4 + 2], A[lane * 4 + 3]}};
  const unsigned b[2] = {{B[lane * 2], B[lane * 2 + 1]}};
  {sums} c[4] = {{C[lane * 4], C[lane * 4 + 1], C[lane * 4 + 2], C[lane * 4 + 3]}};
  {function}(c[0], c[1], c[2], c[3], a, b);
  for (int i = 0; i < 4; ++i) C[lane * 4 + i] = c[i];
"""
    kernel = kernel_of("tile_0", _parameters(kind, sums), 32, body)
    parts = ("half", "matrix_units")
    return program_of(
        replace(kernel, parts=parts), launch("tile_0", (1, 1, 1), (32, 1, 1), 0, 1, 2)
    )


def _parameters(kind: str, sums: str) -> str:
    factors = (f"const {kind} *__restrict__ {name}" for name in "AB")
    return ", ".join((*factors, f"{sums} *__restrict__ C"))


def _with_number(text: str, name: str, value: int) -> str:
    return re.sub(rf"\b{name}\b", str(value), text)
