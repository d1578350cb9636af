"""The CUDA C of a program: what its kernels share, then the kernels."""

from __future__ import annotations

from collections.abc import Iterator

from ansorc.codegen.cuda.prelude import prelude
from ansorc.codegen.program.device_program import DeviceProgram, KernelText

SHARED_ALIGNMENT = 16
"""The widest vector."""
_DYNAMIC = f"extern __shared__ __align__({SHARED_ALIGNMENT}) char {{}}[];"


def cuda_text(program: DeviceProgram, dynamic: str = _DYNAMIC) -> str:
    """Return the CUDA C of `program`, complete in itself.

    `dynamic` is how a kernel declares the shared memory whose size its launch says, with "{}" for
    the name.
    """
    head = prelude(part for kernel in program.kernels for part in kernel.parts)
    texts = ("\n".join(_kernel_lines(kernel, dynamic)) for kernel in program.kernels)
    return "\n\n".join([*([head] if head else []), *texts]) + "\n"


def _kernel_lines(kernel: KernelText, dynamic: str) -> Iterator[str]:
    head = f'extern "C" __global__ void __launch_bounds__({kernel.threads})'
    yield f"{head} {kernel.name}({', '.join(kernel.parameters)}) {{"
    if kernel.dynamic_memory:
        yield f"  {dynamic.format(kernel.dynamic_memory)}"
    yield from map(str, kernel.lines)
    yield "}"
