"""Arrays in the memory of a device, as other libraries describe them: `DeviceArray`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard

import ml_dtypes
import numpy as np

from ansorc.ir.aligned import Array

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Kinds of devices in DLPack."""
_DEVICES = {
    4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI", 15: "WebGPU", 17: "a Maia",
}  # fmt: skip
_LEGACY_STREAM = 1
"""How DLPack and `__cuda_array_interface__` call the stream that orders with all others."""
_CODES = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
_BFLOAT = 4
_READ_ONLY = 1


class SupportsDLPack(Protocol):
    """An array of another library, in the memory of this machine or of a device."""

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


def has_dlpack(value: object) -> TypeGuard[SupportsDLPack]:
    """Whether it is such an array; asking the protocol itself takes longer than many a kernel."""
    kind = type(value)
    return hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__")


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """An array that lies in the memory of a CUDA device."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    """In bytes; None: dense and row-major."""
    may_write: bool
    owner: object
    """The object that has to live as long as this."""
    device: int | None = None
    """The device's number; None: only the driver knows."""
    stream: int | None = None
    """The stream in which the array's contents become ready; None: they are."""

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether it is dense and row-major."""
        if self.strides is None or 0 in self.shape:
            return True
        expected = self.dtype.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True


DeviceOperand: TypeAlias = Array | DeviceArray
"""An argument of a kernel of a device; NumPy's arrays are copied there and back."""


def device_array(value: object, stream: int = 0) -> DeviceArray | None:
    """Return what `value` says of its memory on a CUDA device; None if it lies on no device.

    `stream` is where it will be used: exporters that know streams make it wait for their work.
    Raise ValueError with the reason where it lies on a device but cannot be described; BufferError
    and others come from the exporter.
    """
    if has_dlpack(value):
        kind, number = (int(part) for part in value.__dlpack_device__())
        if kind in (CPU, CUDA_HOST):
            return None
        if kind not in (CUDA, CUDA_MANAGED):
            other = _DEVICES.get(kind, f"kind {kind}")
            raise ValueError(f"it lies on a device of another make ({other})")
        return _from_dlpack(value, number, stream)
    described = getattr(value, "__cuda_array_interface__", None)
    return None if described is None else _from_interface(described, value)


def host_array(value: SupportsDLPack) -> Array:
    """Return an array in the memory of a tensor in main memory.

    NumPy views all but bfloat16. BufferError, RuntimeError, TypeError or ValueError come from it or
    from the exporter.
    """
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):
        with suppress(BufferError, RuntimeError, TypeError, ValueError):
            narrow = _view_bfloat16(value)
            if narrow is not None:
                return narrow
        raise


def _view_bfloat16(value: SupportsDLPack) -> Array | None:
    """Return an array in the memory of a tensor of bfloat16; None for others, and on a device.

    It may be written if the exporter says so, or cannot say.
    """
    kind, number = (int(part) for part in value.__dlpack_device__())
    if kind not in (CPU, CUDA_HOST):
        return None
    found = _from_dlpack(value, number, None)
    if found.dtype != ml_dtypes.bfloat16:
        return None
    return np.asarray(_HostMemory(found)).view(ml_dtypes.bfloat16)


class _HostMemory:
    """The bits of floats in main memory, as NumPy asks for them; the array keeps it alive."""

    def __init__(self, found: DeviceArray) -> None:
        self._found = found
        self.__array_interface__ = {
            "version": 3, "typestr": "<u2", "shape": found.shape, "strides": found.strides,
            "data": (found.address, not found.may_write),
        }  # fmt: skip


def _from_interface(fields: Mapping[str, Any], owner: object) -> DeviceArray:
    if fields.get("mask") is not None:
        raise ValueError("it has a mask")
    address, is_read_only = fields["data"]
    strides = fields.get("strides")
    stream = fields.get("stream")
    return DeviceArray(
        int(address), tuple(map(int, fields["shape"])), np.dtype(fields["typestr"]),
        None if strides is None else tuple(map(int, strides)), not is_read_only, owner,
        stream=None if stream is None else int(stream),
    )  # fmt: skip


class _DLDevice(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", _DLDevice), ("rank", ctypes.c_int32),
        ("dtype", _DLDataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class _DLVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    )  # fmt: skip


def _from_dlpack(value: SupportsDLPack, number: int, stream: int | None) -> DeviceArray:
    """The capsule is never renamed, so the exporter frees its record when the capsule is freed.

    `stream` is None in main memory.
    """
    handle = None if stream is None else stream or _LEGACY_STREAM
    try:
        capsule = value.__dlpack__(stream=handle, max_version=(1, 0))
    except TypeError:
        capsule = value.__dlpack__(stream=handle)
    name = b"dltensor_versioned" if "dltensor_versioned" in repr(capsule) else b"dltensor"
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    pointer = int(get(capsule, name))
    is_read_only = False
    if name == b"dltensor_versioned":
        versioned = _DLVersioned.from_address(pointer)
        if versioned.major > 1:
            raise ValueError(f"it speaks DLPack {versioned.major}, and ansorc knows 1")
        is_read_only = bool(versioned.flags & _READ_ONLY)
        tensor = versioned.tensor
    else:
        tensor = _DLTensor.from_address(pointer)
    dtype, rank = _dtype(tensor.dtype), int(tensor.rank)
    shape = tuple(tensor.shape[n] for n in range(rank))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[n] * dtype.itemsize for n in range(rank))
    address = int(tensor.data or 0) + int(tensor.offset)
    return DeviceArray(
        address, shape, dtype, strides, not is_read_only, (capsule, value), device=number
    )


def _dtype(data_type: _DLDataType) -> np.dtype[Any]:
    if data_type.lanes == 1 and data_type.code == _BFLOAT and data_type.bits == 16:
        return np.dtype(ml_dtypes.bfloat16)
    if data_type.lanes == 1 and data_type.code in _CODES:
        return np.dtype(f"{_CODES[data_type.code]}{data_type.bits // 8}")
    raise ValueError(
        f"its elements are of DLPack's type {data_type.code} with {data_type.bits} bits"
    )


def stream_handle(stream: object) -> int | None:
    """Return the handle of a stream of any library: None, a number, or what holds it.

    Knows `torch.cuda.Stream`, CuPy's, pycuda's and Numba's, and `__cuda_stream__`. Raise TypeError
    for others.
    """
    if stream is None or isinstance(stream, int):
        return stream
    told: Any = getattr(stream, "__cuda_stream__", None)
    if told is not None:
        return int(told()[1])
    for name in ("cuda_stream", "ptr", "handle"):
        handle: Any = getattr(stream, name, None)
        if handle is not None:
            return int(getattr(handle, "value", handle) or 0)
    raise TypeError(f"a {type(stream).__name__} is no CUDA stream")
