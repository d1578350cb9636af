"""Tensors of libraries with DLPack's functions for C: read by machine code, or left to Python."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from ansorc.codegen.base import DirectCall, DirectKernel, backend_of
from ansorc.codegen.build import compile_function
from ansorc.errors import CallError
from ansorc.ir.parser import parse
from ansorc.target import Target
from tests.codegen.call.call_fuzz import Value
from tests.codegen.kernels import TWICE, arguments, build

Export = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
Delete = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    """`DLManagedTensorVersioned` of DLPack 1."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", Delete), ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32), ("number", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class Exchange(ctypes.Structure):
    """`DLPackExchangeAPI`."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p), ("export", ctypes.c_void_p), ("wrap", ctypes.c_void_p),
        ("view", ctypes.c_void_p), ("stream", ctypes.c_void_p),
    )  # fmt: skip


class Tensor:
    """An array of another library."""

    exported, deleted = 0, 0
    living: ClassVar[dict[int, Any]] = {}

    def __init__(self, array: Value, **changes: Any) -> None:
        self.array, self.changes = array, changes
        self.requires_grad = False

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __bool__(self) -> bool:
        raise RuntimeError("cannot be exported")


def export(tensor: Tensor, place: Any) -> int:
    array, changes = tensor.array, dict(tensor.changes)
    extents = (ctypes.c_int64 * 8)(*array.shape)
    strides = (ctypes.c_int64 * 8)(*(n // array.itemsize for n in array.strides))
    fields: dict[str, Any] = {
        "major": 1, "minor": 3, "deleter": _DELETE, "data": array.ctypes.data, "device": 1,
        "rank": array.ndim, "code": 2, "bits": 8 * array.itemsize, "lanes": 1,
        "shape": ctypes.addressof(extents), "strides": ctypes.addressof(strides),
    }  # fmt: skip
    managed = Managed(**(fields | changes))
    Tensor.living[ctypes.addressof(managed)] = managed, extents, strides
    Tensor.exported += 1
    place[0] = ctypes.addressof(managed)
    return 0


def delete(address: int) -> None:
    del Tensor.living[address]
    Tensor.deleted += 1


_EXPORT, _DELETE = Export(export), Delete(delete)
_FAIL = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p).value
"""Returns -1 with an exception for a `Tensor`."""


def exchange(kept: list[Any], function: int | None = None, **fields: int) -> Any:
    """A capsule for the attribute of a type."""
    own = ctypes.cast(_EXPORT, ctypes.c_void_p).value
    api = Exchange(**({"major": 1, "minor": 3, "export": function or own} | fields))
    kept.append(api)
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    new: Any = kind(("PyCapsule_New", ctypes.pythonapi))
    return new(ctypes.addressof(api), b"dlpack_exchange_api", None)


@pytest.fixture(name="kind")
def _kind() -> Callable[..., type[Tensor]]:
    kept: list[Any] = []

    def make(capsule: Any = None, **fields: Any) -> type[Tensor]:
        attributes = {"__dlpack_c_exchange_api__": capsule or exchange(kept, **fields)}
        attributes["kept"] = kept
        return type("ExchangedTensor", (Tensor,), attributes)

    return make


@pytest.fixture(name="call", scope="module")
def _call() -> DirectCall:
    native = Target.parse("native")
    compiled = compile_function(parse(TWICE), native)
    kernel = backend_of(native).load(compiled.code, compiled.signature, native)
    assert isinstance(kernel, DirectKernel)
    found = kernel.direct(compiled.signature, {}, 1024)
    assert found is not None
    return found


def test_machine_code_reads_them(kind: Callable[..., type[Tensor]], call: DirectCall) -> None:
    tensor, (a, b) = kind(), arguments()
    before = Tensor.exported
    capsule = tensor.__dict__["__dlpack_c_exchange_api__"]
    count = sys.getrefcount(capsule)
    for values in (
        (tensor(a), tensor(b)),
        (a, tensor(b)),
        (tensor(a, flags=1), b),  # read-only
        (tensor(a, strides=None), b),
        (tensor(a, offset=4 * 960, data=a.ctypes.data - 4 * 960), b),
    ):
        b[:] = 0
        assert call(values, 0, 0) == 0
        np.testing.assert_array_equal(b, 2 * a)
    assert Tensor.exported == before + 6
    assert (Tensor.deleted, Tensor.living) == (Tensor.exported, {})
    assert sys.getrefcount(capsule) == count


@pytest.mark.parametrize(
    "changes",
    [
        {"major": 2}, {"flags": 2}, {"device": 2}, {"rank": 1}, {"rank": 3}, {"code": 0},
        {"bits": 64}, {"lanes": 2}, {"data": None}, {"offset": 1}, {"flags": 3},
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_left_to_python(
    kind: Callable[..., type[Tensor]], call: DirectCall, changes: dict[str, Any]
) -> None:
    a, b = arguments()
    assert call((kind()(a, **changes), b), 0, 0) is None
    assert (Tensor.deleted, Tensor.living) == (Tensor.exported, {})
    assert not b.any()


def test_so_are_other_shapes_strides_and_read_only_outputs(
    kind: Callable[..., type[Tensor]], call: DirectCall
) -> None:
    tensor, (a, b) = kind(), arguments()
    wide = np.zeros((24, 80), np.float32)
    for wrong in (a[:23], a[:, :39], a.T, wide[:, ::2], a[::-1], np.asfortranarray(a)):
        assert call((tensor(wrong), b), 0, 0) is None
    assert call((a, tensor(b, flags=1)), 0, 0) is None
    assert call((tensor(a), tensor(a)), 0, 0) is None
    needs = tensor(a)
    needs.requires_grad = True
    assert call((needs, b), 0, 0) is None
    assert (Tensor.deleted, Tensor.living) == (Tensor.exported, {})
    del needs.requires_grad
    assert call((needs, b), 0, 0) == 0  # a library that has no gradients
    with pytest.raises(CallError, match="'A' is not contiguous"):
        build(TWICE)(tensor(wide[:, ::2]), b)


def test_functions_that_fail_or_are_of_another_version(
    kind: Callable[..., type[Tensor]], call: DirectCall
) -> None:
    a, b = arguments()
    for capsule in (None, 3, object()):
        if capsule is not None:
            assert call((kind(capsule)(a), b), 0, 0) is None
    assert call((kind(major=2)(a), b), 0, 0) is None
    assert call((kind(function=_FAIL)(a), b), 0, 0) is None
    module = build(TWICE)
    for _ in range(2):
        module(kind(function=_FAIL)(a), b)  # by __dlpack__
        np.testing.assert_array_equal(b, 2 * a)
        b[:] = 0
