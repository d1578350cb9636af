"""Operators that sort elements, by the order of `ansorc/lang/total_order.py`.

A few elements are ranked, many are sorted in blocks whose runs are merged; a few of many are looked
for in those blocks whose first elements are among the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

from ansorc.ir.dtype import BOOL, INT32, INT64, UINT8, DType
from ansorc.lang import reduction
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.merging import (
    first_of_runs,
    last,
    merge_runs,
    rank_elements,
    sort_blocks,
)
from ansorc.lang.operators.shapes import axis_number, require
from ansorc.lang.reduction import Reduction, TupleReduction, reduce_axis
from ansorc.lang.scalar import cast, if_then_else, maximum, minimum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor
from ansorc.lang.total_order import comes_before

_SORT, _ARGSORT, _TOP_K = AutoName("sort"), AutoName("argsort"), AutoName("top_k")
_CHUNK = 16
"""Elements that a merge writes together: it searches for their start, then counts for each."""
_LEAST_BLOCK, _BLOCK_STEP = 33, 8
"""A block to sort has _LEAST_BLOCK to twice as many elements, a multiple of the step."""
_BLOCKS = (8, 16, 32, 64)
"""The sizes of blocks of which only the first element is compared, to find a few of many."""
_COMPARED, _CHOSEN, _MERGED, _SEEN, _MOVED = 0.25, 0.15, 12.0, 0.3, 2.0
"""Nanoseconds (Zen 3, one core) to rank a pair, to find the position of a rank, to merge an element
once, to look at one, and to move one."""

T = TypeVar("T")


class Apply(Protocol[T]):
    """Applies a definition of `SORTING`, by name, to tensors of the DSL or of a graph."""

    def __call__(self, name: str, inputs: Sequence[T], **attributes: object) -> Sequence[T]:
        """Return the outputs."""
        ...

    def lengths(self, value: int) -> T:
        """Return `value` and its double as a tensor of int32."""
        ...


def sort(data: Tensor, axis: int = -1, name: str = _SORT, *, descending: bool = False) -> Tensor:
    """Return `data` sorted along `axis`: ascending with NaN last, or descending with NaN first.

    Equal elements keep their order. Raise LanguageError on an unknown axis.
    """
    dimension = axis_number("sort", data, axis)
    return _rename(_first_of(data, data.shape[dimension], dimension, largest=descending)[0], name)


def argsort(
    data: Tensor, axis: int = -1, name: str = _ARGSORT, *, descending: bool = False
) -> Tensor:
    """Return the indices into `data` of the elements of `sort(data)` along `axis`, as int64.

    Equal elements keep their order, descending too.
    """
    dimension = axis_number("argsort", data, axis)
    return _rename(_first_of(data, data.shape[dimension], dimension, largest=descending)[1], name)


def top_k(
    data: Tensor, k: int, axis: int = -1, name: str = _TOP_K, *, largest: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the `k` largest elements along `axis`, the largest first, and their indices (int64).

    NaN is the largest of all numbers. With `largest=False`, return the smallest elements. Equal
    elements keep their order. Raise LanguageError if `k` exceeds the extent.
    """
    dimension = axis_number("top_k", data, axis)
    extent = data.shape[dimension]
    require(1 <= k <= extent, "top_k", data, need=f"k is {k}, but axis {axis} has {extent}")
    values, places = _first_of(data, k, dimension, largest=largest)
    return _rename(values, name), _rename(places, stage_name(name, "places"))


def _rename(tensor: Tensor, name: str) -> Tensor:
    return compute(tensor.shape, lambda *i: tensor[i], name)


def _first_of(data: Tensor, k: int, axis: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    """Return the first `k` elements in sorted order along `axis`, and their indices."""
    extent = data.shape[axis]
    if not data.dtype.is_bool:
        return first_in_order(_Stages(), data, extent, k, axis=axis, largest=largest)
    (numbers,) = _Stages()("numbers_of_bools", [data])
    values, places = first_in_order(_Stages(), numbers, extent, k, axis=axis, largest=largest)
    return _Stages()("bools_of_numbers", [values])[0], places


def first_in_order(
    apply: Apply[T], data: T, extent: int, k: int, *, axis: int, largest: bool
) -> tuple[T, T]:
    """Return the first `k` of `extent` numbers in order along `axis`, and their indices (int64).

    The order is descending if `largest`. `apply` applies the definitions that do the work.
    """
    way = _way(extent, k)
    order = {"axis": axis, "largest": largest}
    if way.block == 0:
        return _pair(apply("rank_places", [data], k=k, **order))
    if not way.is_selected:
        return _merge(apply, data, way.block, way.count, k, axis=axis, largest=largest)
    (best,) = apply("first_of_blocks", [data], block=way.block, **order)
    _, which = first_in_order(apply, best, way.count, k, axis=axis, largest=largest)
    blocks, _ = first_in_order(apply, which, k, k, axis=axis, largest=False)
    (near,) = apply("elements_of_blocks", [data, blocks], block=way.block, **order)
    values, places = first_in_order(apply, near, k * way.block, k, axis=axis, largest=largest)
    (positions,) = apply("places_of_blocks", [blocks, places], axis=axis, block=way.block)
    return values, positions


@dataclass(frozen=True)
class _Way:
    """A way to find the first elements, and its time (ns). Block size 0: rank all elements."""

    time: float
    block: int = 0
    count: int = 0
    """The number of blocks."""
    is_selected: bool = False
    """Whether only some of the blocks are searched."""


@lru_cache(maxsize=1024)
def _way(extent: int, k: int) -> _Way:
    """Return the fastest way to find the first `k` of `extent` elements in order."""
    ways = [_Way(extent * (extent * _COMPARED + k * _CHOSEN))]
    passes = max(0, (extent - 1) // (2 * _LEAST_BLOCK)).bit_length()
    if passes:
        block = -(-extent // (_BLOCK_STEP << passes)) * _BLOCK_STEP
        each = block * (_COMPARED + _CHOSEN) + passes * _MERGED
        ways.append(_Way(extent * each, block, 1 << passes))
    for block in _BLOCKS:
        count = -(-extent // block)
        if k < count and 2 * k * block < extent:
            parts = (_way(count, k), _way(k, k), _way(k * block, k))
            time = extent * _SEEN + k * block * _MOVED + sum(part.time for part in parts)
            ways.append(_Way(time, block, count, is_selected=True))
    return min(ways, key=lambda way: way.time)


def is_merged(extent: int, k: int) -> bool:
    """Return whether runs are merged to find the first `k` of `extent` elements in order."""
    way = _way(extent, k)
    if way.is_selected:
        return any(is_merged(*each) for each in ((way.count, k), (k, k), (k * way.block, k)))
    return way.block > 0


def _merge(
    apply: Apply[T], data: T, block: int, blocks: int, k: int, *, axis: int, largest: bool
) -> tuple[T, T]:
    """Return the first `k` of all elements, sorted in blocks and merged in passes."""
    order = {"axis": axis, "largest": largest, "chunk": _CHUNK}
    runs = apply("sort_blocks", [data], block=block, blocks=blocks, **order)
    length = block
    while length < block * blocks:
        runs = apply("merge_runs", [*runs, apply.lengths(length)], **order)
        length *= 2
    return _pair(apply("first_of_runs", runs, axis=axis, k=k))


def _pair(pair: Sequence[T]) -> tuple[T, T]:
    values, places = pair
    return values, places


def rank_places(data: Tensor, axis: int, k: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    """Return the first `k` elements along `axis` by their ranks, and their indices (int64)."""
    name = AutoName("ranked")
    values, places = rank_elements(data, axis, k, largest=largest, name=name)
    return values, compute(values.shape, lambda *i: cast(places[i], INT64), stage_name(name, "i"))


def first_of_blocks(data: Tensor, axis: int, block: int, *, largest: bool) -> Tensor:
    """Return the element of each block of `block` along `axis` that comes first in order."""
    extent, k = data.shape[axis], reduce_axis(block, "k")
    behind = last(data, largest=largest)

    def element(*i: Scalar) -> Scalar:
        number = i[axis] * block + k
        element_ = data[(*i[:axis], minimum(number, extent - 1), *i[axis + 1 :])]
        return if_then_else(number < extent, element_, behind) if extent % block else element_

    def body(*i: Scalar) -> Reduction | TupleReduction:
        if largest:  # in the order of descending numbers NaN comes first, as in a maximum
            return reduction.max(element(*i), axis=k)
        if not data.dtype.is_float:
            return reduction.min(element(*i), axis=k)
        first = reduction.reducer(_first, (behind,), "first")
        return first(element(*i), axis=k)

    shape = (*data.shape[:axis], -(-extent // block), *data.shape[axis + 1 :])
    return compute(shape, body, AutoName("first_of_blocks"))


def _first(a: tuple[Scalar, ...], b: tuple[Scalar, ...]) -> tuple[Scalar]:
    return (if_then_else(comes_before(b[0], a[0]), b[0], a[0]),)


def elements_of_blocks(
    data: Tensor, blocks: Tensor, axis: int, block: int, *, largest: bool
) -> Tensor:
    """Return the elements of the given blocks of `block` elements along `axis`.

    The last block is filled up with the value that sorts last.
    """
    extent, behind = data.shape[axis], last(data, largest=largest)

    def body(*i: Scalar) -> Scalar:
        which = blocks[(*i[:axis], i[axis] // block, *i[axis + 1 :])]
        number = maximum(which, 0) * block + i[axis] % block
        element = data[(*i[:axis], minimum(number, extent - 1), *i[axis + 1 :])]
        return if_then_else(number < extent, element, behind)

    count = blocks.shape[axis] * block
    shape = (*data.shape[:axis], count, *data.shape[axis + 1 :])
    return compute(shape, body, AutoName("elements_of_blocks"))


def places_of_blocks(blocks: Tensor, places: Tensor, axis: int, block: int) -> Tensor:
    """Return the indices (int64) in the whole row of elements at `places` of given blocks."""
    count = blocks.shape[axis] * block

    def body(*i: Scalar) -> Scalar:
        block_number = minimum(maximum(places[i], 0), count - 1)
        return (
            blocks[(*i[:axis], block_number // block, *i[axis + 1 :])] * block
            + block_number % block
        )

    return compute(places.shape, body, AutoName("places_of_blocks"))


def numbers_of_bools(data: Tensor) -> Tensor:
    """Return bools as 0 and 1 (uint8)."""
    return _convert(data, UINT8, "numbers")


def bools_of_numbers(data: Tensor) -> Tensor:
    """Return numbers as bools: whether each is not 0."""
    return _convert(data, BOOL, "bools")


def _convert(data: Tensor, dtype: DType, name: str) -> Tensor:
    return compute(data.shape, lambda *i: cast(data[i], dtype), AutoName(name))


SORTING: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    "bools_of_numbers": bools_of_numbers,
    "elements_of_blocks": elements_of_blocks,
    "first_of_blocks": first_of_blocks,
    "first_of_runs": first_of_runs,
    "merge_runs": merge_runs,
    "numbers_of_bools": numbers_of_bools,
    "places_of_blocks": places_of_blocks,
    "rank_places": rank_places,
    "sort_blocks": sort_blocks,
}
"""The definitions that sorting uses, by name."""


class _Stages:
    """Applies definitions to tensors of the DSL."""

    def __call__(
        self, name: str, inputs: Sequence[Tensor], **attributes: object
    ) -> Sequence[Tensor]:
        """Return the outputs of the definition `name`."""
        outputs = SORTING[name](*inputs, **attributes)
        return (outputs,) if isinstance(outputs, Tensor) else outputs

    def lengths(self, value: int) -> Tensor:
        """Return `value` and its double as a tensor of int32."""
        return compute((2,), lambda i: cast((i + 1) * value, INT32), AutoName("lengths"))
