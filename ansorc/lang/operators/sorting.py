"""Operators that put elements in order, by the one order of `ansorc/lang/total_order.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ansorc.ir.dtype import INT32, INT64, UINT8
from ansorc.lang import reduction
from ansorc.lang.compute_op import Combiner
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import axis_number, require
from ansorc.lang.reduction import Reduction, reduce_axis
from ansorc.lang.scalar import (
    all_of,
    any_of,
    cast,
    const,
    equal,
    if_then_else,
    logical_not,
    maximum,
    minimum,
    not_equal,
)
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import Tensor
from ansorc.lang.total_order import comes_before

_SORT, _ARGSORT, _TOP_K = AutoName("sort"), AutoName("argsort"), AutoName("top_k")
_RANKED_AT_ONCE = 512
"""Elements of which each is compared with all others; more are ranked in blocks."""


def sort(data: Tensor, axis: int = -1, name: str = _SORT, *, descending: bool = False) -> Tensor:
    """Return `data` sorted along `axis`, ascending with NaN last, or the other way round.

    Equal elements keep their order. Raise LanguageError where there is no such axis.
    """
    place = axis_number("sort", data, axis)
    return _ordered(name, data, place, data.shape[place], largest=descending)[0]


def argsort(
    data: Tensor, axis: int = -1, name: str = _ARGSORT, *, descending: bool = False
) -> Tensor:
    """Return where the elements of `sort(data)` stand in `data` along `axis`, as int64.

    Of equal elements the first comes first, descending too.
    """
    place = axis_number("argsort", data, axis)
    return _ordered(name, data, place, data.shape[place], largest=descending)[1]


def top_k(
    data: Tensor, k: int, axis: int = -1, name: str = _TOP_K, *, largest: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the `k` largest elements along `axis`, the largest first, and their places (int64).

    NaN is the largest of all numbers. With `largest=False` the smallest ones come first. Of equal
    ones the first comes first. Raise LanguageError where `k` is more than there are.
    """
    place = axis_number("top_k", data, axis)
    extent = data.shape[place]
    require(1 <= k <= extent, "top_k", data, need=f"k is {k}, but axis {axis} has {extent}")
    return _ordered(name, data, place, k, largest=largest)


def _ordered(
    name: str, data: Tensor, place: int, k: int, *, largest: bool
) -> tuple[Tensor, Tensor]:
    """Return the first `k` elements of the sorted order, and their places; bools as numbers."""
    if not data.dtype.is_bool:
        return _first_of_order(name, data, place, k, largest=largest)
    numbers = compute(data.shape, lambda *i: cast(data[i], UINT8), stage_name(name, "number"))
    values, places = _first_of_order(stage_name(name, "n"), numbers, place, k, largest=largest)
    zero = const(0, UINT8)
    return compute(values.shape, lambda *i: not_equal(values[i], zero), name), places


def _first_of_order(
    name: str, data: Tensor, place: int, k: int, *, largest: bool
) -> tuple[Tensor, Tensor]:
    """Return the first `k` elements of the sorted order, and their places.

    An element's rank is the number of those before it; among many elements first those of each
    block are ranked, then the `k` best of all blocks. That takes about 5 · (n² · k)^(2/3)
    comparisons for n elements.
    """
    extent = data.shape[place]
    block = max(k, math.ceil((2 * extent * k * k) ** (1 / 3)))
    if extent <= _RANKED_AT_ONCE or 2 * block > extent:
        values, found = _ranked(name, data, place, k, largest=largest)
        return values, compute(
            values.shape, lambda *i: cast(found[i], INT64), stage_name(name, "i")
        )
    blocks, outer, inner = -(-extent // block), data.shape[:place], data.shape[place + 1 :]
    last = _last(data, largest=largest)

    def padded(*i: Scalar) -> Scalar:
        number = i[place] * block + i[place + 1]
        inside = minimum(number, extent - 1) if extent % block else number
        element = data[(*i[:place], inside, *i[place + 2 :])]
        return if_then_else(number < extent, element, last) if extent % block else element

    split = compute((*outer, blocks, block, *inner), padded, stage_name(name, "blocks"))
    best, first = _ranked(stage_name(name, "block"), split, place + 1, k, largest=largest)

    def chosen(*i: Scalar) -> Scalar:
        return best[(*i[:place], i[place] // k, i[place] % k, *i[place + 1 :])]

    candidates = compute((*outer, blocks * k, *inner), chosen, stage_name(name, "candidates"))
    values, second = _ranked(name, candidates, place, k, largest=largest)

    def where(*i: Scalar) -> Scalar:
        number = minimum(maximum(cast(second[i], INT64), 0), blocks * k - 1)
        own = first[(*i[:place], number // k, number % k, *i[place + 1 :])]
        return number // k * block + cast(own, INT64)

    return values, compute(values.shape, where, stage_name(name, "i"))


def _last(data: Tensor, *, largest: bool) -> Scalar:
    """Return the number of the dtype of `data` that no other comes behind."""
    if not largest and data.dtype.is_float:
        return const(math.nan, data.dtype)
    combiner = Combiner.MAX if largest else Combiner.MIN
    return as_scalar(combiner.identity(data.dtype))


def _ranked(name: str, data: Tensor, place: int, k: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    """The `k` first elements along a dimension, and their places (int32)."""
    extent = data.shape[place]

    def at(i: Sequence[Scalar], where: Scalar) -> tuple[Scalar, ...]:
        return (*i[:place], where, *i[place + 1 :])

    other, source = reduce_axis(extent, "o"), reduce_axis(extent, "s")

    def rank(*i: Scalar) -> Reduction:
        mine, theirs = data[i], data[at(i, other)]
        is_before = comes_before(theirs, mine, descending=largest)
        is_behind = comes_before(mine, theirs, descending=largest)
        is_earlier = all_of(logical_not(is_behind), other < i[place])
        one, zero = const(1, INT32), const(0, INT32)
        return reduction.sum(if_then_else(any_of(is_before, is_earlier), one, zero), axis=other)

    ranks = compute(data.shape, rank, stage_name(name, "rank"))

    def where(*i: Scalar) -> Reduction:
        is_it = equal(ranks[at(i, source)], cast(i[place], INT32))
        return reduction.max(if_then_else(is_it, cast(source, INT32), const(0, INT32)), axis=source)

    shape = (*data.shape[:place], k, *data.shape[place + 1 :])
    places = compute(shape, where, stage_name(name, "places"))

    def value(*i: Scalar) -> Scalar:
        return data[at(i, minimum(maximum(cast(places[i], INT64), 0), extent - 1))]

    return compute(shape, value, name), places
