"""A named piece of memory with a shape, for loads and stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import prod

from ansorc.ir.dim import Size, SizeLike, least_of
from ansorc.ir.dtype import DType


class Scope(Enum):
    """The memory of a buffer, and so the threads that can access it."""

    GLOBAL = "global"
    """Main memory: parameters, and intermediates seen by all threads."""
    LOCAL = "local"
    """Memory of one thread: the stack if small, else one heap block a thread."""
    REGISTER = "register"
    """One thread's registers: once vectorised and unrolled, every index is a constant."""
    SHARED = "shared"
    """On-chip memory of one GPU thread block."""


def extents_of(shape: tuple[int, ...], sizes: tuple[Size | None, ...]) -> tuple[SizeLike, ...]:
    """Return the extents: the sizes where there are some, else the numbers of `shape`."""
    if not sizes:
        return shape
    return tuple(n if size is None else size for n, size in zip(shape, sizes, strict=True))


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
    """Has the same values at every call (a weight), so its layout may be changed once."""
    promised: tuple[float, float] | None = None
    """The promised least and largest value of its elements, or None."""
    is_sorted: bool = False
    """Whether the elements of each row are promised not to decrease."""
    is_updated: bool = field(default=False, repr=False)
    """Whether the kernel overwrites an input by its new value; not shown in keys of programs."""
    is_complex: bool = field(default=False, repr=False)
    """Whether each two neighbours along the last dimension are the real and the imaginary part of a
    number of the caller's. The language sees to their arithmetic."""
    sizes: tuple[Size | None, ...] = field(default=(), repr=False)
    """The extents that the caller gives, None for the others; `shape` holds the most that they may
    be. Empty if all extents are known. After `join_dimensions` only the first is one."""

    @property
    def extents(self) -> tuple[SizeLike, ...]:
        """The extents: numbers, and sizes that follow from dimensions."""
        return extents_of(self.shape, self.sizes)

    @property
    def elements(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def least_elements(self) -> int:
        """The least number of elements that it may have; `elements` is the most."""
        return prod(map(least_of, self.extents)) if self.sizes else self.elements

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
