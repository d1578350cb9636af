"""PackedWeight: a constant input of a kernel in the order in which the kernel reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ansorc.ir.packing import Packing


@dataclass(frozen=True, eq=False)
class PackedWeight:
    """What `Module.pack` returns, to be passed in the place of the weight at every call."""

    packing: Packing
    array: NDArray[np.generic]
    """What the kernel reads; not to be changed."""

    def __repr__(self) -> str:
        source = self.packing.source
        return f"<{source.name}: {source.dtype}{list(source.shape)}, packed>"
