"""The constants of a network as its kernels read them: packed when they are written or loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

import numpy as np

from ansorc.ir.aligned import ALIGNMENT, Array, aligned_empty
from ansorc.ir.packing import Packing


@dataclass(frozen=True, eq=False)
class Weight:
    """A constant, and how a kernel reads it."""

    source: Array
    """Before it is packed: the elements of `packing.source`, of any strides, and maybe reshaped."""
    packing: Packing | None = None

    @property
    def nbytes(self) -> int:
        """The bytes that a kernel reads."""
        return self.source.nbytes if self.packing is None else self.packing.packed.bytes

    def write(self, memory: Array) -> None:
        """Write what a kernel reads to `memory`: dense bytes (uint8), `nbytes` of them."""
        target = memory.view(self.source.dtype)
        if self.packing is None:
            target.reshape(self.source.shape)[...] = self.source
        else:
            dense = np.ascontiguousarray(self.source).reshape(self.packing.source.shape)
            self.packing.fill(target.reshape(self.packing.packed.shape), dense)


Chunk: TypeAlias = memoryview | bytes


class WeightBlock:
    """Constants one after the other, each at a multiple of 64 bytes.

    They are held as they came, and packed one at a time whenever they are asked for, so that the
    block need not be in memory. Once it is, those that it was made of are let go.
    """

    def __init__(self, weights: Sequence[Weight] = ()) -> None:
        self._weights: dict[int, Weight] = {}
        end = 0
        for weight in weights:
            self._weights[end] = weight
            end += round_up(weight.nbytes)
        self.nbytes = end
        self._memory: Array | None = None
        self._lock = Lock()

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each begins, in bytes."""
        return tuple(self._weights)

    def at(self, offset: int) -> Weight:
        """Return the weight that begins at `offset`."""
        return self._weights[offset]

    def chunks(self) -> Iterator[Chunk]:
        """Yield the bytes of all weights in their order, a part at a time."""
        for weight in list(self._weights.values()):
            memory = aligned_empty(weight.nbytes, np.uint8)
            weight.write(memory)
            yield memory.data
            yield bytes(round_up(weight.nbytes) - weight.nbytes)

    def array(self) -> Array:
        """Return all bytes (uint8), at a multiple of 64; always the same array."""
        with self._lock:
            if self._memory is None:
                memory = aligned_empty(self.nbytes, np.uint8)
                for offset, weight in self._weights.items():
                    end = offset + weight.nbytes
                    weight.write(memory[offset:end])
                    memory[end : offset + round_up(weight.nbytes)] = 0
                    self._weights[offset] = Weight(memory[offset:end])
                self._memory = memory
            return self._memory


def join_weights(weights: Sequence[Weight | Array]) -> tuple[WeightBlock, tuple[int, ...]]:
    """Return the block of `weights`, and the offset of each.

    One that is in the list twice, the same object, has one place.
    """
    known = {id(weight): weight for weight in weights}
    block = WeightBlock(
        [weight if isinstance(weight, Weight) else Weight(weight) for weight in known.values()]
    )
    places = dict(zip(known, block.offsets, strict=True))
    return block, tuple(places[id(weight)] for weight in weights)


def round_up(size: int) -> int:
    """Return the next multiple of 64."""
    return -(-size // ALIGNMENT) * ALIGNMENT
