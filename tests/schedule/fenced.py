"""Arrays with a page that cannot be touched directly before the first or after the last byte."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

PATTERN = 0xA5


class Fenced:
    """`array`, its pages full of PATTERN elsewhere, a fence at its end or at its beginning."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, at_end: bool) -> None:
        page = mmap.PAGESIZE
        count = int(np.prod(shape, dtype=np.int64))
        size = count * dtype.itemsize
        inner = -(-size // page) * page
        self._map = mmap.mmap(-1, inner + 2 * page)
        self._bytes = np.frombuffer(self._map, np.uint8)[page : page + inner]
        self._bytes.fill(PATTERN)
        self._slack = slice(0, inner - size) if at_end else slice(size, inner)
        offset = page + (inner - size if at_end else 0)
        self.array: NDArray[Any] = np.frombuffer(self._map, dtype, count, offset).reshape(shape)
        address = int(self._bytes.ctypes.data)
        for fence in (address - page, address + inner):
            code = ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(page), 0)
            assert code == 0

    def is_intact(self) -> bool:
        """Whether nothing was written beside the array."""
        return bool((self._bytes[self._slack] == PATTERN).all())
