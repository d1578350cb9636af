"""Arrays on the emulated device, as other libraries show theirs."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ansorc.codegen.cuda.binding import driver
from ansorc.ir.aligned import Array


def pycuda() -> Any:
    return driver()


class OnDevice:
    """A copy of an array, shown by `__cuda_array_interface__` as CuPy and Numba do."""

    def __init__(self, array: Array, offset: int = 0, stream: int | None = None) -> None:
        self.array, self.stream = array, stream
        self.memory = pycuda().mem_alloc(max(array.nbytes, 1) + offset)
        self.address = int(self.memory) + offset
        pycuda().memcpy_htod(self.address, array)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "data": (self.address, False),
            "version": 3,
            "stream": self.stream,
        }

    def get(self) -> Array:
        found = np.empty_like(self.array)
        pycuda().memcpy_dtoh(found, self.address)
        return found


class DLPackOnDevice:
    """The same by DLPack, as PyTorch does; it notes in which stream it is used."""

    def __init__(self, inner: OnDevice, device: tuple[int, int] = (2, 0)) -> None:
        self.inner, self.device = inner, device
        self.streams: list[object] = []
        rank, itemsize = inner.array.ndim, inner.array.dtype.itemsize
        self._shape = (ctypes.c_int64 * rank)(*inner.array.shape)
        strides = [stride // itemsize for stride in inner.array.strides]
        self._strides = (ctypes.c_int64 * rank)(*strides)
        code = {"f": 2, "i": 0, "u": 1, "b": 6}.get(inner.array.dtype.kind, 4)
        words = [
            inner.address, device[0] | device[1] << 32,
            rank | code << 32 | 8 * itemsize << 40 | 1 << 48,
            ctypes.addressof(self._shape), ctypes.addressof(self._strides), 0, 0, 0,
        ]  # fmt: skip
        self._tensor = (ctypes.c_uint64 * len(words))(*words)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None) -> object:
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._tensor), b"dltensor", None)

    def get(self) -> Array:
        return self.inner.get()
