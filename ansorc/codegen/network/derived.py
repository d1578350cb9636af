"""Weights that are larger as a kernel reads them: made of the stored ones when code is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from ansorc.codegen.network.weights import round_up
from ansorc.codegen.program.compiled import Compiled
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.packing import Packing


@dataclass(frozen=True, eq=False)
class DerivedWeight:
    """One of them: packed by a kernel that is run once."""

    packing: Packing
    packer: Compiled
    """The program of `packing`: it reads its source and writes the result."""
    source: int
    """Where the source begins in the stored weights, in bytes."""


class DerivedBlock:
    """Weights that are made one after the other, each at a multiple of 64 bytes."""

    def __init__(self, weights: Sequence[DerivedWeight] = ()) -> None:
        self.weights: dict[int, DerivedWeight] = {}
        """By where they begin, in bytes."""
        self.nbytes = 0
        for weight in weights:
            self.weights[self.nbytes] = weight
            self.nbytes += round_up(weight.packing.packed.bytes)
        self._memory: Array | None = None
        self._is_made = False
        self._lock = Lock()

    @property
    def packers(self) -> tuple[Compiled, ...]:
        """The programs that pack, each once."""
        return tuple(
            {id(weight.packer): weight.packer for weight in self.weights.values()}.values()
        )

    def memory(self) -> Array:
        """Return memory for all (uint8), always the same; `make` fills it."""
        with self._lock:
            if self._memory is None:
                self._memory = aligned_empty(self.nbytes, np.uint8)
            return self._memory

    def make(self, pack: Callable[[], object]) -> None:
        """Call `pack`, which fills the memory, unless that is done."""
        with self._lock:
            if not self._is_made:
                pack()
                self._is_made = True
