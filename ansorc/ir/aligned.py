"""Allocate memory for tensors at the start of a cache line."""

from __future__ import annotations

import mmap
from math import prod
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ansorc.errors import ArgumentError

Array: TypeAlias = NDArray[Any]
"""The elements of a tensor, of any type."""
ALIGNMENT = 64
"""Bytes of a cache line, and of the widest vectors."""
_LARGE_BYTES = 1 << 17


def aligned_empty(shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> Array:
    """Return an array that begins at a multiple of 64 bytes, contents free.

    Kernels accept any array. But arrays of `numpy.empty` begin at any multiple of 16 bytes, so a
    vector of 64 bytes may cross two cache lines, which is slower (docs/decisions/0025). Raise
    ArgumentError for a shape or a dtype that no array can have.
    """
    try:
        given = shape if isinstance(shape, (tuple, list)) else (shape,)
        extents, kind = tuple(int(index(extent)) for extent in given), np.dtype(dtype)
        if kind.hasobject or not kind.itemsize or min(extents, default=0) < 0:
            raise ValueError
        size = prod(extents) * kind.itemsize
        memory: NDArray[np.uint8] = np.empty(size + ALIGNMENT, np.uint8)
    except (TypeError, ValueError) as error:
        words = f"shape {shape!r} and dtype {dtype!r}"
        raise ArgumentError(f"no array can have {words}: give extents and a dtype") from error
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(kind).reshape(extents)


def in_own_pages(array: Array) -> Array:
    """Return a copy of a large array whose memory returns to the system when it is freed.

    Memory that NumPy frees between arrays in use stays with the process.
    """
    if array.nbytes < _LARGE_BYTES:
        return array
    pages = mmap.mmap(-1, array.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    copy = np.frombuffer(pages, np.uint8).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
