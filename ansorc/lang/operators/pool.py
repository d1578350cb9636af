"""Pools: the largest or the mean element of each window, or of each whole image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack

from ansorc.lang.compute_op import Combiner
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import each, refuse_unknown, require, require_rank, scale_index
from ansorc.lang.operators.wide import widen
from ansorc.lang.operators.window import SPATIAL, Window, WindowOptions
from ansorc.lang.reduction import ReduceAxis, Reduction, max, sum
from ansorc.lang.scalar import cast, maximum, minimum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

Kernel = int | Sequence[int]
_OPTIONS = ("ceil_mode", "count_include_pad")


class PoolOptions(WindowOptions, total=False):
    """Options of the window of a pool."""

    ceil_mode: bool
    """Whether a last window that begins inside but is partly outside counts, too."""


class AvgPoolOptions(PoolOptions, total=False):
    """Options of an average pool."""

    count_include_pad: bool
    """Whether padded zeros are counted; default True."""


def max_pool1d(data: Tensor, kernel: Kernel, **options: Unpack[PoolOptions]) -> Tensor:
    """Return the largest element of each window of data [n, l, c]; see `max_pool2d`."""
    return _max_pool("max_pool1d", 1, data, kernel, options)


def max_pool2d(data: Tensor, kernel: Kernel, **options: Unpack[PoolOptions]) -> Tensor:
    """Return the largest element of each window of data [n, h, w, c] (or "NCHW").

    Padded elements are never the largest. Raise LanguageError if no window fits.
    """
    return _max_pool("max_pool2d", 2, data, kernel, options)


def max_pool3d(data: Tensor, kernel: Kernel, **options: Unpack[PoolOptions]) -> Tensor:
    """Return the largest element of each window of data [n, d, h, w, c]; see `max_pool2d`."""
    return _max_pool("max_pool3d", 3, data, kernel, options)


def avg_pool1d(data: Tensor, kernel: Kernel, **options: Unpack[AvgPoolOptions]) -> Tensor:
    """Return the mean of each window of data [n, l, c]; see `avg_pool2d`."""
    return _avg_pool("avg_pool1d", 1, data, kernel, options)


def avg_pool2d(data: Tensor, kernel: Kernel, **options: Unpack[AvgPoolOptions]) -> Tensor:
    """Return the mean of each window of data [n, h, w, c] (or "NCHW").

    Padded zeros are counted unless `count_include_pad` is False. Two stages, `<name>.sum` and the
    division. Raise LanguageError where no window fits.
    """
    return _avg_pool("avg_pool2d", 2, data, kernel, options)


def avg_pool3d(data: Tensor, kernel: Kernel, **options: Unpack[AvgPoolOptions]) -> Tensor:
    """Return the mean of each window of data [n, d, h, w, c]; see `avg_pool2d`."""
    return _avg_pool("avg_pool3d", 3, data, kernel, options)


def global_avg_pool(
    data: Tensor, layout: str = "", name: str = AutoName("global_avg_pool")
) -> Tensor:
    """Return the mean [n, c] over the one to three spatial dimensions of data [n, …, c].

    With a layout like "NCHW", data is [n, c, …]. There are two stages, `<name>.sum` and the
    division. Raise LanguageError on another rank.
    """
    require(data.dtype.is_float, "global_avg_pool", data, need="it needs floats; cast it first")
    total = _whole("global_avg_pool", data, layout, _wide_sum, stage_name(name, "sum"))
    share = math.prod(total.shape) / math.prod(data.shape)
    return compute(total.shape, lambda n, c: (total[n, c] * share).astype(data.dtype), name)


def global_max_pool(
    data: Tensor, layout: str = "", name: str = AutoName("global_max_pool")
) -> Tensor:
    """Return the largest elements [n, c] over the spatial dimensions; see `global_avg_pool`."""
    return _whole("global_max_pool", data, layout, max, name)


def _whole(
    operator: str, data: Tensor, layout: str, reduce: Callable[..., Reduction], name: str
) -> Tensor:
    rank = len(data.shape) - 2
    require(rank in SPATIAL, operator, data, need="it must have 1 to 3 spatial dimensions")
    window = Window.of(operator, rank, {"layout": layout or f"N{SPATIAL[rank].upper()}C"})
    batch, spatial, channels = window.unpack(data.shape)
    axes = window.reduce_axes(spatial)
    return compute(
        (batch, channels),
        lambda n, c: reduce(data[window.pack(n, axes, c)], axis=axes),
        name,
    )


def _max_pool(
    operator: str, rank: int, data: Tensor, kernel: Kernel, options: PoolOptions
) -> Tensor:
    refuse_unknown(operator, options, PoolOptions.__optional_keys__)
    extents = each(operator, "kernel", kernel, rank)
    window = _window(operator, data, extents, options)
    lowest = float(Combiner.MAX.identity(data.dtype).value)
    return _pool(window, data, extents, lowest, options.get("name", AutoName(operator)))


def _avg_pool(
    operator: str, rank: int, data: Tensor, kernel: Kernel, options: AvgPoolOptions
) -> Tensor:
    require(data.dtype.is_float, operator, data, need="it needs floats; cast it first")
    extents = each(operator, "kernel", kernel, rank)
    window = _window(operator, data, extents, options)
    name = options.get("name", AutoName(operator))
    total = _pool(window, data, extents, 0.0, stage_name(name, "sum"))
    given = Window.of(operator, rank, options, *_OPTIONS).margins
    margins = given if options.get("count_include_pad", True) else (0,) * (2 * rank)
    if margins == window.margins:
        share = 1.0 / math.prod(extents)
        return compute(total.shape, lambda *i: (total[i] * share).astype(data.dtype), name)
    _, inputs, _ = window.unpack(data.shape)

    def body(*indices: Scalar) -> Scalar:
        _, spatial, _ = window.unpack(indices)
        counts: list[Scalar] = []
        for d, begin in enumerate(spatial):
            start = scale_index(begin, window.stride[d]) - window.margins[d]
            inside = -margins[d], inputs[d] + margins[d + rank]
            counts.append(_count(start, inside, extents[d], window.dilation[d]))
        count = cast(math.prod(counts[1:], start=counts[0]), total.dtype)
        return (total[indices] / count).astype(data.dtype)

    return compute(total.shape, body, name, axes=window.axes)


def _wide_sum(element: Scalar, axis: Sequence[ReduceAxis]) -> Reduction:
    return sum(widen(element), axis=axis)


def _count(start: Scalar, inside: tuple[int, int], taps: int, dilation: int) -> Scalar:
    """Return how many of the positions start, start + dilation, … are in `inside`."""
    low, high = inside
    first = maximum((low - start + (dilation - 1)) // dilation, 0)
    behind = minimum((high - start + (dilation - 1)) // dilation, taps)
    return behind - first


def _window(operator: str, data: Tensor, extents: Sequence[int], options: PoolOptions) -> Window:
    """Return the window; `ceil_mode` may enlarge its margins after the data."""
    rank = len(extents)
    window = Window.of(operator, rank, options, *_OPTIONS)
    require_rank(operator, rank + 2, data)
    if not options.get("ceil_mode", False):
        return window
    _, inputs, _ = window.unpack(data.shape)
    after: list[int] = []
    for d, extent in enumerate(inputs):
        before, behind, stride = window.margins[d], window.margins[d + rank], window.stride[d]
        reach = (extents[d] - 1) * window.dilation[d] + 1
        steps = -(-(extent + before + behind - reach) // stride)
        if steps * stride >= extent + before:
            steps -= 1  # the last window would begin in the padding
        wanted = steps * stride + reach - extent - before
        after.append(wanted if wanted > behind else behind)
    return replace(window, margins=(*window.margins[:rank], *after))


def _pool(window: Window, data: Tensor, extents: Sequence[int], margin: float, name: str) -> Tensor:
    batch, _, channels = window.unpack(data.shape)
    shape = window.pack(batch, window.output(data, extents), channels)
    padded = window.pad(data, margin, stage_name(name, "pad"))
    offsets = window.reduce_axes(extents)
    reduce = max if window.operator.startswith("max") else _wide_sum

    def body(*indices: Scalar) -> Reduction:
        n, spatial, c = window.unpack(indices)
        return reduce(padded[window.pack(n, window.places(spatial, offsets), c)], axis=offsets)

    return compute(shape, body, name, axes=window.axes)
