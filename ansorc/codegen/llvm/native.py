"""Kernels at addresses of this process, called once or in a loop that costs a nanosecond a call.

int32_t repeat(kernel, void **arrays, void *workspace, int32_t threads, int64_t calls)

is compiled in this process, once for each number of arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache

from ansorc.codegen.llvm.binding import LoadedCode, compile_object, load_object_code
from ansorc.ir.aligned import Array
from ansorc.target import detect


class NativeKernel:
    """The kernel at `address`, whose code is freed by `free`."""

    def __init__(self, address: int, free: Callable[[], object]) -> None:
        self._address, self._free = address, free

    def bind(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> BoundNativeKernel:
        """Return the kernel on `arrays`; see `base.LoadedKernel`."""
        return BoundNativeKernel(self, self._address, arrays, workspace, threads)

    def close(self) -> None:
        """Free the code."""
        self._free()


class BoundNativeKernel:
    """A kernel on arrays in this process; see `base.BoundKernel`."""

    def __init__(
        self,
        kernel: NativeKernel,
        address: int,
        arrays: Sequence[Array],
        workspace: int | None,
        threads: int,
    ) -> None:
        self._kernel, self._arrays = kernel, arrays  # live as long as their addresses are used
        places = [array.ctypes.data for array in arrays]
        pointers = (ctypes.c_void_p * max(1, len(places)))(*places)
        self._arguments = (address, pointers, workspace, threads)
        _, self._repeat = _repeat(len(places))

    def run(self, calls: int) -> int:
        """Call the kernel `calls` times, the GIL released; end at the first status but 0."""
        return self._repeat(*self._arguments, calls)

    def fetch(self) -> None:
        """The results are in the arrays already."""


@lru_cache(maxsize=64)
def _repeat(count: int) -> tuple[LoadedCode, Callable[..., int]]:
    target = detect()
    code = load_object_code(compile_object(_repeat_llvm(count, target.triple), target), {})
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    kind = ctypes.CFUNCTYPE(number, pointer, pointer, pointer, number, ctypes.c_int64)
    return code, kind(code.address("repeat"))


def _repeat_llvm(count: int, triple: str) -> str:
    loads: list[str] = []
    for number in range(count):
        loads.append(f"  %p{number} = getelementptr ptr, ptr %arrays, i64 {number}")
        loads.append(f"  %a{number} = load ptr, ptr %p{number}")
    listing = ", ".join([*(f"ptr %a{n}" for n in range(count)), "ptr %workspace", "i32 %threads"])
    return "\n".join([
        f'target triple = "{triple}"',
        "define i32 @repeat(ptr %kernel, ptr %arrays, ptr %workspace, i32 %threads, i64 %calls) {",
        "entry:",
        *loads,
        "  br label %loop",
        "loop:",
        "  %done = phi i64 [0, %entry], [%next, %loop]",
        f"  %status = call i32 %kernel({listing})",
        "  %next = add i64 %done, 1",
        "  %more = icmp slt i64 %next, %calls",
        "  %good = icmp eq i32 %status, 0",
        "  %again = and i1 %more, %good",
        "  br i1 %again, label %loop, label %end",
        "end:",
        "  ret i32 %status",
        "}",
    ])  # fmt: skip
