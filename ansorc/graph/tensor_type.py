"""The type of a tensor of a graph: element type and shape, known before its values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ansorc.ir.aligned import Array
from ansorc.ir.dtype import BOOL, DType, dtype
from ansorc.lang.tensor import Tensor


@dataclass(frozen=True)
class TensorType:
    """A dense, row-major tensor of known extents; a scalar has the shape ()."""

    dtype: DType
    shape: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor) -> TensorType:
        """Return the type of a tensor of the DSL."""
        return TensorType(tensor.dtype, tensor.shape)

    @staticmethod
    def of_array(array: Array) -> TensorType:
        """Return the type of a NumPy array; raise LanguageError if ansorc has no such elements."""
        name = "bool" if array.dtype == BOOL.numpy else array.dtype.name
        return TensorType(dtype(name), array.shape)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes in memory, without any padding."""
        return self.elements * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"
