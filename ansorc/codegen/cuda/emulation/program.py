"""An emulated program in this process: `EmulatedProgram`."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ansorc.errors import BuildError, CallError
from ansorc.ir.aligned import Array
from ansorc.target.gpu import VECTOR_BYTES

_WRONG, _NO_MEMORY = 1, 2


class EmulatedProgram:
    """The library of a CUDA text; its calls follow each other, for it has one set of fibers."""

    def __init__(self, library: bytes) -> None:
        """Load what `compile_library` made; raise BuildError if that cannot be done."""
        with tempfile.TemporaryDirectory(prefix="ansorc-") as directory:
            path = Path(directory, "kernel.so")
            path.write_bytes(library)
            try:
                self._library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
            except OSError as error:
                raise BuildError(f"the emulated program cannot be loaded: {error}") from error
        self._run = self._library.ansorc_emulate
        self._run.argtypes = (
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
        )  # fmt: skip
        self._failure = self._library.ansorc_emulation_failure
        self._failure.restype = ctypes.c_char_p
        self._free: Callable[[ctypes.c_void_p], int] = ctypes.CDLL(None).dlclose
        self._lock = threading.Lock()

    def close(self) -> None:
        """Unload the library; no call may run now or later."""
        self._free(ctypes.c_void_p(self._library._handle))

    def run(
        self,
        arrays: Sequence[Array],
        workspace: int | None,
        calls: int = 1,
        seed: int = 1,
        seconds: Array | None = None,
    ) -> int:
        """Run all launches `calls` times, blocks in the order of `seed`; that of 2 n + 1 is the
        reverse of that of 2 n.

        `workspace` is the address of as many bytes as the launch plan says; to `seconds` (float64,
        one for each launch) is added what they take. Return 0, or a status if there is no memory
        for stacks. Raise CallError in words if the program is wrong.
        """
        for number, array in enumerate(arrays):
            if array.ctypes.data % VECTOR_BYTES:
                raise CallError(
                    f"array {number} lies at an address that is no multiple of {VECTOR_BYTES}, "
                    "as the vectors of a GPU must; pass a copy"
                )
        places = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
        with self._lock:
            clock = None if seconds is None else seconds.ctypes.data
            status = int(self._run(places, workspace, calls, seed, clock))
            words = self._failure().decode(errors="replace")
        if status == _WRONG:
            raise CallError(f"the emulated program is wrong, {words}")
        return status
