"""The constants of a task as kernels want them packed: made once for all that want the same."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from ansorc.ir.packing import Packing
from ansorc.search.measure.guarded import GuardedArray

_KEPT_BYTES = 256 << 20


class PackedConstants:
    """Frozen guarded copies by their packing; the latest used are kept.

    Packing takes as long as many calls of a kernel, and good programs of one task often agree in
    the tile that it follows.
    """

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._known: OrderedDict[Packing, GuardedArray] = OrderedDict()

    def get(self, packing: Packing, source: NDArray[np.generic]) -> GuardedArray:
        """Return the copy of `source` that `packing` describes."""
        copy = self._known.get(packing)
        if copy is None:
            copy = GuardedArray(packing.packed.shape, source.dtype)
            packing.fill(copy.array, source)
            copy.freeze()
            self._known[packing] = copy
        self._known.move_to_end(packing)
        while self.nbytes > self._kept_bytes and len(self._known) > 1:
            self._known.popitem(last=False)
        return copy

    @property
    def nbytes(self) -> int:
        """The size of what is kept."""
        return sum(copy.nbytes for copy in self._known.values())
