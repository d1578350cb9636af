"""Operators that read elements at places that another tensor holds."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.lang.checks import place_in
from ansorc.lang.define import compute
from ansorc.lang.literal import DTypeLike
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import axis_number, require, require_rank
from ansorc.lang.scalar import const, if_then_else, maximum, minimum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

_TAKE, _GATHER, _ONE_HOT = AutoName("take"), AutoName("gather"), AutoName("one_hot")
_EMBEDDING = AutoName("embedding")

MODES = {
    "raise": "the call fails unless places are 0 to extent - 1",
    "from_end": "-1 is the last place and -extent the first; the call fails for others outside",
    "clip": "places beyond the ends are moved to the ends",
    "wrap": "places are taken modulo the extent, so that -1 is the last",
}
"""What becomes of places outside of the tensor: none is ever read there."""


def take(
    data: Tensor, indices: Tensor, axis: int = 0, mode: str = "raise", name: str = _TAKE
) -> Tensor:
    """Return the slices of `data` at the places `indices` along `axis`, as numpy.take does.

    The shape of `indices` stands where `axis` was. `mode` is one of MODES. Raise LanguageError
    where there is no such axis or mode, or the indices are no integers.
    """
    place, rank = axis_number("take", data, axis), len(indices.shape)
    _check("take", data, indices, mode)
    shape = (*data.shape[:place], *indices.shape, *data.shape[place + 1 :])

    def body(*i: Scalar) -> Scalar:
        where = _inside(indices[i[place : place + rank]], data, place, mode)
        return data[(*i[:place], where, *i[place + rank :])]

    return compute(shape, body, name)


def gather(
    data: Tensor, indices: Tensor, axis: int = 0, mode: str = "raise", name: str = _GATHER
) -> Tensor:
    """Return data[…, indices[i], …] for each element of `indices`, as numpy.take_along_axis does.

    `indices` has the rank of `data` and at most its extents but along `axis`. Raise LanguageError
    on other shapes.
    """
    place = axis_number("gather", data, axis)
    require_rank("gather", len(data.shape), indices)
    _check("gather", data, indices, mode)
    pairs = zip(indices.shape, data.shape, strict=True)
    fits = all(mine <= theirs or d == place for d, (mine, theirs) in enumerate(pairs))
    need = f"indices must not be longer, but along axis {axis}"
    require(fits, "gather", data, indices, need=need)

    def body(*i: Scalar) -> Scalar:
        where = _inside(indices[i], data, place, mode)
        return data[(*i[:place], where, *i[place + 1 :])]

    return compute(indices.shape, body, name)


def embedding(table: Tensor, indices: Tensor, name: str = _EMBEDDING) -> Tensor:
    """Return the rows of table [words, units] at `indices` [...]: [..., units].

    A call fails for places outside of the table. Raise LanguageError on another rank.
    """
    require_rank("embedding", 2, table)
    return take(table, indices, 0, "raise", name)


def one_hot(
    indices: Tensor, depth: int, axis: int = -1, dtype: DTypeLike = "float32", name: str = _ONE_HOT
) -> Tensor:
    """Return 1 where the place along the new dimension `axis` of extent `depth` is the index.

    The shape is else that of the indices. Elsewhere 0; an index outside of 0 … depth - 1 gives
    zeros alone. Raise LanguageError where the indices are no integers.
    """
    rank = len(indices.shape) + 1
    require(-rank <= axis < rank, "one_hot", indices, need=f"there is no axis {axis}")
    require(indices.dtype.is_integer, "one_hot", indices, need="the indices must be integers")
    require(depth >= 1, "one_hot", indices, need=f"depth is {depth}; it must be 1 or more")
    place = axis % rank

    def body(*i: Scalar) -> Scalar:
        index = indices[(*i[:place], *i[place + 1 :])].astype(INT64)
        is_here = index == i[place]
        return if_then_else(is_here, const(1, dtype), const(0, dtype))

    return compute((*indices.shape[:place], depth, *indices.shape[place:]), body, name)


def _check(operator: str, data: Tensor, indices: Tensor, mode: str) -> None:
    need = f"the indices are {indices.dtype}; they must be integers"
    require(indices.dtype.is_integer, operator, data, indices, need=need)
    if mode not in MODES:
        known = "; ".join(f"'{name}': {meaning}" for name, meaning in MODES.items())
        raise LanguageError(f"{operator} has no mode '{mode}'; use {known}")


def _inside(index: Scalar, data: Tensor, axis: int, mode: str) -> Scalar:
    extent, from_end = data.shape[axis], mode == "from_end"
    place = index.astype(INT64)
    if mode in ("raise", "from_end"):
        place = place_in(place, extent, data.name, axis, from_end=from_end)
    if mode in ("from_end", "wrap"):
        return place % extent
    return minimum(maximum(place, 0), extent - 1)
