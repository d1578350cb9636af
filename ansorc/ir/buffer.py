"""A named piece of memory with a shape: what loads read and stores write."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ansorc.ir.dtype import DType


class Scope(Enum):
    """Where a buffer lives, and so who can see it."""

    GLOBAL = "global"
    """Main memory: parameters, and intermediates seen by all threads."""
    LOCAL = "local"
    """Memory of one thread: the stack if small, else one heap block a thread."""
    REGISTER = "register"
    """One thread's registers: once vectorised and unrolled, every index is a constant."""
    SHARED = "shared"
    """On-chip memory of one GPU thread block."""


@dataclass(frozen=True)
class Buffer:
    """A row-major array `name[shape]` of scalar `dtype`; rank 0 holds one element.

    Names are unique inside one function.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    scope: Scope = Scope.GLOBAL
    constant: bool = False
    """Holds the same values at every call (a weight), so it may be re-laid-out once."""
    promised: tuple[float, float] | None = None
    """The least and the largest value that its elements will have, if that was said."""
    is_sorted: bool = False
    """Whether the elements of each row will not decrease."""

    @property
    def elements(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return self.elements * self.dtype.bytes

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance, in elements, between neighbours along each dimension."""
        result: list[int] = []
        stride = 1
        for extent in reversed(self.shape):
            result.append(stride)
            stride *= extent
        return tuple(reversed(result))
