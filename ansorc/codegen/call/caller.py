"""Call code that is loaded when it is first needed: `Caller`, the same for kernels and networks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from ansorc.codegen.base import BoundKernel, LoadedKernel
from ansorc.codegen.call.timing import Timing, measure
from ansorc.codegen.package.signature import LACKS_FEATURES, OUT_OF_MEMORY, Signature
from ansorc.errors import CallError
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.target import Target

_MOST_THREADS = 1024
"""The size of the runtime's thread pool."""
Loaded = TypeVar("Loaded", bound=LoadedKernel)


class LazyCode(Generic[Loaded]):
    """What `load` returns; loaded at the first call, for it may be of another machine."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None

    def loaded(self) -> Loaded:
        """Return the loaded code; raise BuildError if it cannot be loaded."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
        return self._loaded


def require_no_stream(name: str, target: Target, stream: object) -> None:
    """Raise CallError if a stream is given for what was built for a CPU."""
    if stream is not None:
        raise CallError(f"{name} was built for '{target.text}', which has no streams")


class Caller(Generic[Loaded]):
    """Calls with arrays that were checked, each thread with a workspace of its own."""

    def __init__(self, signature: Signature, target: Target, code: LazyCode[Loaded]) -> None:
        self._signature, self._target, self._code = signature, target, code
        self._of_thread = threading.local()

    def run(self, arrays: Sequence[Array], threads: int) -> None:
        """Run the code once; raise CallError with the meaning of a status other than 0."""
        call = self._bound(arrays, threads)
        self.require_success(call.run(1))
        call.fetch()

    def time(
        self, arrays: Sequence[Array], threads: int, *, min_time_s: float, max_repeats: int
    ) -> Timing:
        """Run the code for about `min_time_s` seconds and return the time of one call."""
        call = self._bound(arrays, threads)
        timing = measure(
            lambda calls: self.require_success(call.run(calls)),
            time.perf_counter,
            min_time_s=min_time_s,
            max_repeats=max_repeats,
        )
        call.fetch()
        return timing

    def loaded(self, threads: int) -> tuple[Loaded, int | None]:
        """Return the code, loaded, and the address of this thread's workspace.

        Raise CallError for a wrong number of threads.
        """
        if not 0 <= threads <= _MOST_THREADS:
            raise CallError(
                f"threads is {threads}, but it must be 0 (all cores) to {_MOST_THREADS}"
            )
        return self._code.loaded(), self._workspace()

    def require_success(self, status: int) -> None:
        """Raise CallError with the meaning of `status` unless it is 0."""
        if status:
            raise CallError(f"{self._signature.name} {self._meaning(status)}")

    def _bound(self, arrays: Sequence[Array], threads: int) -> BoundKernel:
        code, workspace = self.loaded(threads)
        return code.bind(arrays, workspace, threads)

    def _workspace(self) -> int | None:
        """Return the address of this thread's workspace, which is kept for its next call."""
        size = self._signature.workspace_bytes
        if size == 0:
            return None
        if not hasattr(self._of_thread, "address"):
            try:
                memory = aligned_empty(size, np.uint8)
            except MemoryError as error:
                words = f"{self._signature.name} needs {size} bytes of workspace"
                raise CallError(f"{words}, and there is no such memory") from error
            self._of_thread.memory = memory
            self._of_thread.address = memory.ctypes.data
        return int(self._of_thread.address)

    def _meaning(self, status: int) -> str:
        if status == OUT_OF_MEMORY:
            return "ran out of memory; free some, or use fewer threads"
        if status == LACKS_FEATURES:
            words = "which has instructions that this CPU lacks"
            return f"was built for '{self._target.text}', {words}"
        return f"failed with status {status}"
