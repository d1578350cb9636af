"""CUDA programs that were written by hand."""

from __future__ import annotations

from dataclasses import replace

from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.program.device_program import DeviceProgram, KernelText
from ansorc.codegen.program.launch_plan import KernelArgument, Launch, LaunchPlan

Extents = tuple[int, int, int]


def kernel_of(name: str, parameters: str, threads: int, body: str) -> KernelText:
    """A kernel whose threads may wait for each other."""
    return KernelText(name, (parameters,), threads, tuple(body.splitlines()), waits=True)


def program_of(kernel: KernelText, *launches: Launch, workspace_bytes: int = 0) -> DeviceProgram:
    return DeviceProgram((kernel,), LaunchPlan("program", launches, workspace_bytes))


def changed(program: DeviceProgram, old: str, new: str, count: int = -1) -> DeviceProgram:
    """The program with `old`, which is there, replaced in the bodies of its kernels."""
    kernels: list[KernelText] = []
    for kernel in program.kernels:
        body = "\n".join(map(str, kernel.lines)).replace(old, new, count)
        kernels.append(replace(kernel, lines=tuple(body.split("\n"))))
    found = replace(program, kernels=tuple(kernels))
    assert cuda_text(found) != cuda_text(program)
    return found


def launch(
    name: str, grid: Extents, block: Extents, *places: int, shared: int = 0, workspace: bool = False
) -> Launch:
    """A launch on the parameters of these places, and then on what is first in the workspace."""
    arguments = [KernelArgument("parameter", place) for place in places]
    arguments += [KernelArgument("workspace", 0)] * workspace
    return Launch(name, grid, block, shared, tuple(arguments))


_MATMUL = """\
  __shared__ __align__(16) float As[128];
  __shared__ __align__(16) float Bs[128];
  const int t = threadIdx.x;
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int k = 0; k < 8; ++k) {
    for (int u = 0; u < 2; ++u) {
      As[t + u * 64] = A[(blockIdx.y * 16 + (t + u * 64) / 8) * 64 + k * 8 + t % 8];
      Bs[t + u * 64] = B[(k * 8 + (t + u * 64) / 16) * 64 + blockIdx.x * 16 + t % 16];
    }
    __syncthreads();
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 4; ++j) sums[j] += As[t / 4 * 8 + i] * Bs[i * 16 + t % 4 * 4 + j];
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j)
    C[(blockIdx.y * 16 + t / 4) * 64 + blockIdx.x * 16 + t % 4 * 4 + j] = sums[j];
"""
MATMUL = program_of(
    kernel_of(
        "matmul_0",
        "const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C",
        64,
        _MATMUL,
    ),
    launch("matmul_0", (4, 4, 1), (64, 1, 1), 0, 1, 2),
)
"""C = A B of 64 by 64."""

_ROWS = """\
  const int row = blockIdx.x * 2 + threadIdx.y;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < 100; i += 32) sum += A[row * 100 + i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x == 0) C[row] = sum;
"""
ROWS = program_of(
    kernel_of("rows_0", "const float *__restrict__ A, float *__restrict__ C", 64, _ROWS),
    launch("rows_0", (25, 1, 1), (32, 2, 1), 0, 1),
)
"""C[i] = sum over A[i, 0 … 99], 50 rows."""

_FIRST = """\
  float *const s = reinterpret_cast<float *>(shared_memory);
  s[threadIdx.x] = A[blockIdx.x * 128 + threadIdx.x];
  __syncthreads();
  T[blockIdx.x * 128 + threadIdx.x] = 2.0f * s[127 - threadIdx.x];
"""
_SECOND = "  C[blockIdx.x * 32 + threadIdx.x] = expf(T[blockIdx.x * 32 + threadIdx.x]);"
TWICE = DeviceProgram(
    (
        replace(
            kernel_of("first", "const float *A, float *T", 128, _FIRST),
            dynamic_memory="shared_memory",
        ),
        replace(kernel_of("second", "float *C, const float *T", 32, _SECOND), waits=False),
    ),
    LaunchPlan(
        "program",
        (
            launch("first", (2, 1, 1), (128, 1, 1), 0, shared=512, workspace=True),
            launch("second", (8, 1, 1), (32, 1, 1), 1, workspace=True),
        ),
        1024,
    ),
)
"""exp(2 A), each 128 of 256 backwards, in two launches."""
