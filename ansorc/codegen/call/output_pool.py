"""New arrays for what a call computes, in memory that was used before: `OutputPool`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence

from ansorc.codegen.package.signature import Param
from ansorc.ir.aligned import Array, aligned_empty

KEPT = 4
"""Buffers that are kept for each output. A loop holds two: its last result, and the next one."""


class OutputPool:
    """Arrays for some outputs, contents free; several threads may take at once.

    Memory that the system gives anew costs a page fault for every 4096 bytes. So the memory of the
    last arrays is kept, and used again once nobody refers to it: neither by the array that was
    returned nor by a view of it, in whatever library.
    """

    def __init__(self, params: Sequence[Param]) -> None:
        self._outputs = [(param, deque[Array](maxlen=KEPT)) for param in params]

    def take(self) -> tuple[Array, ...]:
        """Return a new array for each output, aligned to 64 bytes."""
        return tuple([_taken(param, kept) for param, kept in self._outputs])


def _taken(param: Param, kept: deque[Array]) -> Array:
    for _ in range(len(kept) if _REUSES else 0):
        try:
            array = kept.popleft()  # and so no other thread sees it
        except IndexError:  # other threads are looking at the rest
            break
        if _references(array) == _UNUSED:
            taken = array[...]
            kept.append(array)
            return taken
        kept.append(array)
    array = aligned_empty(param.shape, param.dtype.numpy)
    kept.append(array)  # instead of the one that was longest in use
    return array[...]


def _references(array: Array) -> int:
    """How many refer to the memory under `array`, in this interpreter's way of counting.

    NumPy lets each view refer to the array that owns the memory, here one of bytes.
    """
    return sys.getrefcount(array.base)


def _counts_exactly() -> bool:
    """Whether this interpreter counts references one after the other: it has a global lock."""
    has_lock: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return has_lock is None or has_lock()


_UNUSED = _references(aligned_empty(1))
_REUSES = _counts_exactly()
