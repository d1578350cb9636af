"""A compiled kernel that Python calls on arrays: `Module`, in this process or from a library."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ansorc.codegen.call.arguments import Array, checked_arrays, packed_weight
from ansorc.codegen.call.invoke import invoke
from ansorc.codegen.call.packed_weight import PackedWeight
from ansorc.codegen.call.timing import Timing, measure
from ansorc.codegen.llvm.binding import load_object_code
from ansorc.codegen.package.artifact import Artifact, write_artifact
from ansorc.codegen.package.manifest import read_manifest
from ansorc.codegen.package.runtime_symbols import runtime_symbols
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError, CallError
from ansorc.ir.aligned import aligned_empty
from ansorc.target import Target, detect

_MOST_THREADS = 1024
"""The size of the runtime's thread pool."""


class Code:
    """A kernel's machine code; opened at the first call, for it may be of another machine."""

    def __init__(self, open_code: Callable[[], tuple[object, int]]) -> None:
        self._open = open_code
        self._lock = threading.Lock()
        self._opened: tuple[object, int] | None = None

    def address(self) -> int:
        """Return the address of the kernel; raise BuildError if it cannot be loaded."""
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
        return self._opened[1]


class Module:
    """A compiled kernel. Several threads may call it at once, on outputs of their own."""

    def __init__(
        self, signature: Signature, target: Target, code: Code, object_code: bytes | None
    ) -> None:
        self.signature = signature
        self.target = target
        self._code = code
        self._object_code = object_code
        self._of_thread = threading.local()

    def __call__(self, *arrays: object, threads: int = 0) -> None:
        """Run the kernel on NumPy arrays, or objects with `__dlpack__`, in call order, in place.

        A weight that the kernel reads in another order is copied at every call: better pass what
        `pack` made of it once. `threads`: 0 for all cores, else the most that may be used. Raises
        CallError for arrays that the kernel cannot take, and if it runs out of memory or the CPU
        cannot run it.
        """
        checked = checked_arrays(self.signature, arrays)
        self._run(checked, threads, 1)

    def pack(self, weight: str, array: object) -> PackedWeight:
        """Return the constant input `weight` in the order in which the kernel reads it.

        Pass it in the place of the original at every call; it does not follow later changes of
        `array`. Raises CallError for what is no weight, or an array that a call would refuse.
        """
        return packed_weight(self.signature, weight, array)

    def time(
        self, *arrays: object, threads: int = 0, min_time_s: float = 0.1, max_repeats: int = 100
    ) -> Timing:
        """Run the kernel for about `min_time_s` seconds and return the time of one call.

        The calls follow each other in machine code, on the same arrays: caches are warm. Packing
        weights is done before and not timed.
        """
        checked = checked_arrays(self.signature, arrays)
        return measure(
            lambda calls: self._run(checked, threads, calls),
            time.perf_counter,
            min_time_s=min_time_s,
            max_repeats=max_repeats,
        )

    def save(self, path: str | os.PathLike[str]) -> Artifact:
        """Write the kernel for C and C++: `path` (.so, .a or .o) with a .h and a .json beside it.

        Raises BuildError if a tool is missing or the files cannot be written; none is left half.
        """
        if self._object_code is None:
            raise BuildError(
                f"'{self.signature.name}' was loaded from a library, so there is no object code "
                "to save; copy the library's files"
            )
        return write_artifact(Path(path), self._object_code, self.signature, self.target)

    def __repr__(self) -> str:
        params = ", ".join(
            f"{p.name}: {p.dtype}{list(p.source_shape)}" for p in self.signature.params
        )
        return f"<kernel {self.signature.name}({params}) for {self.target.text}>"

    def _run(self, arrays: list[Array], threads: int, calls: int) -> None:
        if not 0 <= threads <= _MOST_THREADS:
            raise CallError(
                f"threads is {threads}, but it must be 0 (all cores) to {_MOST_THREADS}"
            )
        address, workspace = self._code.address(), self._workspace()
        pointers = [array.ctypes.data for array in arrays]
        status = invoke(address, pointers, workspace, threads=threads, calls=calls)
        if status != 0:
            raise CallError(f"{self.signature.name} {self._meaning(status)}")

    def _workspace(self) -> int | None:
        """Return the address of this thread's workspace, which is kept for its next call."""
        size = self.signature.workspace_bytes
        if size == 0:
            return None
        if not hasattr(self._of_thread, "address"):
            try:
                memory = aligned_empty(size, np.uint8)
            except MemoryError as error:
                words = f"{self.signature.name} needs {size} bytes of workspace"
                raise CallError(f"{words}, and there is no such memory") from error
            self._of_thread.memory = memory
            self._of_thread.address = memory.ctypes.data
        return int(self._of_thread.address)

    def _meaning(self, status: int) -> str:
        if status == 1:
            return "ran out of memory; free some, or use fewer threads"
        if status == 2:
            return f"was built for '{self.target.text}', which has instructions that this CPU lacks"
        return f"failed with status {status}"


def load_object(object_bytes: bytes, signature: Signature, target: Target) -> Module:
    """Return the kernel in an object file as a Module; it is linked at its first call."""

    def open_code() -> tuple[object, int]:
        _require_this_machine(signature, target)
        code = load_object_code(object_bytes, runtime_symbols() if signature.parallel else {})
        return code, code.address(signature.name)

    return Module(signature, target, Code(open_code), object_bytes)


def load_library(path: str | os.PathLike[str]) -> Module:
    """Return the kernel in a shared library that `Module.save` wrote, with its manifest beside it.

    Raises BuildError if one of the files is missing, damaged, or of another build.
    """
    library = Path(path)
    manifest = read_manifest(library)
    _require_this_machine(manifest.signature, manifest.target)

    def open_code() -> tuple[object, int]:
        loaded = _opened_copy(library)
        address = ctypes.cast(loaded[manifest.signature.name], ctypes.c_void_p).value
        return loaded, address or 0

    code = Code(open_code)
    code.address()
    return Module(manifest.signature, manifest.target, code, None)


def _opened_copy(library: Path) -> ctypes.CDLL:
    """Open a private copy: a path that is open already would give what was loaded from it then."""
    with tempfile.TemporaryDirectory(prefix="ansorc-") as directory:
        copy = Path(directory) / library.name
        try:
            shutil.copyfile(library, copy)
            return ctypes.CDLL(str(copy))
        except OSError as error:
            raise BuildError(f"{library} cannot be loaded: {error}") from error


def _require_this_machine(signature: Signature, target: Target) -> None:
    own, real = detect(), target.real
    if real.triple.split("-")[0] != own.triple.split("-")[0]:
        raise BuildError(
            f"'{signature.name}' was built for {real.triple} and cannot run on this machine "
            f"({own.triple}); save it and run it there"
        )
