"""The sizes of dimensions, by the shapes of the arrays of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansorc.errors import ArgumentError
from ansorc.ir.dim import Dim, Size, SizeLike, value_of


@dataclass(frozen=True)
class Shaped:
    """An array of a call: its name, what its extents should be, and what they are."""

    name: str
    extents: Sequence[SizeLike]
    shape: Sequence[int]


def solvable(size: SizeLike) -> Dim | None:
    """Return the dimension that a value of `size` determines, or None."""
    if not isinstance(size, Size) or len(size.terms) != 1:
        return None
    ((product, _),) = size.terms
    only = product[0] if len(product) == 1 else None
    return only if isinstance(only, Dim) else None


def infer_sizes(kernel: str, dims: Iterable[Dim], arrays: Sequence[Shaped]) -> dict[str, int]:
    """Return the size of each of `dims`, by name.

    Raise ArgumentError with what is wrong if the arrays do not fit together, or a size is out of
    the range of its dimension.
    """
    sizes: dict[str, int] = {}
    givers: dict[str, str] = {}
    for array in arrays:
        if len(array.shape) != len(array.extents):
            raise ArgumentError(
                f"'{kernel}' takes '{array.name}' of {len(array.extents)} dimensions "
                f"[{_text(array.extents)}], not of {len(array.shape)}"
            )
        for number, (extent, length) in enumerate(zip(array.extents, array.shape, strict=True)):
            dim = solvable(extent)
            if dim is not None and dim.name not in sizes:
                sizes[dim.name] = _solve(extent, length)
                givers[dim.name] = f"dimension {number} of '{array.name}' is {length}"
    for dim in dims:
        size = sizes[dim.name]
        if not dim.includes(size):
            raise ArgumentError(f"'{kernel}' was built for {dim}, but {givers[dim.name]}")
    for array in arrays:
        _require_shape(kernel, array, sizes)
    return sizes


def _require_shape(kernel: str, array: Shaped, sizes: Mapping[str, int]) -> None:
    """Raise ArgumentError unless an array has the shape that it should have for these sizes."""
    wanted = tuple(value_of(extent, sizes) for extent in array.extents)
    if wanted != tuple(array.shape):
        told = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise ArgumentError(
            f"'{kernel}' takes '{array.name}' of shape [{_text(array.extents)}], that is "
            f"{list(wanted)} for {told}, not {list(array.shape)}"
        )


def _solve(size: SizeLike, value: int) -> int:
    """Return the size of the only dimension of `size` at this value; -1 if there is none."""
    assert isinstance(size, Size)
    (((dim,), factor),) = size.terms
    assert isinstance(dim, Dim)
    count, rest = divmod(value - size.constant, factor)
    return -1 if rest else count * dim.multiple


def _text(extents: Sequence[SizeLike]) -> str:
    return ", ".join(map(str, extents))
