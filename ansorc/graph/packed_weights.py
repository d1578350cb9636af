"""Packed weights that networks of one process share: `PackedWeights`."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TypeAlias

import numpy as np

from ansorc.codegen.network.plan import BoundWeight
from ansorc.codegen.network.weights import Weight, round_up
from ansorc.ir.aligned import ALIGNMENT, Array, aligned_empty
from ansorc.ir.packing import Packing

Content: TypeAlias = tuple[str, int, bytes]
"""The content of a constant: its dtype, the number of its elements and a hash of their bytes."""


class Contents:
    """The contents of constants, each hashed once.

    An array in the memory of `held`, which nobody changes as long as this lives, is known by its
    address. Of other arrays the last ones are remembered.
    """

    def __init__(self, held: Sequence[Array]) -> None:
        self._spans = [(array.ctypes.data, array.nbytes, array) for array in held if array.size]
        self._known: dict[tuple[object, ...], Content] = {}
        self._arrays: list[Array] = []

    def of(self, array: Array) -> Content:
        """Return the content of `array`."""
        key = (array.ctypes.data, array.shape, array.strides, array.dtype.name)
        content = self._known.get(key)
        if content is None:
            dense = np.ascontiguousarray(array)
            digest = hashlib.sha256(dense.reshape(-1).view(np.uint8).data).digest()
            content = self._known[key] = (array.dtype.name, array.size, digest)
            if not self.holds(array):
                self._arrays.append(array)  # so that no other takes its place
        return content

    def holds(self, array: Array) -> bool:
        """Return whether `array` lies in memory that is held."""
        first = array.ctypes.data
        return any(begin <= first < begin + size for begin, size, _ in self._spans)

    def forget_others(self) -> None:
        """Forget the contents of arrays that lie in no memory that is held."""
        gone = {array.ctypes.data for array in self._arrays}
        self._known = {key: content for key, content in self._known.items() if key[0] not in gone}
        self._arrays.clear()


class PackedWeights:
    """Weights as kernels read them, each content once in each layout, as long as one reads it."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[object, BoundWeight] = (
            weakref.WeakValueDictionary()
        )
        self._lock = Lock()

    def bind(self, weights: Sequence[Weight], contents: Contents) -> list[BoundWeight]:
        """Return memory for each weight: its own if it is held and read as it lies.

        Others are packed now unless they are known. New ones lie one after the other, in pages as
        large as the system has.
        """
        with self._lock:
            memories: dict[int, BoundWeight] = {}
            keys: dict[object, list[int]] = {}
            for number, weight in enumerate(weights):
                if _is_readable(weight) and contents.holds(weight.source):
                    memories[number] = BoundWeight(weight.source.reshape(-1).view(np.uint8))
                    continue
                key = contents.of(weight.source), _form(weight.packing)
                known = self._known.get(key)
                if known is None:
                    keys.setdefault(key, []).append(number)
                else:
                    memories[number] = known
            self._pack(weights, keys, memories)
            return [memories[number] for number in range(len(weights))]

    def _pack(
        self,
        weights: Sequence[Weight],
        keys: Mapping[object, Sequence[int]],
        memories: dict[int, BoundWeight],
    ) -> None:
        """Pack one weight of each of `keys`, and note its memory in `memories` for all of them."""
        memory = aligned_empty(sum(round_up(weights[n[0]].nbytes) for n in keys.values()), np.uint8)
        start = 0
        for key, numbers in keys.items():
            weight = weights[numbers[0]]
            made = BoundWeight(memory[start : start + weight.nbytes])
            weight.write(made.array)
            self._known[key] = made
            memories |= dict.fromkeys(numbers, made)
            start += round_up(weight.nbytes)


def _is_readable(weight: Weight) -> bool:
    """Return whether a kernel can read the source where it is."""
    source = weight.source
    is_dense = source.flags.c_contiguous and not source.ctypes.data % ALIGNMENT
    return is_dense and _form(weight.packing) is None


def _form(packing: Packing | None) -> Packing | None:
    return None if packing is None or packing.is_plain else packing.merged
