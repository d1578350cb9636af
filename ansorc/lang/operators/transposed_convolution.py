"""Transposed convolutions, computed by phases, without products with zeros.

A transposed convolution of stride s is an ordinary one of the input with s - 1 zeros after each
element. Output number o reads elements h and taps k of the kernel with o + padding = h * s + k.
So o modulo s, its phase, decides which taps meet elements: k0, k0 + s, k0 + 2 s, …, and each phase
is a dense convolution of stride 1 with ceil(kernel / s) taps. The phases are computed as axes of
one tensor and then interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from ansorc.errors import LanguageError
from ansorc.lang.define import compute
from ansorc.lang.literal import DTypeLike
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.pad import pad
from ansorc.lang.operators.shapes import each, require, require_rank
from ansorc.lang.operators.wide import SumTypes, product
from ansorc.lang.operators.window import Window, WindowOptions
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar import all_of, const, if_then_else
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor


class TransposedOptions(WindowOptions, total=False):
    """Options of a transposed convolution."""

    output_padding: int | Sequence[int]
    """Additional elements at the end of each spatial dimension of the result."""
    groups: int
    """The number of groups of channels; channels of different groups are not connected."""
    sum_dtype: DTypeLike | None
    """The dtype to which factors are cast and in which they are summed, as in a convolution."""


def conv1d_transpose(data: Tensor, weight: Tensor, **options: Unpack[TransposedOptions]) -> Tensor:
    """Return the transposed convolution of data [n, l, ci] with weight [k, ci, co].

    As `conv2d_transpose`, over one dimension.
    """
    return _transpose("conv1d_transpose", 1, data, weight, options)


def conv2d_transpose(data: Tensor, weight: Tensor, **options: Unpack[TransposedOptions]) -> Tensor:
    """Return the transposed convolution [n, (h - 1) stride + kh - 2 padding, …, co].

    data [n, h, w, ci], weight [kh, kw, ci, co / groups]; with layout "NCHW" data [n, ci, h, w] and
    weight [ci, co / groups, kh, kw]. The stages are `<name>.pad` (if elements beyond the input are
    read), `<name>.phases`, and the result, which interleaves them. With a stride of 1 the last two
    are one. Raise LanguageError on other shapes and on dilation.
    """
    return _transpose("conv2d_transpose", 2, data, weight, options)


def conv3d_transpose(data: Tensor, weight: Tensor, **options: Unpack[TransposedOptions]) -> Tensor:
    """Return the transposed convolution of data [n, d, h, w, ci] with weight [kd, kh, kw, ci, co].

    As `conv2d_transpose`, over three dimensions.
    """
    return _transpose("conv3d_transpose", 3, data, weight, options)


@dataclass(frozen=True)
class _Phases:
    """One spatial dimension: output `block * stride + phase` reads `input[row(...)]`."""

    inputs: int
    outputs: int
    kernel: int
    stride: int
    margin: int

    @property
    def taps(self) -> int:
        """The most taps of the kernel that one phase uses."""
        return -(-self.kernel // self.stride)

    @property
    def blocks(self) -> int:
        """The number of outputs of one phase."""
        return -(-self.outputs // self.stride)

    @property
    def before(self) -> int:
        """The number of elements read before the first one of the input."""
        return max(0, self.taps - 1 - self.margin // self.stride)

    @property
    def after(self) -> int:
        """The number of elements read after the last one of the input."""
        last = self.blocks - 1 + (self.stride - 1 + self.margin) // self.stride
        return max(0, last + 1 - self.inputs)

    def row(self, block: Scalar, phase: Scalar, tap: Scalar) -> Scalar:
        """Return the index of the element of the padded input that a tap multiplies."""
        s, whole, rest = self.stride, self.margin // self.stride, self.margin % self.stride
        position = block - tap + (whole + self.before)
        if rest == 0:
            return position
        return position + (phase if s == 2 else (phase + rest) // s)

    def element(self, phase: Scalar, tap: Scalar) -> Scalar:
        """Return the index of a tap in the kernel; it may be outside if `has_gaps`."""
        s, rest = self.stride, self.margin % self.stride
        if s == 1:
            return tap
        first = phase if rest == 0 else 1 - phase if s == 2 else (phase + rest) % s
        return first + tap * s

    @property
    def has_gaps(self) -> bool:
        """Whether some phases use fewer taps than others."""
        return self.kernel % self.stride > 0


@dataclass(frozen=True)
class _Layer:
    """A transposed convolution: its window, dimensions and channels."""

    window: Window
    dimensions: tuple[_Phases, ...]
    batch: int
    channels: tuple[int, int]
    groups: int

    def axes(self) -> tuple[str, ...]:
        """Return the names of the axes of the phases: n, h, ph, w, pw, c; none for stride 1."""
        spatial = list[str]()
        for letter, phases in zip(self.window.spatial, self.dimensions, strict=True):
            spatial += [letter, f"p{letter}"] if phases.stride > 1 else [letter]
        return self.window.pack("n", spatial, "c")

    def shape(self) -> tuple[int, ...]:
        """Return the extents of the phases."""
        spatial = list[int]()
        for d in self.dimensions:
            spatial += [d.blocks, d.stride] if d.stride > 1 else [d.blocks]
        return self.window.pack(self.batch, spatial, self.channels[1])

    def blocks_and_phases(self, spatial: Sequence[Scalar]) -> list[tuple[Scalar, Scalar]]:
        """Return the block and the phase of each dimension, from indices of the phases."""
        rest = iter(spatial)
        return [
            (next(rest), next(rest) if phases.stride > 1 else const(0))
            for phases in self.dimensions
        ]

    def interleave(self, spatial: Sequence[Scalar]) -> list[Scalar]:
        """Return the indices of the phases for an element of the result."""
        indices = list[Scalar]()
        for index, phases in zip(spatial, self.dimensions, strict=True):
            s = phases.stride
            indices += [index // s, index % s] if s > 1 else [index]
        return indices


def _transpose(
    operator: str, rank: int, data: Tensor, weight: Tensor, options: TransposedOptions
) -> Tensor:
    window = Window.of(operator, rank, options, "output_padding", "groups", "sum_dtype")
    extra = each(operator, "output_padding", options.get("output_padding", 0), rank)
    layer = _layer(window, data, weight, extra, options.get("groups", 1))
    name = options.get("name", AutoName(operator))
    padded = _pad(layer, data, stage_name(name, "pad"))
    is_plain = all(phases.stride == 1 for phases in layer.dimensions)
    sums = SumTypes.of(data.dtype, options.get("sum_dtype"))
    body = _phases(layer, padded, weight, options.get("sum_dtype"))
    if is_plain:
        return sums.total(layer.shape(), body, name, layer.axes())
    phases = compute(layer.shape(), body, stage_name(name, "phases"), axes=layer.axes())

    def interleave(*indices: Scalar) -> Scalar:
        n, spatial, c = window.unpack(indices)
        return phases[window.pack(n, layer.interleave(spatial), c)].astype(sums.result)

    outputs = [dimension.outputs for dimension in layer.dimensions]
    shape = window.pack(layer.batch, outputs, layer.channels[1])
    return compute(shape, interleave, name, axes=window.axes)


def _layer(
    window: Window, data: Tensor, weight: Tensor, extra: Sequence[int], groups: int
) -> _Layer:
    operator, rank = window.operator, len(window.spatial)
    if set(window.dilation) != {1}:
        raise LanguageError(f"{operator} takes no dilation")
    require_rank(operator, rank + 2, data, weight)
    batch, inputs, channels = window.unpack(data.shape)
    is_last = window.is_channels_last
    kernel = weight.shape[:-2] if is_last else weight.shape[2:]
    depth, co = weight.shape[-2:] if is_last else weight.shape[:2]
    form = "[…kernel, ci, co]" if is_last else "[ci, co, …kernel]"
    require(channels == depth, operator, data, weight, need=f"weight must be {form}")
    fits = groups >= 1 and channels % groups == 0
    require(fits, operator, data, weight, need=f"{groups} groups must divide the input channels")
    is_small = all(0 <= e < s for e, s in zip(extra, window.stride, strict=True))
    require(is_small, operator, data, weight, need="output_padding must be less than the stride")
    dimensions = tuple(
        _Phases(
            inputs[d],
            (inputs[d] - 1) * window.stride[d] + kernel[d] + extra[d]
            - window.margins[d] - window.margins[d + rank],
            kernel[d],
            window.stride[d],
            window.margins[d],
        )
        for d in range(rank)
    )  # fmt: skip
    is_left = all(phases.outputs > 0 for phases in dimensions)
    require(is_left, operator, data, weight, need="the padding leaves nothing")
    return _Layer(window, dimensions, batch, (channels, co * groups), groups)


def _pad(layer: _Layer, data: Tensor, name: str) -> Tensor:
    before = [phases.before for phases in layer.dimensions]
    after = [phases.after for phases in layer.dimensions]
    if not any((*before, *after)):
        return data
    window = layer.window
    first, last = window.pack(0, before, 0), window.pack(0, after, 0)
    return pad(data, first, last, 0.0, name, window.axes)


def _phases(
    layer: _Layer, padded: Tensor, weight: Tensor, sum_dtype: DTypeLike | None
) -> Callable[..., Reduction]:
    """Return the function that computes an element of the phases, a sum."""
    window, dimensions = layer.window, layer.dimensions
    taps = [reduce_axis(p.taps, f"r{x}") for p, x in zip(dimensions, window.spatial, strict=True)]
    groups, (ci, co) = layer.groups, layer.channels
    rc = reduce_axis(ci // groups, "rc")

    def body(*indices: Scalar) -> Reduction:
        n, spatial, c = window.unpack(indices)
        places = list(zip(dimensions, layer.blocks_and_phases(spatial), taps, strict=True))
        rows = [d.row(block, phase, tap) for d, (block, phase), tap in places]
        kernel = [d.element(phase, tap) for d, (_, phase), tap in places]
        first, channel = (rc, c)
        if groups > 1:
            first, channel = c // (co // groups) * (ci // groups) + rc, c % (co // groups)
        factor = weight[
            (*kernel, first, channel) if window.is_channels_last else (first, channel, *kernel)
        ]
        term = product(padded[window.pack(n, rows, first)], factor, sum_dtype)
        gaps = [k < d.kernel for d, k in zip(dimensions, kernel, strict=True) if d.has_gaps]
        if gaps:
            term = if_then_else(all_of(*gaps), term, const(0, term.dtype))
        return sum(term, axis=[*taps, rc])

    return body
