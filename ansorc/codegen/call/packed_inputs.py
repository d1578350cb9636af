"""Plain arrays in the place of weights: packed once, if read-only, else with a warning."""

from __future__ import annotations

import time
import weakref
from typing import cast

import numpy as np

from ansorc.codegen.package.signature import Param, Signature
from ansorc.ir.aligned import Array
from ansorc.ir.complex_view import is_complex_array, view_parts
from ansorc.ir.packing import PackedWeight
from ansorc.target.units import seconds_text


class PackedInputs:
    """The packed copies of arrays that a kernel was called with in the place of its weights.

    Of each weight the last array is remembered if it was read-only, weakly. What is done to it
    between calls, while it may be written, is not seen.
    """

    def __init__(self, signature: Signature) -> None:
        self._name = signature.name
        self._known: dict[int, tuple[weakref.ref[Array], PackedWeight]] = {}
        self._numbers = set[int]()
        """The numbers of the weights that were packed."""
        self._has_warned = False
        self._warning = ""

    def replace(self, values: tuple[object, ...]) -> tuple[object, ...] | None:
        """Return `values` with what is packed already; None if that is none of them."""
        replaced: list[object] | None = None
        for number, (reference, weight) in list(self._known.items()):
            array = reference()
            if array is None:
                self._known.pop(number, None)
            elif number < len(values) and values[number] is array and _fits(array, weight):
                replaced = replaced or list(values)
                replaced[number] = weight
        return None if replaced is None else tuple(replaced)

    def pack(self, number: int, param: Param, value: object, array: Array) -> Array:
        """Return a packed copy of `array`, a view of `value`, which was checked."""
        packing, begin = param.packing, time.perf_counter()
        if packing is None:
            return array
        result = packing.apply(array)
        seconds = time.perf_counter() - begin
        will_last = isinstance(value, np.ndarray) and _is_frozen(cast(Array, value))
        if will_last:
            self._known[number] = weakref.ref(cast(Array, value)), PackedWeight(packing, result)
        if not self._has_warned and (not will_last or number in self._numbers):
            self._has_warned = True
            self._warning = self._words(number, param, array.nbytes, seconds)
        self._numbers.add(number)
        return result

    def _words(self, number: int, param: Param, size: int, seconds: float) -> str:
        name = param.name
        keyword = f"{name}=…" if name.isidentifier() else f"**{{'{name}': …}}"
        return (
            f"{self._name}: argument {number + 1} '{name}' is a constant input that each call "
            f"packs again ({size / 1e6:.3g} MB, {seconds_text(seconds, 3)} this time); "
            f"bind({keyword}) once, or pass what pack('{name}', …) returned, or always the same "
            "read-only array"
        )

    def warning(self) -> str:
        """Return what is to be said of the last call; empty, mostly."""
        text, self._warning = self._warning, ""
        return text


def _is_frozen(array: Array) -> bool:
    """Whether no array in sight may write to the memory of `array`."""
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return True


def _fits(array: Array, weight: PackedWeight) -> bool:
    """Whether `array` is still as it was when it was packed; attributes of arrays can be set."""
    source, flags = weight.packing.source, array.flags
    if not flags.c_contiguous or flags.writeable:
        return False
    parts = view_parts(array) if is_complex_array(array) and array.ndim else array
    return parts.shape == source.shape and parts.dtype == source.dtype.numpy
