"""Arguments of calls, right ones and wrong ones, drawn for a kernel that has every kind of them."""

from __future__ import annotations

import mmap
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ansorc.codegen.package.signature import Param, Signature
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32, dtype
from ansorc.ir.packing import PackedPart, PackedWeight, Packing
from tests.support.guarded_memory import guarded

MIXED = """\
kernel mixed(
    D: int8[4], A: float32[3, 4], s: float32[], C: float32[3, 4], B: int8[4] constant,
    W: float32[4, 3] constant,
):
    for i in 0..3:
        for j in 0..4:
            C[i, j] = A[i, j] * s[] + W[j, i]
    for k in 0..4:
        D[k] = B[k] + B[k]
"""
"""Outputs among the inputs, one number, a weight as it is, and one that is read transposed."""
TRANSPOSED = Packing(
    Buffer("W", (3, 4), FLOAT32, constant=True), (PackedPart(1, 1, 4), PackedPart(0, 1, 3)), (0, 0)
)
Value = NDArray[Any]
_OTHERS = [
    dtype(name).numpy for name in ("float64", "float16", "int32", "uint8", "bool", "bfloat16")
]


class Child(np.ndarray[Any, Any]):
    """A subclass, which is an array like any other."""


class Lying:
    """Says that it is an array."""

    @property
    def __class__(self) -> Any:
        return np.ndarray

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError


class Exporter:
    """Has nothing but DLPack, and dies inside it if it is to."""

    def __init__(self, array: Value, *, fails: bool = False) -> None:
        self._array, self._fails = array, fails

    def __dlpack__(self, **options: Any) -> Any:
        if self._fails:
            raise BufferError("it has died")
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Draw:
    """Draws arguments from a seed; arrays lie in one memory now and then, and so overlap."""

    def __init__(self, signature: Signature, seed: int) -> None:
        self.signature = signature
        self._random = random.Random(seed)
        self._memory = np.zeros(1 << 10, np.uint8)

    def values(self) -> list[object]:
        """Arguments that fit, some of which were made worse or odd."""
        draw = self._random
        params = list(self.signature.params)
        found: list[object] = [self.right(param) for param in params]
        for _ in range(draw.choice((0, 0, 1, 1, 2))):
            number = draw.randrange(len(params))
            found[number] = self._other(params[number])
        if draw.random() < 0.03:
            found = draw.choice((found[:-1], [*found, found[0]], []))
        if len(found) > 1 and draw.random() < 0.1:
            found[draw.randrange(len(found))] = draw.choice(found)
        return found

    def right(self, param: Param) -> Value:
        """An array that fits."""
        if not param.source_shape:
            return np.array(3, param.dtype.numpy)
        numbers = (np.arange(param.elements) % 5).astype(param.dtype.numpy)
        return guarded(numbers.reshape(param.source_shape), at_end=self._random.random() < 0.5)

    def _other(self, param: Param) -> object:
        array, draw = self.right(param), self._random
        kinds = (
            self._reshaped, self._retyped, self._strided, self._within, self._held, self._none,
            self._packed,
        )  # fmt: skip
        return draw.choice(kinds)(param, array)

    def _reshaped(self, param: Param, array: Value) -> object:
        ways = (
            array.reshape(-1), array[None], array.reshape(*array.shape, 1), array.T, array[:0],
            np.zeros(()), np.zeros((0,), array.dtype), np.concatenate([array, array]),
            array.reshape(array.shape[::-1]),
        ) if array.ndim else (array.reshape(1), np.zeros((1, 1), array.dtype))  # fmt: skip
        return self._random.choice(ways)

    def _retyped(self, param: Param, array: Value) -> object:
        if self._random.random() < 0.3:
            return array.astype(array.dtype.newbyteorder())
        if self._random.random() < 0.3:  # equal, but another object
            return array.view(np.dtype(array.dtype, metadata={"unit": "m"}))
        return array.astype(self._random.choice(_OTHERS))

    def _strided(self, param: Param, array: Value) -> object:
        if not array.ndim:
            return np.broadcast_to(array, ())
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        ways = (
            wide[..., ::2], array[::-1], array[..., ::-1], np.asfortranarray(array),
            np.broadcast_to(array[:1], array.shape), np.broadcast_to(array, array.shape),
        )  # fmt: skip
        return self._random.choice(ways)

    def _within(self, param: Param, array: Value) -> object:
        """In the memory that others may lie in, aligned or not."""
        step = self._random.choice((1, 4, 16, 64))
        start = self._random.randrange(0, 512, step)
        view = self._memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        view[...] = array
        return view

    def _held(self, param: Param, array: Value) -> object:
        """Read-only, of a subclass, or memory whose first owner is gone."""
        kind = self._random.randrange(5)
        if kind == 0:
            array.flags.writeable = False
        elif kind == 1:
            return array.view(Child)
        elif kind == 2:
            return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
        elif kind == 3:
            pages = mmap.mmap(-1, 4096)
            return np.frombuffer(pages, array.dtype, array.size).reshape(array.shape)
        else:
            return Exporter(array, fails=self._random.random() < 0.3)
        return array

    def _none(self, param: Param, array: Value) -> object:
        ways: tuple[object, ...] = (
            None, array.tolist(), 3, 2.5, "array", b"bytes", memoryview(bytearray(48)), object(),
            np.ndarray, Lying(), (array,), array.dtype, set[int](), np.float32(3), NotImplemented,
            Exporter,
        )  # fmt: skip
        return self._random.choice(ways)

    def _packed(self, param: Param, array: Value) -> object:
        """A packed weight: of this kernel, of another, or one that was never made."""
        if self._random.random() < 0.2:
            return PackedWeight.__new__(PackedWeight)
        others = [one.packing for one in self.signature.params if one.packing is not None]
        own = param.packing or TRANSPOSED
        packing = self._random.choice((own, own, TRANSPOSED, *others))
        return PackedWeight(packing, packing.apply(np.ones(packing.source.shape, np.float32)))
