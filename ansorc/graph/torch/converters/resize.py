"""ATen's resizing of images, and images sampled at places.

Places are computed as ATen does, in the precision that it takes, because a rounding may decide
which element is the nearest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ansorc.graph.operators.resize import cubic_weight, linear_weight
from ansorc.graph.resizing import add_weighted_sums, nearest_elements
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.aligned import Array

Falloff: TypeAlias = "Callable[[Array], Array]"
"""The weights of elements by how far they are away."""

_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")
_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}
"""ATen's names for the factors of each spatial dimension, by their number."""


_VECTORISED_CHANNELS, _VECTORISED_LENGTHS = 4, 128
"""Where ATen's vectorised kernel for nearest elements begins, and where it ends for images."""


@dataclass(frozen=True)
class _Axis:
    """A spatial axis, its extents before and after, and how far one step of the result goes."""

    place: int
    inputs: int
    outputs: int
    step: np.floating[Any]
    is_given: bool
    """Whether the user gave a factor, so that the step may be another than the extents say."""

    @property
    def is_exact(self) -> bool:
        """Return whether the step is that of the extents, up to a rounding."""
        wanted = self.inputs / self.outputs
        return not self.is_given or abs(float(self.step) - wanted) <= 1e-6 * wanted


def _image(call: TorchCall) -> str:
    return "self" if call.has("self") else "input"


def _axes(call: TorchCall, kind: Any = None) -> Iterator[_Axis]:
    """The spatial axes, their steps in `kind`, by default what ATen computes the data in."""
    shape, size = call.type(_image(call)).shape[2:], call.result.shape[2:]
    given: Sequence[Any] | None = call.get("scale_factors")
    if given is None:
        given = [call.get(name) for name in _SCALES[len(size)]]
    kind = kind or call.result.dtype.numpy.type
    for dimension, (n, m, factor) in enumerate(zip(shape, size, given, strict=True), 2):
        ratio = float(factor or 0.0)
        step = kind(1.0 / ratio) if ratio > 0 else kind(n) / kind(m)
        yield _Axis(dimension, n, m, step, ratio > 0)


def _ignores_factors(call: TorchCall) -> bool:
    """Whether ATen takes its vectorised path, where what stays or doubles does so exactly.

    It does for channels that lie last in memory, from four on, and for small images.
    """
    shape, kind = call.result.shape, call.node.results[0]
    is_last = kind is not None and kind.strides[1:2] == (1,) and shape[1] >= _VECTORISED_CHANNELS
    is_small = len(shape) == 4 and sum(shape[2:]) <= _VECTORISED_LENGTHS
    return len(shape) > 3 and (is_last or is_small)


def _nearest(call: TorchCall) -> str:
    """The elements at the places, rounded down."""
    tables: dict[int, tuple[Array, float]] = {}
    ignores_factors = _ignores_factors(call)
    for axis in _axes(call, np.float32):
        n, m, i = axis.inputs, axis.outputs, np.arange(axis.outputs)
        if ignores_factors and m in (n, 2 * n):
            tables[axis.place] = (i * n // m, n / m)
            continue
        places = np.floor(i.astype(np.float32) * axis.step).astype(np.int64)
        tables[axis.place] = (np.minimum(places, n - 1), float(axis.step))
    return nearest_elements(call.builder, call.input(_image(call)), tables)


def _nearest_exact(call: TorchCall) -> str:
    """The elements at the centres, rounded down."""
    tables: dict[int, tuple[Array, float]] = {}
    for axis in _axes(call, np.float32):
        centres = (np.arange(axis.outputs) + 0.5) * np.float64(axis.step)
        places = np.floor(centres.astype(np.float32)).astype(np.int64)
        tables[axis.place] = (np.minimum(places, axis.inputs - 1), float(axis.step))
    return nearest_elements(call.builder, call.input(_image(call)), tables)


def _refuse_integers(call: TorchCall) -> None:
    if not call.result.dtype.is_float:
        call.refuse(
            f"it interpolates {call.result.dtype}; convert it to floats, and round after it"
        )


def _bilinear(call: TorchCall) -> str:
    _refuse_integers(call)
    size, is_aligned = call.result.shape[2:], bool(call.get("align_corners"))
    is_exact = is_aligned or all(
        axis.is_exact or axis.inputs == axis.outputs for axis in _axes(call)
    )
    if is_exact and (min(size) > 1 or not is_aligned):
        corners = "align_corners" if is_aligned else "half_pixel"
        options: dict[str, object] = {"layout": "NCHW", "coordinates": corners}
        data = call.input(_image(call))
        return call.add("resize2d_bilinear", [data], size=list(size), **options)
    return _mix_neighbours(call, support=1, kernel=linear_weight)


def _places(axis: _Axis, *, is_aligned: bool) -> Array:
    """Where the elements of the result lie over the input."""
    i, kind = np.arange(axis.outputs), type(axis.step)
    if is_aligned:
        step = kind(axis.inputs - 1) / kind(axis.outputs - 1) if axis.outputs > 1 else kind(0)
        return step * i.astype(kind)
    return axis.step * (i.astype(kind) + kind(0.5)) - kind(0.5)


def _mix_neighbours(call: TorchCall, *, support: int, kernel: Falloff) -> str:
    """Neighbours that are at most `support` elements away, weighted by `kernel` of how far."""
    _refuse_integers(call)
    data, is_aligned = call.input(_image(call)), bool(call.get("align_corners"))
    for axis in _axes(call):
        n, m = axis.inputs, axis.outputs
        places = _places(axis, is_aligned=is_aligned).astype(np.float64)
        if support == 1:
            places = np.maximum(places, 0)
        if n == m and (support == 1 or np.array_equal(places, np.arange(m))):
            continue
        taps = (np.floor(places) - support + 1)[:, None] + np.arange(2 * support)
        weights = kernel(taps - places[:, None])
        data = add_weighted_sums(call.builder, data, axis.place, taps, weights)
    return data


def _smooth(call: TorchCall, *, support: int, kernel: Falloff) -> str:
    """Like `_mix_neighbours`, with an antialiased kernel: wider where an image shrinks."""
    _refuse_integers(call)
    data, is_aligned = call.input(_image(call)), bool(call.get("align_corners"))
    for axis in _axes(call):
        n, m = axis.inputs, axis.outputs
        if n == m:
            continue
        step = float(axis.step)
        if is_aligned:
            step = (n - 1) / (m - 1) if m > 1 else 0.0
        width = max(step, 1.0)
        centre = step * (np.arange(m) + 0.5)
        first = np.maximum((centre - support * width + 0.5).astype(np.int64), 0)
        behind = np.minimum((centre + support * width + 0.5).astype(np.int64), n)
        taps = first[:, None] + np.arange(int((behind - first).max()))
        weights = kernel((taps - centre[:, None] + 0.5) / width) * (taps < behind[:, None])
        weights = weights / weights.sum(1, keepdims=True)
        data = add_weighted_sums(call.builder, data, axis.place, taps, weights)
    return data


def _grid_sample(call: TorchCall) -> str:
    inputs = [call.input("input"), call.input("grid")]
    mode, padding = (call.get(f"{option}_mode") for option in ("interpolation", "padding"))
    options: dict[str, object] = {"mode": _MODES[int(mode)], "padding": _PADDINGS[int(padding)]}
    if options == {"mode": "nearest", "padding": "reflection"}:
        options["reflect_first"] = True
    align_corners = bool(call.get("align_corners"))
    return call.add("grid_sample", inputs, align_corners=align_corners, **options)


_LINEAR = partial(_mix_neighbours, support=1, kernel=linear_weight)
_CUBIC = partial(_mix_neighbours, support=2, kernel=partial(cubic_weight, a=-0.75))
_SMOOTH_LINEAR = partial(_smooth, support=1, kernel=linear_weight)
_SMOOTH_CUBIC = partial(_smooth, support=2, kernel=partial(cubic_weight, a=-0.5))
_RESIZINGS: Mapping[str, TorchConverter] = {
    **{f"upsample_nearest{d}d": _nearest for d in _SCALES},
    **{f"_upsample_nearest_exact{d}d": _nearest_exact for d in _SCALES},
    "_upsample_bicubic2d_aa": _SMOOTH_CUBIC,
    "_upsample_bilinear2d_aa": _SMOOTH_LINEAR,
    "upsample_bicubic2d": _CUBIC,
    "upsample_bilinear2d": _bilinear,
    "upsample_linear1d": _LINEAR,
    "upsample_trilinear3d": _LINEAR,
}
TORCH_RESIZE: Mapping[str, TorchConverter] = {
    "grid_sampler_2d.default": _grid_sample,
    "grid_sampler_3d.default": _grid_sample,
    **{f"{name}.{way}": one for name, one in _RESIZINGS.items() for way in ("default", "vec")},
}
