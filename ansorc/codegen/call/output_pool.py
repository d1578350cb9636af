"""New arrays for what a call computes, in memory that was used before: `OutputPool`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable

from ansorc.codegen.package.signature import Param
from ansorc.ir.aligned import Array, aligned_empty

KEPT = 4
"""Buffers that are kept for each output. A loop holds two: its last result, and the next one."""


class OutputPool:
    """Arrays for one output, contents free; several threads may take at once.

    Memory that the system gives anew costs a page fault for every 4096 bytes. So the memory of the
    last arrays is kept, and used again once nobody refers to it: neither the array that was
    returned nor a view of it, in whatever library. The one that was used last comes first: it is in
    the nearest caches.
    """

    def __init__(self, param: Param) -> None:
        self._shape, self._dtype = param.caller_shape, param.caller_dtype
        self._kept = deque[Array](maxlen=KEPT)

    def take(self) -> Array:
        """Return a new array, aligned to 64 bytes."""
        kept = self._kept
        for _ in _TRIES:
            try:
                array = kept.pop()  # and so no other thread sees it
            except IndexError:  # there is none, or other threads are looking at it
                break
            if _references(array.base) == _UNUSED:
                taken = array[...]
                kept.append(array)
                return taken
            kept.appendleft(array)
        array = aligned_empty(self._shape, self._dtype)
        taken = array[...]
        kept.append(array)  # instead of one that is in use
        return taken


def _counts_exactly() -> bool:
    """Whether this interpreter counts references one after the other: it has a global lock."""
    has_lock: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return has_lock is None or has_lock()


_TRIES = range(KEPT if _counts_exactly() else 0)
_references = sys.getrefcount
_sample = aligned_empty(1)
_UNUSED = _references(_sample.base)
"""References to the memory under an array that is only kept. NumPy lets each view of it refer to
the array that owns the memory, here one of bytes."""
