"""Whether tensors that became constants still have the values that they had: `WatchedTensors`."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from ansorc.ir.aligned import Array

LEAST_SAMPLES, MOST_SAMPLES, ELEMENTS_A_SAMPLE = 16, 1024, 4096
"""Elements of a tensor that are looked at in each call: one in so many, within these bounds. The
cache lines of the samples are less than 1 % of what a product with the tensor reads."""
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_MOST_BYTES = 1 << 62
_LIFE = "_ansorc_life"
Places = npt.NDArray[np.int64]


class _Life:
    """A mark that lives as long as the tensor that has it as an attribute, and is not copied.

    A weak reference to the tensor itself would have `torch.utils.swap_tensors` refuse it, which
    moving a module to another dtype and `load_state_dict` may use.
    """

    def __reduce__(self) -> tuple[type[bool], tuple[()]]:
        return bool, ()  # a saved module has False in its place, and can be read without ansorc

    def __deepcopy__(self, memo: object) -> bool:
        return False


def _life_of(tensor: Any) -> _Life:
    life = getattr(tensor, _LIFE, None)
    if not isinstance(life, _Life):
        life = _Life()
        setattr(tensor, _LIFE, life)
    return life


def forget_examples(module: Any) -> None:
    """Drop the tensors without memory that Dynamo made of a graph's arguments; all are traced.

    What made them holds weak references to the arguments (see `_Life`) until it is collected.
    """
    for part in module.modules():
        for node in getattr(getattr(part, "graph", None), "nodes", ()):
            example = node.meta.pop("example_value", None)
            for name in ("fake_mode", "fake_tensor_converter", "meta_converter", "describer"):
                example = getattr(example, name, None)
            known = getattr(example, "lookup_tensor", None)
            if known is not None:
                known.clear()


class WatchedTensors:
    """Tensors of PyTorch, by identity; they are not kept alive, though their memory is.

    A change is seen by the tensor's version, which operators count; by the address of its elements,
    which `tensor.data = …` changes; and by samples of the elements, for what is written behind
    PyTorch's back, through `tensor.data` or `tensor.numpy()`.
    """

    def __init__(self, tensors: Sequence[Any], on_death: Callable[[], None]) -> None:
        self._references = [
            weakref.ref(_life_of(tensor), lambda _: on_death()) for tensor in tensors
        ]
        self._versions = [tensor._version for tensor in tensors]
        self._addresses = [tensor.data_ptr() for tensor in tensors]
        self._memory = [tensor.detach() for tensor in tensors]
        self._samples = _samples(self._memory)
        self._values = [samples.values() for samples in self._samples]

    def are_unchanged(self, tensors: Sequence[Any]) -> bool:
        """Return whether `tensors`, which must be these, have the values that they had."""
        return (
            [tensor._version for tensor in tensors] == self._versions
            and [tensor.data_ptr() for tensor in tensors] == self._addresses
            and all(
                samples.values() == was
                for samples, was in zip(self._samples, self._values, strict=True)
            )
        )

    def find_changed(self, tensors: Sequence[Any]) -> list[int]:
        """Return the positions of the tensors that have changed; all if only samples tell it."""
        changed = [
            number
            for number, tensor in enumerate(tensors)
            if tensor._version != self._versions[number]
            or tensor.data_ptr() != self._addresses[number]
        ]
        return changed or list(range(len(tensors)))


class _Samples:
    """Some elements of several tensors with elements of one size, read at once.

    They are indexed in one array over all memory from the first one on, which costs a call for all
    tensors and not one for each.
    """

    def __init__(self, addresses: Places, word: npt.DTypeLike) -> None:
        first, size = int(addresses.min()), np.dtype(word).itemsize
        here = (ctypes.c_uint8 * size).from_address(first)
        memory: Array = np.ctypeslib.as_array(here).view(word)
        self._all = as_strided(memory, (_MOST_BYTES // size,), (size,), writeable=False)
        self._places = (addresses - first) // size

    def values(self) -> bytes:
        """Return the elements as they are now."""
        return self._all[self._places].tobytes()


def _samples(tensors: Sequence[Any]) -> list[_Samples]:
    by_size: dict[int, list[Places]] = {}
    for tensor in tensors:
        if tensor.numel():
            size = int(tensor.element_size())
            word = size if size in _WORDS and not tensor.data_ptr() % size else 1
            at = _sample_addresses(tensor)
            if word != size:
                at = (at[:, None] + np.arange(size)).ravel()
            by_size.setdefault(word, []).append(at)
    return [_Samples(np.concatenate(places), _WORDS[size]) for size, places in by_size.items()]


def _sample_addresses(tensor: Any) -> Places:
    """Return the addresses of some elements: all of a small tensor, else a fixed random choice."""
    count = int(tensor.numel())
    chosen = min(max(count // ELEMENTS_A_SAMPLE, LEAST_SAMPLES), MOST_SAMPLES)
    if count <= 4 * LEAST_SAMPLES:
        numbers = np.arange(count)
    else:
        numbers = np.sort(np.random.default_rng(count).integers(count, size=chosen))
    at = np.full(len(numbers), tensor.data_ptr(), np.int64)
    if not tensor.dim():
        return at
    strides = [int(step) * int(tensor.element_size()) for step in tensor.stride()]
    for places, step in zip(np.unravel_index(numbers, tuple(tensor.shape)), strides, strict=True):
        at += places * step
    return at
