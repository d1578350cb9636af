"""Pools with other results than the largest or the mean element, and what undoes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

from ansorc.graph.operators.patches import row_major
from ansorc.lang import scalar
from ansorc.lang.checks import value_in_range
from ansorc.lang.compute_op import Combiner
from ansorc.lang.define import compute, compute_tuple
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.operators.window import Window, WindowOptions
from ansorc.lang.reduction import (
    Reduction,
    TupleReduction,
    argmax,
    reduce_axis,
    reducer,
    sum,
)
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor
from ansorc.lang.total_order import is_more_extreme, is_nan, is_same


def lp_pool(
    data: Tensor, kernel: Sequence[int], p: int = 2, **options: Unpack[WindowOptions]
) -> Tensor:
    """Return (sum of |x|^p)^(1/p) over each window of data [n, c, …] or [n, …, c].

    Raise LanguageError where no window fits.
    """
    window = Window.of("lp_pool", len(kernel), options)
    require_rank("lp_pool", len(kernel) + 2, data)
    batch, _, channels = window.unpack(data.shape)
    shape = window.pack(batch, window.output(data, kernel), channels)
    padded = window.pad(data, 0.0, AutoName("lp_pool.pad"))
    offsets = window.reduce_axes(kernel)

    def body(*indices: Scalar) -> Reduction:
        n, spatial, c = window.unpack(indices)
        element = padded[window.pack(n, window.places(spatial, offsets), c)]
        return sum(power_of_size(element, p), axis=offsets)

    total = compute(shape, body, AutoName("lp_pool.sum"), axes=window.axes)
    return compute(shape, lambda *i: root(total[i], p), AutoName("lp_pool"), axes=window.axes)


def max_pool_with_indices(
    data: Tensor,
    kernel: Sequence[int],
    *,
    columns_first: bool = False,
    **options: Unpack[WindowOptions],
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window of data [n, c, …], and where it is, as int64.

    The place counts through all of `data` in row-major order; with `columns_first` the spatial
    dimensions are counted in column-major order. It is that of the first of equal ones, and of the
    last NaN, as in PyTorch; never one of the padding. Raise LanguageError where no window fits.
    """
    window = Window.of("max_pool_with_indices", len(kernel), options)
    require(not window.is_channels_last, "max_pool_with_indices", data, need="use channels first")
    require_rank("max_pool_with_indices", len(kernel) + 2, data)
    shape = (*data.shape[:2], *window.output(data, kernel))
    lowest = Combiner.MAX.identity(data.dtype)
    padded = window.pad(data, lowest.value, AutoName("max_pool.pad"))
    offsets = window.reduce_axes(kernel)
    nowhere = math.prod(kernel)
    largest = reducer(_larger, (lowest, nowhere), "max_pool")

    def body(*i: Scalar) -> TupleReduction:
        places = window.places(i[2:], offsets)
        number = row_major(offsets, kernel)
        tests = _inside(window, places, data.shape[2:])
        if tests:
            number = scalar.if_then_else(scalar.all_of(*tests), number, nowhere)
        return largest(padded[(*i[:2], *places)], number, axis=offsets)

    names = (AutoName("max_pool"), AutoName("max_pool.offset"))
    values, offset = compute_tuple(shape, body, names, axes=window.axes)

    def place(*i: Scalar) -> Scalar:
        rest, places = offset[i], list[Scalar]()
        for d in reversed(range(len(kernel))):
            step = rest % kernel[d] * window.dilation[d]
            rest = rest // kernel[d]
            places.insert(0, i[d + 2] * window.stride[d] + step - window.margins[d])
        spatial = list(zip(places, data.shape[2:], strict=True))
        first: Scalar = i[0] * data.shape[1] + i[1]
        for extent in data.shape[2:]:
            first = first * extent
        inner: Scalar | None = None
        for index, extent in reversed(spatial) if columns_first else spatial:
            inner = index if inner is None else inner * extent + index
        return first if inner is None else first + inner

    return values, compute(shape, place, AutoName("max_pool.places"), axes=window.axes)


def _inside(window: Window, places: Sequence[Scalar], extents: Sequence[int]) -> list[Scalar]:
    """Return the conditions under which `places` of the padded data are none of the padding."""
    rank = len(extents)
    return [
        test
        for d, (at, extent) in enumerate(zip(places, extents, strict=True))
        if window.margins[d] or window.margins[d + rank]
        for test in (at >= window.margins[d], at < window.margins[d] + extent)
    ]


def _larger(left: tuple[Scalar, ...], right: tuple[Scalar, ...]) -> tuple[Scalar, Scalar]:
    """The (element, number) of two that is larger: the last NaN, or else the first of equals."""
    (a, i), (b, j) = left, right
    is_first = i < j
    if a.dtype.is_float:
        is_first = scalar.if_then_else(is_nan(a), j < i, is_first)
    is_beyond = is_more_extreme(a, b, largest=True)
    is_left = scalar.any_of(is_beyond, scalar.all_of(is_same(a, b), is_first))
    return scalar.if_then_else(is_left, a, b), scalar.if_then_else(is_left, i, j)


def max_unpool(data: Tensor, places: Tensor, size: Sequence[int]) -> Tensor:
    """Return a tensor [n, c, *size] with each element of data [n, c, …] at its place, 0 elsewhere.

    `places` (int64) count through the whole result, in row-major order; each lies in the image of
    its own element. Of several elements of one place the last one counts. Raise LanguageError on
    other shapes.
    """
    fits = data.shape == places.shape and len(data.shape) == len(size) + 2
    require(fits, "max_unpool", data, places, need=f"both must be [n, c, …], with {len(size)} more")
    inner = [reduce_axis(extent, f"r{d}") for d, extent in enumerate(data.shape[2:])]

    shape = (*data.shape[:2], *size)

    def last(*i: Scalar) -> TupleReduction:
        target = value_in_range(places[(*i[:2], *inner)], (0, math.prod(shape) - 1), "places")
        is_here = scalar.equal(target, row_major(i, shape))
        number = row_major(inner, data.shape[2:])
        return argmax(scalar.if_then_else(is_here, number, -1), axis=inner)

    sources = compute_tuple(shape, last, AutoName("max_unpool.found"))[0]

    def body(*i: Scalar) -> Scalar:
        rest, inner_indices = scalar.maximum(sources[i], 0), list[Scalar]()
        for extent in reversed(data.shape[2:]):
            inner_indices.insert(0, rest % extent)
            rest = rest // extent
        element = data[(*i[:2], *inner_indices)]
        return scalar.if_then_else(sources[i] >= 0, element, scalar.const(0, data.dtype))

    return compute(shape, body, AutoName("max_unpool"))


def dilate(data: Tensor, steps: Sequence[int]) -> Tensor:
    """Return `data` with steps[d] - 1 zeros between its elements along each dimension d."""
    pairs = zip(data.shape, steps, strict=True)
    shape = [(extent - 1) * step + 1 for extent, step in pairs]

    def body(*i: Scalar) -> Scalar:
        element = data[tuple(index // step for index, step in zip(i, steps, strict=True))]
        gaps = [scalar.equal(j % s, 0) for j, s in zip(i, steps, strict=True) if s > 1]
        zero = scalar.const(0, data.dtype)
        return scalar.if_then_else(scalar.all_of(*gaps), element, zero) if gaps else element + zero

    return compute(shape, body, AutoName("dilate"))


def power_of_size(x: Scalar, p: int) -> Scalar:
    """Return |x|^p of a float."""
    if p == 1:
        return scalar.abs(x)
    return x * x if p == 2 else scalar.power(scalar.abs(x), float(p))


def root(x: Scalar, p: int) -> Scalar:
    """Return x^(1/p) of a float."""
    if p == 1:
        return x + 0.0
    return scalar.sqrt(x) if p == 2 else scalar.power(x, 1.0 / p)


POOL: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    "dilate": dilate,
    "lp_pool": lp_pool,
    "max_pool_with_indices": max_pool_with_indices,
    "max_unpool": max_unpool,
}
"""Definitions by the name of their operator."""
