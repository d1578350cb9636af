"""A kernel in the run worker, called as C calls it: addresses once, then nothing but calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

import numpy as np

from ansorc.codegen.base import backend_of
from ansorc.search.measure.guarded import GuardedArray
from ansorc.search.measure.jobs import Program
from ansorc.target import Target


class KernelError(Exception):
    """A kernel that returned something other than 0."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the kernel returned {status}")
        self.status = status


class Kernel:
    """Code bound to arrays and to a workspace that is kept from call to call.

    Raises BuildError for code that cannot be loaded and MemoryError for a workspace too large.
    """

    def __init__(
        self, program: Program, target: Target, arrays: Sequence[GuardedArray], threads: int
    ) -> None:
        self._kernel = backend_of(target).load(program.code, program.signature, target)
        size = program.signature.workspace_bytes
        self._workspace = GuardedArray((size,), np.dtype(np.uint8)) if size else None
        workspace = self._workspace.address if self._workspace else None
        self._arrays = arrays
        self._call = self._kernel.bind([one.array for one in arrays], workspace, threads)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kernel.close()

    def call(self, count: int) -> None:
        """Run the kernel `count` times; raise KernelError if it says that it failed."""
        status = self._call.run(count)
        if status:
            raise KernelError(status)

    def fetch(self) -> None:
        """Have the results in the arrays."""
        self._call.fetch()

    def evict(self, evict: Callable[[int, int], None]) -> None:
        """Call `evict` with the address and the size of all that the kernel reads and writes."""
        for memory in (*self._arrays, self._workspace):
            if memory is not None:
                evict(memory.address, memory.nbytes)

    def is_intact(self) -> bool:
        """Whether the kernel has stayed inside its workspace."""
        return self._workspace is None or self._workspace.is_intact()
