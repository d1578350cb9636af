"""Pools: the largest or the mean element of each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

from ansorc.ir.expr import Expr
from ansorc.lang.compute_op import Combiner
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import each, require_rank
from ansorc.lang.operators.window import Window, WindowOptions
from ansorc.lang.reduction import Reduction, max, reduce_axis, sum
from ansorc.lang.tensor import Tensor

_GLOBAL = AutoName("global_avg_pool")


def max_pool2d(
    data: Tensor, kernel: int | Sequence[int], **options: Unpack[WindowOptions]
) -> Tensor:
    """Return the largest element of each window of data [n, h, w, c] (or "NCHW").

    What padding adds is never the largest. Raise LanguageError where no window fits.
    """
    lowest = float(Combiner.MAX.identity(data.dtype).value)
    return _pool("max_pool2d", data, kernel, lowest, options)


def avg_pool2d(
    data: Tensor, kernel: int | Sequence[int], **options: Unpack[WindowOptions]
) -> Tensor:
    """Return the mean of each window of data [n, h, w, c] (or "NCHW"), padded zeros counted.

    Two stages, `<name>.sum` and the division. Raise LanguageError where no window fits.
    """
    name = options.get("name", AutoName("avg_pool2d"))
    options["name"] = stage_name(name, "sum")
    total = _pool("avg_pool2d", data, kernel, 0.0, options)
    share = 1.0 / math.prod(each("avg_pool2d", "kernel", kernel, 2))
    return compute(total.shape, lambda *i: total[i] * share, name)


def global_avg_pool(data: Tensor, layout: str = "NHWC", name: str = _GLOBAL) -> Tensor:
    """Return the mean [n, c] over the spatial dimensions of data [n, h, w, c] (or "NCHW").

    Two stages, `<name>.sum` and the division. Raise LanguageError on another rank.
    """
    window = Window.of("global_avg_pool", 2, {"layout": layout})
    require_rank("global_avg_pool", 4, data)
    batch, spatial, channels = window.unpacked(data.shape)
    rh, rw = (reduce_axis(extent, axis) for extent, axis in zip(spatial, ("rh", "rw"), strict=True))
    total = compute(
        (batch, channels),
        lambda n, c: sum(data[window.packed(n, (rh, rw), c)], axis=[rh, rw]),
        stage_name(name, "sum"),
    )
    share = 1.0 / math.prod(spatial)
    return compute(total.shape, lambda n, c: total[n, c] * share, name)


def _pool(
    operator: str,
    data: Tensor,
    kernel: int | Sequence[int],
    margin: float,
    options: WindowOptions,
) -> Tensor:
    window = Window.of(operator, 2, options)
    extents = each(operator, "kernel", kernel, 2)
    require_rank(operator, 4, data)
    batch, _, channels = window.unpacked(data.shape)
    shape = window.packed(batch, window.output(data, extents), channels)
    name = options.get("name", AutoName(operator))
    padded = window.padded(data, margin, stage_name(name, "pad"))
    offsets = window.reduce_axes(extents)
    reduce = max if operator == "max_pool2d" else sum

    def body(*indices: Expr) -> Reduction:
        n, spatial, c = window.unpacked(indices)
        return reduce(padded[window.packed(n, window.places(spatial, offsets), c)], axis=offsets)

    return compute(shape, body, name, axes=window.axes)
