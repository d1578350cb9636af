"""Operators that read or write at places that a tensor holds.

A negative place counts from the end; a call fails for one that there is not. What writes scatters
its updates (`ansorc/lang/scatter.py`), and then combines them with what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansorc.errors import LanguageError
from ansorc.ir.dtype import INT64
from ansorc.lang.checks import index_in_range, value_in_range
from ansorc.lang.compute_op import Combiner
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import axis_number, require
from ansorc.lang.reduction import ReduceAxis, reduce_axis
from ansorc.lang.scalar import all_of, any_of, cast, const, equal, if_then_else, maximum, minimum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.scatter import scatter_along
from ansorc.lang.tensor import Tensor

_COMBINED: Mapping[str, tuple[Combiner, Callable[[Scalar, Scalar], Scalar]]] = {
    "add": (Combiner.SUM, lambda a, b: a + b),
    "mul": (Combiner.PROD, lambda a, b: a * b),
    "max": (Combiner.MAX, maximum),
    "min": (Combiner.MIN, minimum),
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

    def body(*i: Scalar) -> Scalar:
        batch = i[: len(outer)]
        extents = data.shape[batch_dims : batch_dims + count]
        places = [
            _place(indices[(*batch, d)], extent, (data.name, batch_dims + d))
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
    dimension = axis_number("scatter_elements", data, axis)
    fits = indices.shape == updates.shape and len(indices.shape) == len(data.shape)
    need = "indices and updates must have one shape, and the rank of data"
    require(fits, "scatter_elements", data, indices, updates, need=need)
    pairs = enumerate(zip(indices.shape, data.shape, strict=True))
    shorter = [d for d, (mine, theirs) in pairs if mine < theirs or d == dimension]
    axes = {d: reduce_axis(indices.shape[d], f"k{d}") for d in shorter}

    def update_at(others: Sequence[Scalar]) -> tuple[Scalar, ...]:
        rest = iter(others)
        return tuple(axes[d] if d in axes else next(rest) for d in range(len(data.shape)))

    def places(others: Sequence[Scalar]) -> list[Scalar]:
        about = data.name, dimension
        index = indices[update_at(others)]
        target = _place(index, data.shape[dimension], about, from_end=from_end)
        return [target if d == dimension else axes[d] for d in axes]

    def newest(i: Sequence[Scalar], update: Scalar) -> tuple[Scalar, ...]:
        inside = [
            index if mine >= theirs else minimum(index, mine - 1)
            for index, mine, theirs in zip(i, indices.shape, data.shape, strict=True)
        ]
        return (*inside[:dimension], update, *inside[dimension + 1 :])

    terms = _Updates(updates, axes, axes[dimension], places, update_at, newest)
    return _scatter(data, terms, combine)


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

    def places(others: Sequence[Scalar]) -> list[Scalar]:
        return [_place(indices[k, d], data.shape[d], (data.name, d)) for d in range(count)]

    terms = _Updates(
        updates,
        dict.fromkeys(range(count), k),
        k,
        places,
        lambda others: (k, *others),
        lambda i, update: (update, *i[count:]),
    )
    return _scatter(data, terms, combine)


def one_hot_values(indices: Tensor, values: Tensor, depth: int, axis: int = -1) -> Tensor:
    """Return values[1] where the place along the new dimension `axis` is the index, else values[0].

    A negative index counts from `depth`; one outside gives values[0] alone.
    """
    rank = len(indices.shape) + 1
    dimension = axis % rank

    def body(*i: Scalar) -> Scalar:
        index = cast(indices[(*i[:dimension], *i[dimension + 1 :])], INT64)
        is_here = any_of(equal(index, i[dimension]), equal(index + depth, i[dimension]))
        return if_then_else(is_here, values[const(1, "int64")], values[const(0, "int64")])

    shape = (*indices.shape[:dimension], depth, *indices.shape[dimension:])
    return compute(shape, body, AutoName("one_hot"))


def reverse_sequence(
    data: Tensor, lengths: Tensor, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Return `data` with the first lengths[b] elements along `time_axis` reversed, for each b.

    A call fails for lengths of fewer than 0 elements or more than there are.
    """
    last = data.shape[time_axis] - 1

    def body(*i: Scalar) -> Scalar:
        length, time = cast(lengths[i[batch_axis]], INT64), i[time_axis]
        length = value_in_range(length, (0, last + 1), lengths.name)
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
    dimension = axis_number("overwrite", data, axis)
    count, extent = update.shape[dimension], data.shape[dimension]
    fits = count <= extent and len(update.shape) == len(data.shape)
    require(fits, "overwrite", data, update, need="they may differ along one axis alone")

    def body(*i: Scalar) -> Scalar:
        start = const(0, "int64") if starts is None else cast(starts[i[0]], INT64)
        offset = i[dimension] - start
        offset = offset % extent if is_circular else offset
        inside = minimum(maximum(offset, 0), count - 1)
        is_new = all_of(offset >= 0, offset < count)
        return if_then_else(is_new, update[(*i[:dimension], inside, *i[dimension + 1 :])], data[i])

    return compute(data.shape, body, AutoName("overwrite"))


def masked_scatter(data: Tensor, mask: Tensor, places: Tensor, source: Tensor) -> Tensor:
    """Return source[places] where `mask` is true, else `data`; all of one shape but source [n].

    A call fails where the mask is true for a place that `source` does not have. Raise LanguageError
    on other shapes.
    """
    fits = data.shape == mask.shape == places.shape and len(source.shape) == 1
    require(fits, "masked_scatter", data, mask, places, source, need="they must be alike, and [n]")
    extent = source.shape[0]

    def body(*i: Scalar) -> Scalar:
        position = index_in_range(places[i], extent, source.name)
        taken = source[minimum(maximum(position, 0), extent - 1)]
        return if_then_else(mask[i], taken, data[i])

    return compute(data.shape, body, AutoName("masked_scatter"))


@dataclass(frozen=True)
class _Updates:
    """Updates of elements, and where they go."""

    tensor: Tensor
    axes: Mapping[int, ReduceAxis]
    """For each dimension of the data along which they go to places an axis of the updates."""
    number: ReduceAxis
    """The axis along which later updates come after others."""
    places: Callable[[Sequence[Scalar]], list[Scalar]]
    """The places along these dimensions, from the indices of the others."""
    at: Callable[[Sequence[Scalar]], tuple[Scalar, ...]]
    """The indices of an update, from those of the other dimensions."""
    newest: Callable[[Sequence[Scalar], Scalar], tuple[Scalar, ...]]
    """The indices of an update, from those of the element and the number of the update."""

    def combine(
        self, shape: Sequence[int], term: Callable[[Sequence[Scalar]], Scalar],
        combiner: Combiner, name: str,
    ) -> Tensor:  # fmt: skip
        """Return the terms of all updates combined at their places."""
        axes = list({id(axis): axis for axis in self.axes.values()}.values())
        return scatter_along(
            shape, list(self.axes), lambda i: (self.places(i), term(i)), axes, combiner, name
        )


def _scatter(data: Tensor, updates: _Updates, combine: str) -> Tensor:
    """Return `data` with `updates`."""
    name = AutoName("scatter")
    if combine == "none":
        number = updates.number
        last = updates.combine(
            data.shape, lambda _: number + 0, Combiner.MAX, stage_name(name, "last")
        )

        def body(*i: Scalar) -> Scalar:
            inside = minimum(maximum(last[i], 0), number.extent - 1)
            newest = updates.tensor[updates.newest(i, inside)]
            return if_then_else(last[i] >= 0, newest, data[i])

        return compute(data.shape, body, name)
    if combine not in _COMBINED:
        raise LanguageError(f"scatter combines by none, {', '.join(_COMBINED)}; not '{combine}'")
    combiner, join = _COMBINED[combine]
    total = updates.combine(
        data.shape,
        lambda others: updates.tensor[updates.at(others)],
        combiner,
        stage_name(name, combine),
    )
    return compute(data.shape, lambda *i: join(data[i], total[i]), name)


def _place(index: Scalar, extent: int, about: tuple[str, int], *, from_end: bool = True) -> Scalar:
    """Return a place below `extent`, or the call fails; `about`: the tensor and the dimension."""
    return index_in_range(cast(index, INT64), extent, *about, from_end=from_end) % extent


INDEXING: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    "gather_nd": gather_nd,
    "masked_scatter": masked_scatter,
    "overwrite": overwrite,
    "one_hot_values": one_hot_values,
    "reverse_sequence": reverse_sequence,
    "scatter_elements": scatter_elements,
    "scatter_nd": scatter_nd,
}
"""Definitions by the name of their operator."""
