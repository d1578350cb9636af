"""A compiled kernel that Python calls on arrays: `Module`, in this process or from a library."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ansorc.codegen.base import BoundKernel, LoadedKernel, backend_of
from ansorc.codegen.call.arguments import PackedWeight, checked_arrays, packed_weight
from ansorc.codegen.call.timing import Timing, measure
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.manifest import read_manifest
from ansorc.codegen.package.signature import LACKS_FEATURES, OUT_OF_MEMORY, Signature
from ansorc.errors import BuildError, CallError
from ansorc.ir.aligned import aligned_empty
from ansorc.target import Target

_MOST_THREADS = 1024
"""The size of the runtime's thread pool."""


class LazyKernel:
    """A kernel's code; loaded at the first call, for it may be of another machine."""

    def __init__(self, load: Callable[[], LoadedKernel]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._kernel: LoadedKernel | None = None

    def kernel(self) -> LoadedKernel:
        """Return the loaded kernel; raise BuildError if it cannot be loaded."""
        with self._lock:
            if self._kernel is None:
                self._kernel = self._load()
        return self._kernel


class Module:
    """A compiled kernel. Several threads may call it at once, on outputs of their own."""

    def __init__(
        self, signature: Signature, target: Target, code: LazyKernel, compiled: bytes | None
    ) -> None:
        self.signature = signature
        self.target = target
        self._code = code
        self._compiled = compiled
        self._of_thread = threading.local()

    def __call__(self, *arrays: object, threads: int = 0) -> None:
        """Run the kernel on NumPy arrays, or objects with `__dlpack__`, in call order, in place.

        A weight that the kernel reads in another order is copied at every call: better pass what
        `pack` made of it once. `threads`: 0 for all cores, else the most that may be used. Raises
        CallError for arrays that the kernel cannot take, and if it runs out of memory or the CPU
        cannot run it.
        """
        call = self._bound(arrays, threads)
        self._require_success(call.run(1))
        call.fetch()

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

        The calls follow each other on the same arrays: caches are warm. Packing
        weights is done before and not timed.
        """
        call = self._bound(arrays, threads)
        timing = measure(
            lambda calls: self._require_success(call.run(calls)),
            time.perf_counter,
            min_time_s=min_time_s,
            max_repeats=max_repeats,
        )
        call.fetch()
        return timing

    def save(self, path: str | os.PathLike[str]) -> Artifact:
        """Write the kernel for C and C++: `path` (.so, .a or .o) with a .h and a .json beside it.

        Raises BuildError if a tool is missing or the files cannot be written; none is left half.
        """
        if self._compiled is None:
            raise BuildError(
                f"'{self.signature.name}' was loaded from a library, so there is no object code "
                "to save; copy the library's files"
            )
        backend = backend_of(self.target)
        return backend.save(Path(path), self._compiled, self.signature, self.target)

    def __repr__(self) -> str:
        params = ", ".join(
            f"{p.name}: {p.dtype}{list(p.source_shape)}" for p in self.signature.params
        )
        return f"<kernel {self.signature.name}({params}) for {self.target.text}>"

    def _bound(self, arrays: Sequence[object], threads: int) -> BoundKernel:
        """Check the arrays, and load the kernel if this is the first call."""
        checked = checked_arrays(self.signature, arrays)
        if not 0 <= threads <= _MOST_THREADS:
            raise CallError(
                f"threads is {threads}, but it must be 0 (all cores) to {_MOST_THREADS}"
            )
        return self._code.kernel().bind(checked, self._workspace(), threads)

    def _require_success(self, status: int) -> None:
        if status:
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
        if status == OUT_OF_MEMORY:
            return "ran out of memory; free some, or use fewer threads"
        if status == LACKS_FEATURES:
            return f"was built for '{self.target.text}', which has instructions that this CPU lacks"
        return f"failed with status {status}"


def load_code(compiled: bytes, signature: Signature, target: Target) -> Module:
    """Return the kernel in what the target's back end compiled; it is loaded at its first call."""
    code = LazyKernel(lambda: backend_of(target).load(compiled, signature, target))
    return Module(signature, target, code, compiled)


def load_library(path: str | os.PathLike[str]) -> Module:
    """Return the kernel in a shared library that `Module.save` wrote, with its manifest beside it.

    Raises BuildError if one of the files is missing, damaged, or of another build.
    """
    library = Path(path)
    manifest = read_manifest(library)
    signature, target = manifest.signature, manifest.target
    code = LazyKernel(lambda: backend_of(target).open(library, signature, target))
    code.kernel()
    return Module(signature, target, code, None)
