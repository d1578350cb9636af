"""Arrays that notice a kernel that writes where it must not.

Each array ends at a page that cannot be touched, and lies between pattern bytes up to the page
borders; an input is made read-only. A stray access is then a signal, or is found afterwards.

    | no access | pattern | array …………………… | pattern (< 64 B) | no access |
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Bytes of a cache line, and of the widest vectors."""
_PATTERN = 0xA5
_READ, _WRITE = 1, 2
_HUGE_BYTES = 4 << 20

Array = NDArray[np.generic]


class GuardedArray:
    """A C-contiguous array of `shape` and `dtype`, 64-byte aligned, in pages of its own."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
        page = mmap.PAGESIZE
        elements = int(np.prod(shape, dtype=np.int64))
        self._bytes = elements * dtype.itemsize
        padded = _round_up(max(self._bytes, 1), ALIGNMENT)
        self._inner = _round_up(padded, page)
        try:
            self._map = mmap.mmap(-1, self._inner + 2 * page)
        except OSError as error:
            raise MemoryError(f"{self._bytes} bytes") from error
        if self._inner >= _HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self._begin = page + self._inner - padded
        whole = np.frombuffer(self._map, np.uint8)
        self._address = int(whole.ctypes.data)
        self._left = whole[page : self._begin]
        self._right = whole[self._begin + self._bytes : page + self._inner]
        self._left.fill(_PATTERN)
        self._right.fill(_PATTERN)
        flat = np.frombuffer(self._map, dtype, elements, self._begin)
        self.array: Array = flat.reshape(shape)
        _protect(self._address, page, 0)
        _protect(self._address + page + self._inner, page, 0)

    @property
    def nbytes(self) -> int:
        """The size of the array in bytes."""
        return self._bytes

    @property
    def address(self) -> int:
        """Where the array begins."""
        return self._address + self._begin

    def freeze(self) -> None:
        """Make the array read-only for native code as well."""
        _protect(self._address + mmap.PAGESIZE, self._inner, _READ)
        self.array.flags.writeable = False

    def poison(self) -> None:
        """Fill the array with bytes that a kernel would not leave: NaN, or 0xCD in integers."""
        fill = 0xCD if self.array.dtype.kind in "iub" else 0xFF
        inner = np.frombuffer(self._map, np.uint8, self._bytes, self._begin)
        inner.fill(fill)

    def is_intact(self) -> bool:
        """Whether the pattern around the array is still there."""
        return bool((self._left == _PATTERN).all() and (self._right == _PATTERN).all())


def guarded_copy(source: Array) -> GuardedArray:
    """Return a frozen guarded copy of `source`."""
    copy = GuardedArray(source.shape, source.dtype)
    copy.array[...] = source
    copy.freeze()
    return copy


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _protect(address: int, length: int, mode: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), ctypes.c_int(mode)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
