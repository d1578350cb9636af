"""ATen's resizing of images, and images sampled at places."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from ansorc.graph.operators.resize import cubic_weight, linear_weight
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.aligned import Array

Falloff: TypeAlias = "Callable[[Array], Array]"
"""The weights of elements by how far they are away."""

_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


def _scales(call: TorchCall, inputs: Sequence[int]) -> list[float]:
    """How many elements of the input one of the result is, along each spatial dimension."""
    given, outputs = call.get("scale_factors"), call.result.shape[2:]
    if given is None or call.has("output_size"):
        given = [call.get("scales_h"), call.get("scales_w")] if call.has("self") else [None] * 3
    return [
        1 / float(one) if one else n / m for n, m, one in zip(inputs, outputs, given, strict=False)
    ]


def _nearest(call: TorchCall) -> str:
    shape, result = call.type("input").shape, call.result.shape
    scales = _scales(call, shape[2:])
    data, exact = call.input("input"), [(1, 0, 1), (1, 0, 1)]
    for axis, (n, m, scale) in enumerate(zip(shape[2:], result[2:], scales, strict=True), 2):
        i, single = np.arange(m), np.float32(scale)  # as PyTorch rounds
        places = np.minimum(np.floor(i.astype(np.float32) * single), n - 1).astype(np.int64)
        if (places == i * n // m).all():
            common = math.gcd(n, m)
            exact.append((n // common, 0, m // common))
            continue
        data = call.add("take", [data, call.constant(places)], axis=axis, mode="clip")
        exact.append((1, 0, 1))
    if all(one == (1, 0, 1) for one in exact):
        return data
    factors, offsets, divisors = zip(*exact, strict=True)
    options: dict[str, object] = {"factors": factors, "offsets": offsets, "divisors": divisors}
    return call.add("resize_nearest", [data], size=list(result), **options)


def _bilinear(call: TorchCall) -> str:
    shape, size = call.type("input").shape, call.result.shape[2:]
    is_aligned, scales = bool(call.get("align_corners")), _scales(call, shape[2:])
    pairs = list(zip(shape[2:], size, strict=True))
    is_exact = all(math.isclose(s, n / m) for s, (n, m) in zip(scales, pairs, strict=True))
    data = call.input("input")
    if is_exact and (min(size) > 1 or not is_aligned):
        corners = "align_corners" if is_aligned else "half_pixel"
        options: dict[str, object] = {"layout": "NCHW", "coordinates": corners}
        return call.add("resize2d_bilinear", [data], size=list(size), **options)
    return _mixed(call, support=1, kernel=linear_weight)


def _steps(call: TorchCall, image: str) -> Iterator[tuple[int, int, int, float]]:
    """Each spatial axis, its extents before and after, and how far one step of the result goes."""
    shape, size, is_aligned = (
        call.type(image).shape,
        call.result.shape[2:],
        call.get("align_corners"),
    )
    extents = zip(shape[2:], size, _scales(call, shape[2:]), strict=True)
    for axis, (n, m, scale) in enumerate(extents, 2):
        yield axis, n, m, ((n - 1) / (m - 1) if m > 1 else 0.0) if is_aligned else scale


def _resampled(call: TorchCall, data: str, axis: int, first: Array, weights: Array) -> str:
    weights = weights.astype(call.result.dtype.numpy)
    tensors = [data, call.constant(first.astype(np.int64)), call.constant(weights)]
    return call.add("resample", tensors, axis=axis)


def _mixed(call: TorchCall, *, support: int, kernel: Falloff) -> str:
    """Neighbours that are at most `support` elements away, weighted by `kernel` of how far."""
    data = call.input("input")
    for axis, n, m, step in _steps(call, "input"):
        i = np.arange(m, dtype=np.float64)
        places = i * step
        if not call.get("align_corners"):
            places = (i + 0.5) * step - 0.5
            places = np.maximum(places, 0) if support == 1 else places
        if n == m and np.array_equal(places, i):
            continue
        first = np.floor(places) - support + 1
        taps = first[:, None] + np.arange(2 * support)
        data = _resampled(call, data, axis, first, kernel(taps - places[:, None]))
    return data


def _smooth(call: TorchCall, *, support: int, kernel: Falloff) -> str:
    """As `_mixed`, but where an image shrinks the kernel is as much wider (antialiased)."""
    image = "self" if call.has("self") else "input"
    data = call.input(image)
    for axis, n, m, step in _steps(call, image):
        if n == m and step == 1:
            continue
        width = max(step, 1.0)
        center = step * (np.arange(m) + 0.5)
        first = np.maximum((center - support * width + 0.5).astype(np.int64), 0)
        behind = np.minimum((center + support * width + 0.5).astype(np.int64), n)
        taps = first[:, None] + np.arange(int((behind - first).max()))
        weights = kernel((taps - center[:, None] + 0.5) / width) * (taps < behind[:, None])
        data = _resampled(call, data, axis, first, weights / weights.sum(1, keepdims=True))
    return data


def _grid_sample(call: TorchCall) -> str:
    inputs = [call.input("input"), call.input("grid")]
    return call.add(
        "grid_sample", inputs, mode=_MODES[int(call.get("interpolation_mode"))],
        padding=_PADDINGS[int(call.get("padding_mode"))],
        align_corners=bool(call.get("align_corners")),
    )  # fmt: skip


_LINEAR = partial(_mixed, support=1, kernel=linear_weight)
_SMOOTH_LINEAR = partial(_smooth, support=1, kernel=linear_weight)
_SMOOTH_CUBIC = partial(_smooth, support=2, kernel=partial(cubic_weight, a=-0.5))
TORCH_RESIZE: Mapping[str, TorchConverter] = {
    **{f"upsample_nearest{d}d.vec": _nearest for d in (1, 2, 3)},
    "grid_sampler_2d.default": _grid_sample,
    "grid_sampler_3d.default": _grid_sample,
    **{f"_upsample_bicubic2d_aa.{name}": _SMOOTH_CUBIC for name in ("default", "vec")},
    **{f"_upsample_bilinear2d_aa.{name}": _SMOOTH_LINEAR for name in ("default", "vec")},
    "upsample_bicubic2d.vec": partial(_mixed, support=2, kernel=partial(cubic_weight, a=-0.75)),
    "upsample_bilinear2d.vec": _bilinear,
    "upsample_linear1d.vec": _LINEAR,
    "upsample_trilinear3d.vec": _LINEAR,
}
