"""A kernel in the run worker, called as C calls it: addresses once, then nothing but calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import numpy as np

from ansorc.codegen.llvm.binding import load_object_code
from ansorc.codegen.package.runtime_symbols import runtime_symbols
from ansorc.search.measure.guarded import GuardedArray
from ansorc.search.measure.jobs import Program

OUT_OF_MEMORY_STATUS, MISSING_FEATURES_STATUS = 1, 2


class KernelError(Exception):
    """A kernel that returned something other than 0."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the kernel returned {status}")
        self.status = status


class Kernel:
    """Machine code bound to arrays and to a workspace that is kept from call to call.

    Raises BuildError for code that cannot be loaded and MemoryError for a workspace too large.
    """

    def __init__(self, program: Program, arrays: Sequence[GuardedArray], threads: int) -> None:
        symbols: Mapping[str, int] = runtime_symbols() if program.is_parallel else {}
        self._loaded = load_object_code(program.code, symbols)
        measure = self._loaded.address(f"{program.name}_workspace_bytes")
        size = ctypes.CFUNCTYPE(ctypes.c_size_t)(measure)()
        self._workspace = GuardedArray((size,), np.dtype(np.uint8)) if size else None
        pointer = ctypes.c_void_p
        kinds = [pointer] * (len(arrays) + 1)
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds, ctypes.c_int32)(
            self._loaded.address(program.name)
        )
        workspace = self._workspace.address if self._workspace else None
        addresses = [guarded.address for guarded in arrays]
        self._arguments = (*map(pointer, addresses), pointer(workspace), ctypes.c_int32(threads))
        self._arrays = arrays

    def __enter__(self) -> Kernel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loaded.close()

    def call(self, count: int) -> None:
        """Run the kernel `count` times; raise KernelError if it says that it failed."""
        function, arguments = self._function, self._arguments
        status = 0
        for _ in range(count):
            status |= function(*arguments)
        if status:
            raise KernelError(status)

    def evict(self, evict: Callable[[int, int], None]) -> None:
        """Call `evict` with the address and the size of all that the kernel reads and writes."""
        for memory in (*self._arrays, self._workspace):
            if memory is not None:
                evict(memory.address, memory.nbytes)

    def is_intact(self) -> bool:
        """Whether the kernel has stayed inside its workspace."""
        return self._workspace is None or self._workspace.is_intact()
