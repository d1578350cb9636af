"""Operators that read elements at indices that another tensor holds."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.lang.checks import index_in_range
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
"""The treatment of indices outside of the tensor; nothing is ever read there."""


def take(
    data: Tensor, indices: Tensor, axis: int = 0, mode: str = "raise", name: str = _TAKE
) -> Tensor:
    """Return the slices of `data` at `indices` along `axis`, as numpy.take does.

    The shape of `indices` replaces the extent of `axis`. `mode` is one of MODES. Raise
    LanguageError on an unknown axis or mode, and on indices that are not integers.
    """
    dimension, rank = axis_number("take", data, axis), len(indices.shape)
    _check("take", data, indices, mode)
    shape = (*data.shape[:dimension], *indices.shape, *data.shape[dimension + 1 :])

    def body(*i: Scalar) -> Scalar:
        where = _inside(indices[i[dimension : dimension + rank]], data, dimension, mode)
        return data[(*i[:dimension], where, *i[dimension + rank :])]

    return compute(shape, body, name)


def gather(
    data: Tensor, indices: Tensor, axis: int = 0, mode: str = "raise", name: str = _GATHER
) -> Tensor:
    """Return data[…, indices[i], …] for each element of `indices`, as numpy.take_along_axis does.

    `indices` has the rank of `data`; along dimensions other than `axis` it has at most its extents.
    Raise LanguageError on other shapes.
    """
    dimension = axis_number("gather", data, axis)
    require_rank("gather", len(data.shape), indices)
    _check("gather", data, indices, mode)
    pairs = zip(indices.shape, data.shape, strict=True)
    fits = all(mine <= theirs or d == dimension for d, (mine, theirs) in enumerate(pairs))
    need = f"indices must not be longer, but along axis {axis}"
    require(fits, "gather", data, indices, need=need)

    def body(*i: Scalar) -> Scalar:
        where = _inside(indices[i], data, dimension, mode)
        return data[(*i[:dimension], where, *i[dimension + 1 :])]

    return compute(indices.shape, body, name)


def embedding(table: Tensor, indices: Tensor, name: str = _EMBEDDING) -> Tensor:
    """Return the rows of table [words, units] at `indices` [...]: [..., units].

    A call fails for indices outside of the table. Raise LanguageError on another rank.
    """
    require_rank("embedding", 2, table)
    return take(table, indices, 0, "raise", name)


def one_hot(
    indices: Tensor, depth: int, axis: int = -1, dtype: DTypeLike = "float32", name: str = _ONE_HOT
) -> Tensor:
    """Return 1 where the position along the new dimension `axis` is the index, 0 elsewhere.

    The shape is that of `indices` with a new dimension of extent `depth`. An index outside of
    0 … depth - 1 gives only zeros. Raise LanguageError if the indices are not integers.
    """
    rank = len(indices.shape) + 1
    require(-rank <= axis < rank, "one_hot", indices, need=f"there is no axis {axis}")
    require(indices.dtype.is_integer, "one_hot", indices, need="the indices must be integers")
    require(depth >= 1, "one_hot", indices, need=f"depth is {depth}; it must be 1 or more")
    dimension = axis % rank

    def body(*i: Scalar) -> Scalar:
        index = indices[(*i[:dimension], *i[dimension + 1 :])].astype(INT64)
        is_here = index == i[dimension]
        return if_then_else(is_here, const(1, dtype), const(0, dtype))

    return compute((*indices.shape[:dimension], depth, *indices.shape[dimension:]), body, name)


def _check(operator: str, data: Tensor, indices: Tensor, mode: str) -> None:
    need = f"the indices are {indices.dtype}; they must be integers"
    require(indices.dtype.is_integer, operator, data, indices, need=need)
    if mode not in MODES:
        known = "; ".join(f"'{name}': {meaning}" for name, meaning in MODES.items())
        raise LanguageError(f"{operator} has no mode '{mode}'; use {known}")


def _inside(index: Scalar, data: Tensor, axis: int, mode: str) -> Scalar:
    extent, from_end = data.shape[axis], mode == "from_end"
    position = index.astype(INT64)
    if mode in ("raise", "from_end"):
        position = index_in_range(position, extent, data.name, axis, from_end=from_end)
    if mode in ("from_end", "wrap"):
        return position % extent
    return minimum(maximum(position, 0), extent - 1)
