"""ATen's resizing of images, and images sampled at places."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
        data = call.add("take", [data, call.constant(places)], axis=axis)
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
    return _mixed(call, data, 1, linear_weight)


def _mixture(support: int, kernel: Falloff) -> TorchConverter:
    """Neighbours that are at most `support` elements away, weighted by `kernel` of how far."""
    return lambda call: _mixed(call, call.input("input"), support, kernel)


def _mixed(call: TorchCall, data: str, support: int, kernel: Falloff) -> str:
    shape, size = call.type("input").shape, call.result.shape[2:]
    is_aligned, scales = bool(call.get("align_corners")), _scales(call, shape[2:])
    for axis, (n, m, scale) in enumerate(zip(shape[2:], size, scales, strict=True), 2):
        i = np.arange(m, dtype=np.float64)
        if is_aligned:
            places = i * ((n - 1) / (m - 1)) if m > 1 else i
        else:
            places = (i + 0.5) * scale - 0.5
            places = np.maximum(places, 0) if support == 1 else places
        if n == m and np.array_equal(places, i):
            continue
        first = np.floor(places) - support + 1
        taps = first[:, None] + np.arange(2 * support)
        weights = kernel(taps - places[:, None]).astype(call.result.dtype.numpy)
        tensors = [data, call.constant(first.astype(np.int64)), call.constant(weights)]
        data = call.add("resample", tensors, axis=axis)
    return data


def _smooth(support: int, kernel: Falloff) -> TorchConverter:
    """As `_mixture`, but where an image shrinks the kernel is as much wider (antialiased)."""

    def convert(call: TorchCall) -> str:
        image = "self" if call.has("self") else "input"
        data, shape, size = call.input(image), call.type(image).shape, call.result.shape[2:]
        is_aligned, scales = bool(call.get("align_corners")), _scales(call, shape[2:])
        for axis, (n, m, scale) in enumerate(zip(shape[2:], size, scales, strict=True), 2):
            step = ((n - 1) / (m - 1) if m > 1 else 0.0) if is_aligned else scale
            if n == m and step == 1:
                continue
            width = max(step, 1.0)
            center = step * (np.arange(m) + 0.5)
            first = np.maximum((center - support * width + 0.5).astype(np.int64), 0)
            behind = np.minimum((center + support * width + 0.5).astype(np.int64), n)
            taps = first[:, None] + np.arange(int((behind - first).max()))
            weights = kernel((taps - center[:, None] + 0.5) / width) * (taps < behind[:, None])
            weights = weights / weights.sum(1, keepdims=True)
            weights = weights.astype(call.result.dtype.numpy)
            tensors = [data, call.constant(first), call.constant(weights)]
            data = call.add("resample", tensors, axis=axis)
        return data

    return convert


def _cubic(a: float) -> Falloff:
    return partial(cubic_weight, a=a)


def _grid_sample(call: TorchCall) -> str:
    inputs = [call.input("input"), call.input("grid")]
    return call.add(
        "grid_sample", inputs, mode=_MODES[int(call.get("interpolation_mode"))],
        padding=_PADDINGS[int(call.get("padding_mode"))],
        align_corners=bool(call.get("align_corners")),
    )  # fmt: skip


TORCH_RESIZE: Mapping[str, TorchConverter] = {
    **{f"upsample_nearest{d}d.vec": _nearest for d in (1, 2, 3)},
    "grid_sampler_2d.default": _grid_sample,
    "grid_sampler_3d.default": _grid_sample,
    "_upsample_bicubic2d_aa.default": _smooth(2, _cubic(-0.5)),
    "_upsample_bicubic2d_aa.vec": _smooth(2, _cubic(-0.5)),
    "_upsample_bilinear2d_aa.default": _smooth(1, linear_weight),
    "_upsample_bilinear2d_aa.vec": _smooth(1, linear_weight),
    "upsample_bicubic2d.vec": _mixture(2, _cubic(-0.75)),
    "upsample_bilinear2d.vec": _bilinear,
    "upsample_linear1d.vec": _mixture(1, linear_weight),
    "upsample_trilinear3d.vec": _mixture(1, linear_weight),
}
