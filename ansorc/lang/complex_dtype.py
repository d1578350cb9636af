"""The dtypes of complex numbers, which only the language knows: programs have their two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ansorc.ir.dtype import FLOAT32, FLOAT64, DType


@dataclass(frozen=True)
class ComplexType:
    """The dtype of complex numbers whose real and imaginary parts have the dtype `part`."""

    part: DType
    is_float = is_integer = is_bool = is_bfloat = False
    lanes = 1
    kind = None

    @property
    def bits(self) -> int:
        """The bits of both parts."""
        return 2 * self.part.bits

    @property
    def name(self) -> str:
        """The name in NumPy: `complex64` or `complex128`."""
        return f"complex{self.bits}"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type."""
        return np.dtype(self.name)

    def __str__(self) -> str:
        return self.name


COMPLEX64, COMPLEX128 = ComplexType(FLOAT32), ComplexType(FLOAT64)
COMPLEX = {kind.name: kind for kind in (COMPLEX64, COMPLEX128)}


def interleaved_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the parts of complex numbers of `shape`, the last dimension doubled."""
    return (*shape[:-1], 2 * shape[-1])


def paired_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the complex numbers whose parts have `shape`."""
    return (*shape[:-1], shape[-1] // 2)
