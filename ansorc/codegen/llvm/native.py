"""Kernels at addresses of this process, called once or in a loop that costs a nanosecond a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansorc.codegen.base import DirectCall
from ansorc.codegen.llvm.python_call import bind_run, direct_call
from ansorc.codegen.package.signature import Signature
from ansorc.ir.aligned import Array


class NativeKernel:
    """The kernel at `address`, whose code is freed by `free`."""

    def __init__(self, address: int, free: Callable[[], object], sizes: Sequence[int] = ()) -> None:
        self._address, self._free, self._sizes = address, free, tuple(sizes)

    def at(self, sizes: Sequence[int]) -> NativeKernel:
        """Return the kernel for these sizes of its dimensions; the code stays this one's."""
        return NativeKernel(self._address, lambda: None, sizes)

    def bind(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> BoundNativeKernel:
        """Return the kernel on `arrays`; see `base.LoadedKernel`."""
        return BoundNativeKernel(self, (self._address, self._sizes), arrays, workspace, threads)

    def direct(
        self, signature: Signature, fixed: Mapping[int, Array], most_threads: int
    ) -> DirectCall | None:
        """Return what checks and runs the kernel; see `base.DirectKernel`."""
        kernel = self._address, self._sizes
        return direct_call(kernel, signature, fixed, most_threads, self)

    def close(self) -> None:
        """Free the code."""
        self._free()


class BoundNativeKernel:
    """A kernel on arrays in this process; see `base.BoundKernel`."""

    def __init__(
        self,
        kernel: NativeKernel,
        place: tuple[int, tuple[int, ...]],
        arrays: Sequence[Array],
        workspace: int | None,
        threads: int,
    ) -> None:
        self._run = bind_run(place, arrays, workspace, threads, kernel)

    def run(self, calls: int) -> int:
        """Call the kernel `calls` times, the GIL released; end at the first status but 0."""
        return self._run(calls)

    def fetch(self) -> None:
        """The results are in the arrays already."""
