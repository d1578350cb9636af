"""Kernels with some of their arguments, or all, given before: `FixedInputs`, `BoundCall`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from ansorc.codegen.base import BoundKernel, DirectCall, DirectKernel, LoadedKernel
from ansorc.codegen.package.signature import Signature
from ansorc.ir.aligned import Array


@runtime_checkable
class SizedKernel(LoadedKernel, Protocol):
    """A kernel whose caller gives the sizes of dimensions."""

    def at(self, sizes: Sequence[int]) -> LoadedKernel:
        """Return the kernel for these sizes, in the order of the signature's dimensions."""
        ...


class FixedInputs:
    """A loaded kernel that always gets some arrays; see `base.DirectKernel`.

    `signature` is the kernel's; `fixed` are the arrays by their number in it.
    """

    def __init__(
        self, kernel: LoadedKernel, signature: Signature, fixed: Mapping[int, Array]
    ) -> None:
        self._kernel, self._signature, self._fixed = kernel, signature, dict(fixed)
        self._free = [n for n in range(len(signature.params)) if n not in fixed]

    def bind(self, arrays: Sequence[Array], workspace: int | None, threads: int) -> BoundKernel:
        """Return the kernel on `arrays`, the others among them."""
        by_number = self._fixed | dict(zip(self._free, arrays, strict=True))
        return self._kernel.bind([by_number[n] for n in sorted(by_number)], workspace, threads)

    def direct(
        self, signature: Signature, fixed: Mapping[int, Array], most_threads: int
    ) -> DirectCall | None:
        """Return what runs the kernel with the others, where it has such a function."""
        if not isinstance(self._kernel, DirectKernel):
            return None
        newly_fixed = {self._free[n]: array for n, array in fixed.items()}
        return self._kernel.direct(self._signature, self._fixed | newly_fixed, most_threads)

    def at(self, sizes: Sequence[int]) -> FixedInputs:
        """Return the kernel for these sizes of its dimensions."""
        assert isinstance(self._kernel, SizedKernel)
        return FixedInputs(self._kernel.at(sizes), self._at(sizes), self._fixed)

    def _at(self, sizes: Sequence[int]) -> Signature:
        names = [dim.name for dim in self._signature.dims]
        return self._signature.at(dict(zip(names, sizes, strict=True)))

    def close(self) -> None:
        """Free the code."""
        self._kernel.close()


class BoundCall:
    """A callable without arguments, on arrays that were checked before.

    Several threads may call it at once, but they write the same arrays. Raises CallError as a call
    with arguments does.
    """

    def __init__(
        self, bind: Callable[[], BoundKernel], finish: Callable[[int], None], text: str
    ) -> None:
        self._bind, self._finish, self._text = bind, finish, text
        self._of_thread = threading.local()

    def __call__(self) -> None:
        """Run it once."""
        try:
            bound: BoundKernel = self._of_thread.bound
        except AttributeError:
            bound = self._of_thread.bound = self._bind()  # a thread has a workspace of its own
        status = bound.run(1)
        if status:
            self._finish(status)
        bound.fetch()

    def __repr__(self) -> str:
        return self._text
