"""Transposed convolution: a convolution of the input with zeros put between its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from ansorc.errors import LanguageError
from ansorc.ir.expr import Expr
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.pad import pad
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.operators.window import Window, WindowOptions
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar import all_of, const, equal, if_then_else
from ansorc.lang.tensor import Tensor

_OPERATOR = "conv2d_transpose"


def conv2d_transpose(data: Tensor, weight: Tensor, **options: Unpack[WindowOptions]) -> Tensor:
    """Return the transposed convolution [n, (h - 1) stride + kh - 2 padding, …, co].

    data [n, h, w, ci], weight [kh, kw, ci, co]. Raise LanguageError on other shapes or layouts, on
    dilation, and on padding of more than kh - 1. With a stride, most terms of a sum are products
    with an inserted zero; the hint `always_unroll_inner` lets them vanish from unrolled tiles.
    """
    window = Window.of(_OPERATOR, 2, options)
    if not window.is_channels_last or window.dilation != (1, 1):
        raise LanguageError(f"{_OPERATOR} takes the layout NHWC alone, and no dilation")
    require_rank(_OPERATOR, 4, data, weight)
    fits = data.shape[3] == weight.shape[2]
    require(fits, _OPERATOR, data, weight, need="weight must be [kh, kw, ci, co]")
    kernel, stride = weight.shape[:2], window.stride
    shape = _output(window, data, weight)
    before, after, first = _margins(window, data.shape[1:3], shape[1:3], kernel)
    name = options.get("name", AutoName(_OPERATOR))
    padded = data
    if any(before) or any(after):
        stage = stage_name(name, "pad")
        padded = pad(data, [0, *before, 0], [0, *after, 0], 0.0, stage, window.axes)
    rh, rw, rc = *window.reduce_axes(kernel), reduce_axis(data.shape[3], "rc")

    def body(n: Expr, h: Expr, w: Expr, c: Expr) -> Reduction:
        sums = zip((h + rh, w + rw), first, strict=True)
        places = [place + offset if offset else place for place, offset in sums]
        strided = [(p, s) for p, s in zip(places, stride, strict=True) if s > 1]
        rows = [p // s if s > 1 else p for p, s in zip(places, stride, strict=True)]
        element = padded[n, rows[0], rows[1], rc]
        if strided:
            hits = all_of(*(equal(p % s, 0) for p, s in strided))
            element = if_then_else(hits, element, const(0, data.dtype))
        factor = weight[kernel[0] - 1 - rh, kernel[1] - 1 - rw, rc, c]
        return sum(element * factor, axis=[rh, rw, rc])

    hints = {"always_unroll_inner": ["h", "w", "rh", "rw"]} if max(stride) > 1 else None
    return compute(shape, body, name, hints)


def _margins(
    window: Window, inputs: Sequence[int], outputs: Sequence[int], kernel: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Return the elements to add before and after, and what the first output reads of those.

    The last is counted in places of the input with its zeros.
    """
    lead = [kernel[d] - 1 - window.margins[d] for d in range(2)]
    before = [-(-lead[d] // window.stride[d]) for d in range(2)]
    first = [before[d] * window.stride[d] - lead[d] for d in range(2)]
    last = [(outputs[d] + kernel[d] - 2 + first[d]) // window.stride[d] for d in range(2)]
    after = [max(0, last[d] + 1 - before[d] - inputs[d]) for d in range(2)]
    return before, after, first


def _output(window: Window, data: Tensor, weight: Tensor) -> tuple[int, ...]:
    spatial: list[int] = []
    for d in range(2):
        begin, end, reach = window.margins[d], window.margins[d + 2], weight.shape[d] - 1
        need = f"padding must be at most {reach}, one less than the window"
        require(max(begin, end) <= reach, _OPERATOR, data, weight, need=need)
        spatial.append((data.shape[d + 1] - 1) * window.stride[d] + reach + 1 - begin - end)
    require(min(spatial) > 0, _OPERATOR, data, weight, need="the padding leaves nothing")
    return data.shape[0], spatial[0], spatial[1], weight.shape[3]
