"""Operators that read or write at places that a tensor holds, and the k largest elements.

A negative place counts from the end; a call fails for one that there is not. What writes is defined
by a reduction over all updates: each element of the result looks for those that are meant for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT32, INT64
from ansorc.ir.expr import Expr, const
from ansorc.lang import reduction
from ansorc.lang.checks import number_in, place_in
from ansorc.lang.compute_op import Combiner
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import axis_number, require
from ansorc.lang.reduction import ReduceAxis, Reduction, reduce_axis
from ansorc.lang.scalar import (
    all_of,
    any_of,
    cast,
    equal,
    if_then_else,
    maximum,
    minimum,
)
from ansorc.lang.tensor import Tensor

_RANKED_AT_ONCE = 512
"""Elements of which each is compared with all others; more are ranked in blocks."""
MatchTest = Callable[[Sequence[Expr]], Expr]

_COMBINED: Mapping[str, tuple[Combiner, Callable[..., Reduction], Callable[[Expr, Expr], Expr]]] = {
    "add": (Combiner.SUM, reduction.sum, lambda a, b: a + b),
    "mul": (Combiner.PROD, reduction.prod, lambda a, b: a * b),
    "max": (Combiner.MAX, reduction.max, maximum),
    "min": (Combiner.MIN, reduction.min, minimum),
}
"""By the name of what is done with updates of one element."""


def gather_nd(data: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Return data[b, indices[b, i], …]: the last dimension of `indices` holds places.

    Both begin with `batch_dims` dimensions b. Raise LanguageError on other shapes.
    """
    count, outer = indices.shape[-1], indices.shape[:-1]
    fits = batch_dims + count <= len(data.shape)
    fits = fits and outer[:batch_dims] == data.shape[:batch_dims]
    require(fits, "gather_nd", data, indices, need="indices must be [batch, …, dimensions]")
    rest = data.shape[batch_dims + count :]

    def body(*i: Expr) -> Expr:
        own = i[: len(outer)]
        extents = data.shape[batch_dims : batch_dims + count]
        places = [
            _place(indices[(*own, d)], extent, (data.name, batch_dims + d))
            for d, extent in enumerate(extents)
        ]
        return data[(*i[:batch_dims], *places, *i[len(outer) :])]

    return compute((*outer, *rest), body, AutoName("gather_nd"))


def scatter_elements(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    combine: str = "none",
    *,
    from_end: bool = True,
) -> Tensor:
    """Return `data` with updates[i] at the place indices[i] along `axis`, elsewhere as `i` says.

    `combine` is none (the last one counts), add, mul, max or min. `from_end`: whether a negative
    place counts from the end; else a call fails for it. Raise LanguageError on shapes that do not
    fit.
    """
    place = axis_number("scatter_elements", data, axis)
    fits = indices.shape == updates.shape and len(indices.shape) == len(data.shape)
    need = "indices and updates must have one shape, and the rank of data"
    require(fits, "scatter_elements", data, indices, updates, need=need)
    k = reduce_axis(indices.shape[place], "k")

    def source(i: Sequence[Expr], update: Expr) -> tuple[Expr, ...]:
        inside = [
            index if mine >= theirs else minimum(index, mine - 1)
            for index, mine, theirs in zip(i, indices.shape, data.shape, strict=True)
        ]
        return (*inside[:place], update, *inside[place + 1 :])

    def matches(i: Sequence[Expr]) -> Expr:
        own = data.name, place
        found = _place(indices[source(i, k)], data.shape[place], own, from_end=from_end)
        tests = [
            index < mine
            for d, (index, mine, theirs) in enumerate(
                zip(i, indices.shape, data.shape, strict=True)
            )
            if mine < theirs and d != place
        ]
        return all_of(equal(found, i[place]), *tests)

    return _scattered(data, updates, k, matches, source, combine)


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, combine: str = "none") -> Tensor:
    """Return `data` with updates [n, …] at the places indices [n, d] of its first d dimensions.

    `combine` as in `scatter_elements`. Raise LanguageError on shapes that do not fit.
    """
    count = indices.shape[-1]
    fits = len(indices.shape) == 2 and count <= len(data.shape)
    fits = fits and updates.shape == (indices.shape[0], *data.shape[count:])
    need = "they must be data, indices [n, d] and updates [n, …]"
    require(fits, "scatter_nd", data, indices, updates, need=need)
    k = reduce_axis(indices.shape[0], "k")

    def source(i: Sequence[Expr], update: Expr) -> tuple[Expr, ...]:
        return (update, *i[count:])

    def matches(i: Sequence[Expr]) -> Expr:
        places = [_place(indices[k, d], data.shape[d], (data.name, d)) for d in range(count)]
        return all_of(*(equal(place, i[d]) for d, place in enumerate(places)))

    return _scattered(data, updates, k, matches, source, combine)


def one_hot_values(indices: Tensor, values: Tensor, depth: int, axis: int = -1) -> Tensor:
    """Return values[1] where the place along the new dimension `axis` is the index, else values[0].

    A negative index counts from `depth`; one outside gives values[0] alone.
    """
    rank = len(indices.shape) + 1
    place = axis % rank

    def body(*i: Expr) -> Expr:
        index = cast(indices[(*i[:place], *i[place + 1 :])], INT64)
        is_here = any_of(equal(index, i[place]), equal(index + depth, i[place]))
        return if_then_else(is_here, values[const(1)], values[const(0)])

    shape = (*indices.shape[:place], depth, *indices.shape[place:])
    return compute(shape, body, AutoName("one_hot"))


def top_k(data: Tensor, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Return the `k` largest elements along `axis`, the largest first, and their places (int64).

    Of equal ones the first comes first. An element's rank is the number of those before it; among
    many elements first those of each block are ranked, then the `k` best of all blocks. That takes
    about 5 · (n² · k)^(2/3) comparisons for n elements. Raise LanguageError where `k` is more than
    there are.
    """
    place, name = axis_number("top_k", data, axis), AutoName("top_k")
    extent = data.shape[place]
    require(1 <= k <= extent, "top_k", data, need=f"k is {k}, but axis {axis} has {extent}")
    block = max(k, math.ceil((2 * extent * k * k) ** (1 / 3)))
    if extent <= _RANKED_AT_ONCE or 2 * block > extent:
        values, found = _ranked(name, data, place, k, largest=largest)
        return values, compute(
            values.shape, lambda *i: cast(found[i], INT64), stage_name(name, "i")
        )
    blocks, outer, inner = -(-extent // block), data.shape[:place], data.shape[place + 1 :]
    worst = (Combiner.MAX if largest else Combiner.MIN).identity(data.dtype)

    def padded(*i: Expr) -> Expr:
        number = i[place] * block + i[place + 1]
        inside = minimum(number, extent - 1) if extent % block else number
        element = data[(*i[:place], inside, *i[place + 2 :])]
        return if_then_else(number < extent, element, worst) if extent % block else element

    split = compute((*outer, blocks, block, *inner), padded, stage_name(name, "blocks"))
    best, first = _ranked(stage_name(name, "block"), split, place + 1, k, largest=largest)

    def chosen(*i: Expr) -> Expr:
        return best[(*i[:place], i[place] // k, i[place] % k, *i[place + 1 :])]

    candidates = compute((*outer, blocks * k, *inner), chosen, stage_name(name, "candidates"))
    values, second = _ranked(name, candidates, place, k, largest=largest)

    def where(*i: Expr) -> Expr:
        number = minimum(maximum(cast(second[i], INT64), 0), blocks * k - 1)
        own = first[(*i[:place], number // k, number % k, *i[place + 1 :])]
        return number // k * block + cast(own, INT64)

    return values, compute(values.shape, where, stage_name(name, "i"))


def _ranked(name: str, data: Tensor, place: int, k: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    """The `k` first elements along a dimension, and their places (int32)."""
    extent = data.shape[place]

    def at(i: Sequence[Expr], where: Expr) -> tuple[Expr, ...]:
        return (*i[:place], where, *i[place + 1 :])

    other, source = reduce_axis(extent, "o"), reduce_axis(extent, "s")

    def rank(*i: Expr) -> Reduction:
        mine, theirs = data[i], data[at(i, other)]
        is_before = theirs > mine if largest else theirs < mine
        is_earlier = all_of(equal(theirs, mine), other < i[place])
        one, zero = const(1, INT32), const(0, INT32)
        return reduction.sum(if_then_else(any_of(is_before, is_earlier), one, zero), axis=other)

    ranks = compute(data.shape, rank, stage_name(name, "rank"))

    def where(*i: Expr) -> Reduction:
        is_it = equal(ranks[at(i, source)], cast(i[place], INT32))
        return reduction.max(if_then_else(is_it, cast(source, INT32), const(0, INT32)), axis=source)

    shape = (*data.shape[:place], k, *data.shape[place + 1 :])
    places = compute(shape, where, stage_name(name, "places"))

    def value(*i: Expr) -> Expr:
        return data[at(i, minimum(maximum(cast(places[i], INT64), 0), extent - 1))]

    return compute(shape, value, name), places


def reverse_sequence(
    data: Tensor, lengths: Tensor, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Return `data` with the first lengths[b] elements along `time_axis` reversed, for each b.

    A call fails for lengths of fewer than 0 elements or more than there are.
    """
    last = data.shape[time_axis] - 1

    def body(*i: Expr) -> Expr:
        length, time = cast(lengths[i[batch_axis]], INT64), i[time_axis]
        length = number_in(length, (0, last + 1), lengths.name)
        back = minimum(maximum(length - 1 - time, 0), last)
        source = if_then_else(time < length, back, time)
        return data[(*i[:time_axis], minimum(maximum(source, 0), last), *i[time_axis + 1 :])]

    return compute(data.shape, body, AutoName("reverse_sequence"))


def overwrite(
    data: Tensor,
    update: Tensor,
    starts: Tensor | None = None,
    axis: int = -2,
    *,
    is_circular: bool = False,
) -> Tensor:
    """Return `data` with `update` in its place from starts[b] on along `axis`, b the first index.

    Without `starts` from 0 on. What goes beyond the end is left out, or begins anew if
    `is_circular`. Raise LanguageError on other shapes.
    """
    place = axis_number("overwrite", data, axis)
    count, extent = update.shape[place], data.shape[place]
    fits = count <= extent and len(update.shape) == len(data.shape)
    require(fits, "overwrite", data, update, need="they may differ along one axis alone")

    def body(*i: Expr) -> Expr:
        start = const(0) if starts is None else cast(starts[i[0]], INT64)
        offset = i[place] - start
        offset = offset % extent if is_circular else offset
        inside = minimum(maximum(offset, 0), count - 1)
        is_new = all_of(offset >= 0, offset < count)
        return if_then_else(is_new, update[(*i[:place], inside, *i[place + 1 :])], data[i])

    return compute(data.shape, body, AutoName("overwrite"))


def masked_scatter(data: Tensor, mask: Tensor, places: Tensor, source: Tensor) -> Tensor:
    """Return source[places] where `mask` is true, else `data`; all of one shape but source [n].

    A call fails where the mask is true for a place that `source` does not have. Raise LanguageError
    on other shapes.
    """
    fits = data.shape == mask.shape == places.shape and len(source.shape) == 1
    require(fits, "masked_scatter", data, mask, places, source, need="they must be alike, and [n]")
    extent = source.shape[0]

    def body(*i: Expr) -> Expr:
        place = place_in(places[i], extent, source.name)
        taken = source[minimum(maximum(place, 0), extent - 1)]
        return if_then_else(mask[i], taken, data[i])

    return compute(data.shape, body, AutoName("masked_scatter"))


def _scattered(
    data: Tensor,
    updates: Tensor,
    k: ReduceAxis,
    matches: MatchTest,
    source: Callable[[Sequence[Expr], Expr], tuple[Expr, ...]],
    combine: str,
) -> Tensor:
    """Return `data` with those `updates` over the axis `k` that match."""
    name = AutoName("scatter")
    if combine == "none":

        def newest(*i: Expr) -> Reduction:
            return reduction.max(if_then_else(matches(i), k, const(-1)), axis=k)

        last = compute(data.shape, newest, stage_name(name, "last"))

        def body(*i: Expr) -> Expr:
            inside = minimum(maximum(last[i], 0), k.extent - 1)
            return if_then_else(last[i] >= 0, updates[source(i, inside)], data[i])

        return compute(data.shape, body, name)
    if combine not in _COMBINED:
        raise LanguageError(f"scatter combines by none, {', '.join(_COMBINED)}; not '{combine}'")
    combiner, reduce, join = _COMBINED[combine]
    neutral = combiner.identity(data.dtype)

    def term(*i: Expr) -> Reduction:
        return reduce(if_then_else(matches(i), updates[source(i, k)], neutral), axis=k)

    total = compute(data.shape, term, stage_name(name, combine))
    return compute(data.shape, lambda *i: join(data[i], total[i]), name)


def _place(index: Expr, extent: int, own: tuple[str, int], *, from_end: bool = True) -> Expr:
    """Return a place below `extent`, or the call fails; `own` are the tensor and the dimension."""
    return place_in(cast(index, INT64), extent, *own, from_end=from_end) % extent


INDEXING: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    "gather_nd": gather_nd,
    "masked_scatter": masked_scatter,
    "overwrite": overwrite,
    "one_hot_values": one_hot_values,
    "reverse_sequence": reverse_sequence,
    "scatter_elements": scatter_elements,
    "scatter_nd": scatter_nd,
    "top_k": top_k,
}
"""Definitions by the name of their operator."""
