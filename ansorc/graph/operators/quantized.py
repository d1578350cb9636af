"""Numbers as integers times a scale, from a zero point on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ansorc.ir.dtype import FLOAT32, INT16, INT32, UINT8
from ansorc.ir.dtype import dtype as parse
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.elementwise import element_at
from ansorc.lang.operators.shapes import axis_number, broadcast_extents, require, scale_index
from ansorc.lang.reduction import Reduction, max, min, reduce_axis
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import Tensor


def quantize(
    data: Tensor,
    scale: Tensor,
    *zero: Tensor,
    dtype: str = "uint8",
    axis: int = 1,
    block: int = 0,
) -> Tensor:
    """Return round(data / scale) + zero, in an integer `dtype`, at its ends where it is beyond.

    Scale and zero are single numbers, one for each place along `axis`, or for each `block` of
    places there. Raise LanguageError on other shapes.
    """
    at = _parameter("quantize", data, scale, axis, block)
    kind = parse(dtype)
    require(kind.is_integer and kind.bits <= 16, "quantize", data, need=f"{kind} is too wide")

    def body(*i: Scalar) -> Scalar:
        scaled = scalar.round(data[i] / at(scale, i))
        return (scaled + at(zero[0], i).astype(data.dtype) if zero else scaled).astype(kind)

    return compute(data.shape, body, AutoName("quantize"))


def dequantize(data: Tensor, scale: Tensor, *zero: Tensor, axis: int = 1, block: int = 0) -> Tensor:
    """Return (data - zero) * scale, in the dtype of scale; see `quantize`."""
    at = _parameter("dequantize", data, scale, axis, block)

    def body(*i: Scalar) -> Scalar:
        value = data[i].astype(INT32)
        value = value - at(zero[0], i).astype(INT32) if zero else value
        return value.astype(scale.dtype) * at(scale, i)

    return compute(data.shape, body, AutoName("dequantize"))


def quantize_by_factor(
    data: Tensor, factor: Tensor, zero: Tensor, *, low: int, high: int, dtype: str
) -> Tensor:
    """Return round(data * factor) + zero, from `low` to `high`, in an integer `dtype`.

    Factor and zero are single numbers, []. PyTorch multiplies so; `quantize` divides.
    """
    kind = parse(dtype)
    limits = np.iinfo(kind.name)
    is_whole = (low, high) == (limits.min, limits.max)

    def body(*i: Scalar) -> Scalar:
        value = scalar.round(data[i] * factor[()]) + zero[()].astype(data.dtype)
        if not is_whole:  # else conversion does so
            value = scalar.minimum(scalar.maximum(value, float(low)), float(high))
        return value.astype(kind)

    return compute(data.shape, body, AutoName("quantize"))


def shift(data: Tensor, *zero: Tensor) -> Tensor:
    """Return data - zero in int32, zero broadcast as NumPy does, but not beyond `data`."""
    fits = all(broadcast_extents(data.shape, each.shape) == data.shape for each in zero)
    require(fits, "shift", data, *zero, need="the zero points must be broadcast to it")

    def body(*i: Scalar) -> Scalar:
        value = data[i].astype(INT32)
        return value - element_at(zero[0], i).astype(INT32) if zero else value

    return compute(data.shape, body, AutoName("shift"))


def as_unsigned(data: Tensor) -> Tensor:
    """Return int8 `data` plus 128, in uint8."""
    return compute(
        data.shape, lambda *i: (data[i].astype(INT16) + 128).astype(UINT8), AutoName("as_unsigned")
    )


def requantize(data: Tensor, factor: Tensor, *zero: Tensor, dtype: str = "uint8") -> Tensor:
    """Return int32 sums of products as integers: round(data * factor) + zero.

    Factor and zero are broadcast to `data` as NumPy does. Raise LanguageError on other shapes.
    """
    given = (factor, *zero)
    fits = all(broadcast_extents(data.shape, each.shape) == data.shape for each in given)
    require(fits, "requantize", data, *given, need="factor and zero must be broadcast to the data")
    kind = parse(dtype)

    def body(*i: Scalar) -> Scalar:
        scaled = scalar.round(data[i].astype(FLOAT32) * element_at(factor, i))
        return (scaled + element_at(zero[0], i).astype(FLOAT32) if zero else scaled).astype(kind)

    return compute(data.shape, body, AutoName("requantize"))


def quantize_by_range(data: Tensor) -> Sequence[Tensor]:
    """Return `data` as uint8, with the scale and the zero point that its range asks for.

    The range is that of all elements and 0. Both are single numbers, [].
    """
    inner = [reduce_axis(extent, f"k{d}") for d, extent in enumerate(data.shape)]
    zero, ends = scalar.const(0, data.dtype), 255.0

    def extreme(reduce: Callable[..., Reduction], name: str) -> Tensor:
        return compute((), lambda: reduce(data[tuple(inner)], axis=inner), AutoName(name))

    high, low = extreme(max, "quantize.max"), extreme(min, "quantize.min")

    def width() -> Scalar:
        length = scalar.maximum(high[()], zero) - scalar.minimum(low[()], zero)
        return scalar.if_then_else(scalar.equal(length, zero), 1.0, length) / ends

    def start() -> Scalar:
        level = 0.0 - scalar.minimum(low[()], zero) / scale[()]
        return scalar.round(scalar.minimum(scalar.maximum(level, 0.0), ends))

    scale = compute((), width, AutoName("quantize.scale"))
    point = compute((), start, AutoName("quantize.start"))
    values = compute(
        data.shape,
        lambda *i: (scalar.round(data[i] / scale[()]) + point[()]).astype(UINT8),
        AutoName("quantize"),
    )
    return values, scale, compute((), lambda: point[()].astype(UINT8), AutoName("quantize.zero"))


def _parameter(
    operator: str, data: Tensor, scale: Tensor, axis: int, block: int
) -> Callable[[Tensor, Sequence[Scalar]], Scalar]:
    """Return a function that reads a scale or zero point for an element; raise LanguageError."""
    if scale.shape in ((), (1,)):
        return lambda tensor, _: as_scalar(tensor[(0,) * len(tensor.shape)])
    dimension = axis_number(operator, data, axis)
    if block:
        shape = list(data.shape)
        shape[dimension] = -(-shape[dimension] // block)
        require(scale.shape == tuple(shape), operator, data, scale, need=f"scale must be {shape}")
        return lambda tensor, i: as_scalar(
            tensor[(*i[:dimension], i[dimension] // block, *i[dimension + 1 :])]
        )
    need = f"scale must be one number, or [{data.shape[dimension]}]"
    require(scale.shape == (data.shape[dimension],), operator, data, scale, need=need)
    return lambda tensor, i: as_scalar(tensor[i[dimension]])


def patches(
    data: Tensor,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    channels: int = 1,
    fill: int = 0,
) -> Tensor:
    """Return what each place of a window sees of data [n, h, w, c], as [n, oh, ow, kh, kw, c].

    With `channels`, data is [n, h, w * channels], and what is seen of a row adjoins: the result is
    [n, oh, ow, kh, kw * channels]. `padding` is the margins before, then those after; there `fill`
    is seen. A convolution is the product of this with its weights.
    """
    rank = len(data.shape)
    fits = rank in (3, 4) and len(padding) == 4 and (rank == 4 or dilation[1] == 1)
    require(fits, "patches", data, need="it must be [n, h, w, c], with four margins; rows that "
            "adjoin are not dilated")  # fmt: skip
    spatial = data.shape[1], data.shape[2] // channels
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    out = [
        (extent + padding[d] + padding[d + 2] - reach[d]) // stride[d] + 1
        for d, extent in enumerate(spatial)
    ]
    step = channels if rank == 3 else 1

    def body(*i: Scalar) -> Scalar:
        places = [
            scale_index(i[1], stride[0]) + scale_index(i[3], dilation[0]) - padding[0],
            scale_index(i[2], stride[1] * step)
            + scale_index(i[4], dilation[1])
            - padding[1] * step,
        ]
        seen = as_scalar(data[(i[0], *places, *i[5:])])
        if not any(padding):
            return seen
        bounds = zip(places, data.shape[1:3], strict=True)
        inside = scalar.all_of(*(test for at, size in bounds for test in (at >= 0, at < size)))
        return scalar.if_then_else(inside, seen, scalar.const(fill, data.dtype))

    shape = (data.shape[0], *out, kernel[0], kernel[1] * step, *data.shape[3:])
    return compute(shape, body, AutoName("patches"))


QUANTIZED: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    "as_unsigned": as_unsigned,
    "dequantize": dequantize,
    "dequantize_constant": dequantize,
    "patches": patches,
    "quantize": quantize,
    "quantize_by_factor": quantize_by_factor,
    "quantize_by_range": quantize_by_range,
    "requantize": requantize,
    "shift": shift,
}
"""Definitions by the name of their operator."""
