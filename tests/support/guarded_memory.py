"""Arrays between pages that cannot be touched: a kernel that leaves its arrays ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PAGE = mmap.PAGESIZE
_FORBIDDEN = 0
"""PROT_NONE of <sys/mman.h>."""
_C = ctypes.CDLL(None, use_errno=True)
_C.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded(array: NDArray[Any], *, at_end: bool = True) -> NDArray[Any]:
    """Return a copy that ends where the next page begins, or else begins where the last one ends.

    Neither neighbour may be read or written. The memory lives as long as the copy.
    """
    inner = -(-max(array.nbytes, 1) // _PAGE) * _PAGE
    pages = mmap.mmap(-1, inner + 2 * _PAGE)
    begin = np.frombuffer(pages, np.uint8).ctypes.data
    for neighbour in (begin, begin + _PAGE + inner):
        if _C.mprotect(neighbour, _PAGE, _FORBIDDEN):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = _PAGE + (inner - array.nbytes if at_end else 0)
    copy = np.frombuffer(pages, np.uint8, array.nbytes, offset).view(array.dtype)
    copy = copy.reshape(array.shape)
    copy[...] = array
    return copy
