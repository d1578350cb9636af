"""Tensors of bfloat16 from other libraries by DLPack, of which NumPy makes no arrays itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.call.module import Module
from ansorc.codegen.device_array import host_array
from ansorc.errors import CallError
from ansorc.ir.aligned import Array
from ansorc.lang.operators import relu

BFLOAT, CPU = 4, 1


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class Exporter:
    """A tensor as PyTorch exports it: bits in main memory, by the protocol without versions."""

    def __init__(self, bits: Array, strides: tuple[int, ...] | None = None) -> None:
        self.bits = bits
        extents = (ctypes.c_int64 * bits.ndim)(*bits.shape)
        steps = (ctypes.c_int64 * bits.ndim)(*(s // 2 for s in strides or bits.strides))
        kind = (ctypes.c_uint8 * 4)(BFLOAT, 16, 1, 0)
        device = (ctypes.c_int32 * 2)(CPU, 0)
        self.tensor = DLTensor(bits.ctypes.data, device, bits.ndim, kind, extents, steps, 0)
        self.kept = extents, steps

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> object:
        assert stream is None
        del max_version
        new: Callable[..., object] = ctypes.pythonapi.PyCapsule_New
        ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
        ctypes.pythonapi.PyCapsule_New.argtypes = (
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
        )  # fmt: skip
        return new(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0


@pytest.fixture(scope="module")
def module() -> Module:
    x = ac.placeholder((3, 8), "x", "bfloat16")
    return ac.build(ac.ComputeDAG([x, relu(x, "y")]))


def numbers() -> Array:
    return np.arange(-12, 12).reshape(3, 8).astype(ml_dtypes.bfloat16)


def test_a_kernel_reads_and_writes_them(module: Module) -> None:
    x, y = numbers(), np.full((3, 8), np.nan, ml_dtypes.bfloat16)
    module(Exporter(x.view(np.uint16)), Exporter(y.view(np.uint16)))
    np.testing.assert_array_equal(y.astype(np.float32), np.maximum(x.astype(np.float32), 0))


def test_another_type_is_refused_by_its_name() -> None:
    x = ac.placeholder((3, 8), "x")
    with pytest.raises(CallError, match="has dtype bfloat16, but the kernel wants float32"):
        ac.build(ac.ComputeDAG([x, relu(x, "y")]))(Exporter(numbers().view(np.uint16)))


def test_what_is_not_dense_is_refused(module: Module) -> None:
    x, y = numbers().reshape(8, 3), numbers()
    with pytest.raises(CallError, match="not contiguous"):
        module(Exporter(x.T.view(np.uint16)), Exporter(y.view(np.uint16)))


def test_the_array_shares_the_memory() -> None:
    x = numbers()
    viewed = host_array(Exporter(x.view(np.uint16)))
    assert viewed.dtype == ml_dtypes.bfloat16
    x[1, 2] = 7
    assert float(viewed[1, 2]) == 7
