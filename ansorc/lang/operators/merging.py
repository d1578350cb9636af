"""Sort long rows: rank the elements of blocks, then merge sorted runs in pairs, in passes.

A pass writes the merged pairs in chunks. It searches for the start of each chunk in both runs. Then
it counts, for all elements of a chunk at the same time, how many come from the first run:

    run a:  1 4 6 9     chunk 0: 1 2 3 4   2 elements of a
    run b:  2 3 5 7     chunk 1: 5 6 7 9   2 elements of a, from 6 on, and b from 5 on

No element depends on another of its pass, so a pass runs on all lanes, cores and threads. Rows are
stored along one axis with a margin of arbitrary values after them, so that reads beyond the end of
a run are legal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ansorc.ir.dtype import INT32, INT64
from ansorc.lang import reduction
from ansorc.lang.compute_op import Combiner
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
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
)
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor
from ansorc.lang.total_order import comes_before

_WAYS = 8
"""The number of parts into which a step of a search divides the rest."""


def rank_elements(
    data: Tensor, axis: int, k: int, *, largest: bool, name: str = ""
) -> tuple[Tensor, Tensor]:
    """Return the `k` first elements in sorted order along `axis`, and their indices (int32).

    The rank of an element is the number of elements before it, so each is compared with all others.
    """
    name = name or AutoName("ranked")
    extent = data.shape[axis]
    other, source = reduce_axis(extent, "o"), reduce_axis(extent, "s")

    def rank(*i: Scalar) -> Reduction:
        mine, theirs = data[i], data[_at(i, axis, other)]
        is_before = comes_before(theirs, mine, descending=largest)
        is_behind = comes_before(mine, theirs, descending=largest)
        is_earlier = all_of(logical_not(is_behind), other < i[axis])
        return _count(any_of(is_before, is_earlier), other)

    ranks = compute(data.shape, rank, stage_name(name, "rank"))

    def where(*i: Scalar) -> Reduction:
        is_it = equal(ranks[_at(i, axis, source)], cast(i[axis], INT32))
        return reduction.max(if_then_else(is_it, cast(source, INT32), const(0, INT32)), axis=source)

    shape = (*data.shape[:axis], k, *data.shape[axis + 1 :])
    places = compute(shape, where, stage_name(name, "places"))

    def value(*i: Scalar) -> Scalar:
        return data[_at(i, axis, _inside(cast(places[i], INT64), extent))]

    return compute(shape, value, name), places


def sort_blocks(
    data: Tensor, axis: int, block: int, blocks: int, chunk: int, *, largest: bool
) -> tuple[Tensor, Tensor]:
    """Return `blocks` sorted runs of `block` elements along `axis`, and their indices (int32).

    The last run is filled up with the value that sorts last. The margin is one `chunk`.
    """
    name, extent = AutoName("sort_blocks"), data.shape[axis]
    outer, inner = data.shape[:axis], data.shape[axis + 1 :]

    def pad(*i: Scalar) -> Scalar:
        number = i[axis] * block + i[axis + 1]
        element = data[(*i[:axis], minimum(number, extent - 1), *i[axis + 2 :])]
        return if_then_else(number < extent, element, last(data, largest=largest))

    split = compute((*outer, blocks, block, *inner), pad, stage_name(name, "split"))
    values, places = rank_elements(
        split, axis + 1, block, largest=largest, name=stage_name(name, "ranked")
    )
    count = blocks * block

    def row(*i: Scalar) -> tuple[Scalar, ...]:
        number = minimum(i[axis], count - 1)
        return (*i[:axis], number // block, number % block, *i[axis + 1 :])

    def place(*i: Scalar) -> Scalar:
        at = row(*i)
        return cast(at[axis] * block, INT32) + places[at]

    shape = (*outer, count + chunk, *inner)
    return (
        compute(shape, lambda *i: values[row(*i)], stage_name(name, "values")),
        compute(shape, place, stage_name(name, "places")),
    )


def merge_runs(
    values: Tensor, places: Tensor, lengths: Tensor, axis: int, chunk: int, *, largest: bool
) -> tuple[Tensor, Tensor]:
    """Return sorted runs along `axis`, merged in pairs.

    `lengths` [2] (int32) are those of a run and of a pair. They are data, so that all passes are
    one program. `places` are moved with the `values`. After all runs there is a margin of one
    `chunk`. A run is at least one chunk long, and a pair is a multiple of a chunk. Equal elements
    keep their order.
    """
    name = AutoName("merge_runs")
    pass_ = _Pass(name, values, lengths, axis, chunk, largest=largest)
    source, count = pass_.sources(), pass_.count

    def at(*i: Scalar) -> tuple[Scalar, ...]:
        number = minimum(i[axis], count - 1)
        origin = source[(*i[:axis], number // chunk, number % chunk, *i[axis + 1 :])]
        return _at(i, axis, _inside(cast(origin, INT64), count))

    return (
        compute(values.shape, lambda *i: values[at(*i)], stage_name(name, "values")),
        compute(values.shape, lambda *i: places[at(*i)], stage_name(name, "places")),
    )


class _Pass:
    """The stages of one pass. A pair has the runs a and b; its chunks are numbered in order."""

    def __init__(
        self, name: str, values: Tensor, lengths: Tensor, axis: int, chunk: int, *, largest: bool
    ) -> None:
        self._name, self._values, self._axis, self._largest = name, values, axis, largest
        self._length, self._chunk = lengths[0], chunk
        self._both = maximum(lengths[1], 2 * chunk)
        self.count = values.shape[axis] - chunk
        """The number of elements of a row, without the margin."""

        def pair(q: Scalar) -> Scalar:
            begin = cast(q * chunk, INT32)
            return if_then_else(
                begin < self._both, const(0, INT32), begin // self._both * self._both
            )

        self._pair = compute((self.count // chunk,), pair, stage_name(name, "pair"))
        """The start of the pair of runs of each chunk (int32)."""

    def sources(self) -> Tensor:
        """Return the source index of each element of each chunk (int32)."""
        begin, axis = self._begins(), self._axis
        counts = self._count_first_run(begin)

        def source(*i: Scalar) -> Scalar:
            _, a, b = self._ranges(i, begin)
            before = counts[_at(i, axis + 1, maximum(i[axis + 1] - 1, 0))]
            before = if_then_else(i[axis + 1] > 0, before, const(0, INT32))
            number = cast(i[axis + 1], INT32) - before
            return if_then_else(counts[i] > before, a + before, b + number)

        return compute(counts.shape, source, stage_name(self._name, "source"))

    def _begins(self) -> Tensor:
        """Return the start of each chunk in its run a (int32), by a search in `_WAYS` parts."""
        steps, begin = 1, None
        while _WAYS**steps <= self.count // 2:
            steps += 1
        for step in reversed(range(steps)):
            begin = self._search(begin, _WAYS**step, stage_name(self._name, f"search{step}"))
        assert begin is not None
        return begin

    def _search(self, begin: Tensor | None, stride: int, name: str) -> Tensor:
        """Return `begin` advanced by multiples of `stride`, over elements before the chunk.

        If `begin` is None, the search starts at the pair. The start is the first term of a sum, so
        that stages are not inlined into each other repeatedly.
        """
        k, axis, shape = reduce_axis(_WAYS, "k"), self._axis, self._values.shape

        def move(*i: Scalar) -> Reduction:
            pair, begin_of_chunk = self._pair[i[axis]], cast(i[axis] * self._chunk, INT32)
            start = pair if begin is None else begin[i]
            a = start + cast(k * stride - 1, INT32)
            b = begin_of_chunk + pair + self._length - 1 - a
            is_there = all_of(a < begin_of_chunk, a < pair + self._length)
            is_last = b >= pair + self._both
            first, other = (_inside(cast(position, INT64), shape[axis]) for position in (a, b))
            passed = all_of(is_there, any_of(is_last, self._goes_first(i, first, other)))
            step = if_then_else(passed, const(stride, INT32), const(0, INT32))
            return reduction.sum(if_then_else(equal(k, 0), start, step), axis=k)

        chunks = (*shape[:axis], self.count // self._chunk, *shape[axis + 1 :])
        return compute(chunks, move, name)

    def _count_first_run(self, begin: Tensor) -> Tensor:
        """Return the number of elements from run a in a chunk, up to each element (int32)."""
        c, axis, chunk = reduce_axis(self._chunk, "c"), self._axis, self._chunk

        def count(*i: Scalar) -> Reduction:
            pair, a, b = self._ranges(i, begin)
            number, offset = cast(c, INT32), cast(i[axis + 1], INT32)
            most = minimum(offset, pair + self._length - 1 - a)
            sure = offset - (pair + self._both - b)
            first = minimum(maximum(cast(a, INT64), 0), self.count) + c
            other = minimum(maximum(cast(b, INT64), chunk), self.count) + i[axis + 1] - c
            goes_first = self._goes_first((*i[: axis + 1], *i[axis + 2 :]), first, other)
            return _count(all_of(number <= most, any_of(number <= sure, goes_first)), c)

        shape = begin.shape
        shape = (*shape[: axis + 1], chunk, *shape[axis + 1 :])
        return compute(shape, count, stage_name(self._name, "count"))

    def _ranges(self, i: Sequence[Scalar], begin: Tensor) -> tuple[Scalar, Scalar, Scalar]:
        """Return the start of a chunk's pair, and of the chunk in runs a and b (int32)."""
        chunk_begin, pair = cast(i[self._axis] * self._chunk, INT32), self._pair[i[self._axis]]
        a = begin[(*i[: self._axis + 1], *i[self._axis + 2 :])]
        return pair, a, chunk_begin + pair + self._length - a

    def _goes_first(self, i: Sequence[Scalar], a: Scalar, b: Scalar) -> Scalar:
        """Return whether the element at `a` of the first run comes before that at `b`."""
        first, other = (self._values[_at(i, self._axis, position)] for position in (a, b))
        return logical_not(comes_before(other, first, descending=self._largest))


def first_of_runs(values: Tensor, places: Tensor, axis: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the first `k` of sorted values along `axis`, and their indices as int64."""
    name = AutoName("first_of_runs")
    shape = (*values.shape[:axis], k, *values.shape[axis + 1 :])
    return (
        compute(shape, lambda *i: values[i], stage_name(name, "values")),
        compute(shape, lambda *i: cast(places[i], INT64), stage_name(name, "places")),
    )


def last(data: Tensor, *, largest: bool) -> Scalar:
    """Return the number that sorts last in the dtype of `data`."""
    if data.dtype.is_float and not largest:
        return const(math.nan, data.dtype)
    return Scalar((Combiner.MAX if largest else Combiner.MIN).identity(data.dtype))


def _count(condition: Scalar, axis: reduction.ReduceAxis) -> Reduction:
    """Return the number of times that `condition` holds, as int32."""
    return reduction.sum(if_then_else(condition, const(1, INT32), const(0, INT32)), axis=axis)


def _at(i: Sequence[Scalar], axis: int, position: Scalar) -> tuple[Scalar, ...]:
    return (*i[:axis], position, *i[axis + 1 :])


def _inside(position: Scalar, extent: int) -> Scalar:
    return minimum(maximum(position, 0), extent - 1)
