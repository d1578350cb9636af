"""Convolutions over one, two or three dimensions, with groups and dilation."""

from __future__ import annotations

from typing import Unpack

from ansorc.lang.literal import DTypeLike
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.operators.wide import SumTypes, product
from ansorc.lang.operators.window import Window, WindowOptions
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

_NUMBERS = ("pad_value", "sum_dtype")


class DepthwiseOptions(WindowOptions, total=False):
    """Strides, padding and the dtype of sums of a depthwise convolution."""

    pad_value: float
    """The value of the margins (default: 0), such as the zero point of quantised data."""
    sum_dtype: DTypeLike | None
    """The dtype to which factors are cast and in which they are summed. By default 16-bit floats
    are summed in float32 and rounded, and 8- and 16-bit integers are summed in int32."""


class ConvOptions(DepthwiseOptions, total=False):
    """Options of a convolution: those of a depthwise one, and the groups of channels."""

    groups: int
    """The number of groups of channels; channels of different groups are not connected."""


def conv1d(data: Tensor, weight: Tensor, **options: Unpack[ConvOptions]) -> Tensor:
    """Return the convolution [n, l, co] of data [n, l, ci] with weight [k, ci / groups, co].

    With layout "NCL": data [n, ci, l], weight [co, ci / groups, k]. Raise LanguageError on other
    shapes. There is a stage `<name>.pad` only if there is padding.
    """
    return _convolution(Window.of("conv1d", 1, options, *_NUMBERS, "groups"), data, weight, options)


def conv2d(data: Tensor, weight: Tensor, **options: Unpack[ConvOptions]) -> Tensor:
    """Return the convolution of data [n, h, w, ci] with weight [kh, kw, ci / groups, co].

    With layout "NCHW": data [n, ci, h, w], weight [co, ci / groups, kh, kw]. Raise LanguageError on
    other shapes. There is a stage `<name>.pad` only if there is padding.
    """
    return _convolution(Window.of("conv2d", 2, options, *_NUMBERS, "groups"), data, weight, options)


def conv3d(data: Tensor, weight: Tensor, **options: Unpack[ConvOptions]) -> Tensor:
    """Return the convolution of data [n, d, h, w, ci] with weight [kd, kh, kw, ci / groups, co].

    With layout "NCDHW": data [n, ci, d, h, w], weight [co, ci / groups, kd, kh, kw]. Raise
    LanguageError on other shapes. There is a stage `<name>.pad` only if there is padding.
    """
    return _convolution(Window.of("conv3d", 3, options, *_NUMBERS, "groups"), data, weight, options)


def depthwise_conv2d(data: Tensor, weight: Tensor, **options: Unpack[DepthwiseOptions]) -> Tensor:
    """Return the convolution of each channel of data [n, h, w, c] with weight [kh, kw, c].

    With layout "NCHW": data [n, c, h, w], weight [c, kh, kw]. Raise LanguageError on other shapes.
    There is a stage `<name>.pad` only if there is padding.
    """
    window = Window.of("depthwise_conv2d", 2, options, *_NUMBERS)
    require_rank("depthwise_conv2d", 4, data)
    require_rank("depthwise_conv2d", 3, weight)
    is_last = window.is_channels_last
    kernel = weight.shape[:2] if is_last else weight.shape[1:]
    batch, _, channels = window.unpack(data.shape)
    fits = weight.shape[2 if is_last else 0] == channels
    require(fits, window.operator, data, weight, need="both must have the same channels")
    name = options.get("name", AutoName(window.operator))
    shape = window.pack(batch, window.output(data, kernel), channels)
    padded = window.pad(data, options.get("pad_value", 0.0), stage_name(name, "pad"))
    offsets = window.reduce_axes(kernel)

    def body(*indices: Scalar) -> Reduction:
        n, spatial, c = window.unpack(indices)
        element = padded[window.pack(n, window.places(spatial, offsets), c)]
        factor = weight[(*offsets, c) if is_last else (c, *offsets)]
        return sum(product(element, factor, options.get("sum_dtype")), axis=offsets)

    sums = SumTypes.of(data.dtype, options.get("sum_dtype"))
    return sums.total(shape, body, name, window.axes)


def _convolution(window: Window, data: Tensor, weight: Tensor, options: ConvOptions) -> Tensor:
    rank, groups = len(window.spatial), options.get("groups", 1)
    require_rank(window.operator, rank + 2, data, weight)
    batch, _, channels_in = window.unpack(data.shape)
    kernel, depth, channels_out = _unpack_weight(window, weight)
    fits = groups >= 1 and channels_in == depth * groups and channels_out % groups == 0
    need = f"with {groups} groups weight needs {channels_in}/{groups} input channels"
    require(fits, window.operator, data, weight, need=f"{need} and a multiple of {groups} outputs")
    name = options.get("name", AutoName(window.operator))
    shape = window.pack(batch, window.output(data, kernel), channels_out)
    padded = window.pad(data, options.get("pad_value", 0.0), stage_name(name, "pad"))
    offsets, rc = window.reduce_axes(kernel), reduce_axis(depth, "rc")

    def body(*indices: Scalar) -> Reduction:
        n, spatial, c = window.unpack(indices)
        channel = rc if groups == 1 else c // (channels_out // groups) * depth + rc
        element = padded[window.pack(n, window.places(spatial, offsets), channel)]
        factor = weight[(*offsets, rc, c) if window.is_channels_last else (c, rc, *offsets)]
        term = product(element, factor, options.get("sum_dtype"))
        return sum(term, axis=[*offsets, rc])

    sums = SumTypes.of(data.dtype, options.get("sum_dtype"))
    return sums.total(shape, body, name, window.axes)


def _unpack_weight(window: Window, weight: Tensor) -> tuple[tuple[int, ...], int, int]:
    """Return the spatial extents, input channels of a group, and output channels of `weight`."""
    shape = weight.shape
    if window.is_channels_last:
        return shape[:-2], shape[-2], shape[-1]
    return shape[2:], shape[1], shape[0]
