"""ATen's resizing of images, and images sampled at places."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.aligned import Array

_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


def _scales(call: TorchCall, inputs: Sequence[int]) -> list[float]:
    """How many elements of the input one of the result is, along each spatial dimension."""
    given, outputs = call.get("scale_factors"), call.result.shape[2:]
    if given is None or call.has("output_size"):
        return [n / m for n, m in zip(inputs, outputs, strict=True)]
    return [1 / float(one) for one in given]


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
    for axis, ((n, m), scale) in enumerate(zip(pairs, scales, strict=True), 2):
        i = np.arange(m, dtype=np.float64)
        if is_aligned:
            places = i * ((n - 1) / (m - 1)) if m > 1 else i
        else:
            places = np.maximum((i + 0.5) * scale - 0.5, 0)
        data = _mixed(call, data, axis, places)
    return data


def _mixed(call: TorchCall, data: str, axis: int, places: Array) -> str:
    """Neighbours along an axis, mixed as near as they are to `places`."""
    kind = call.type("input").dtype.numpy
    first = np.floor(places)
    share = places - first
    weights = np.stack([1 - share, share], 1).astype(kind)
    tensors = [data, call.constant(first.astype(np.int64)), call.constant(weights)]
    return call.add("resample", tensors, axis=axis)


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
    "upsample_bilinear2d.vec": _bilinear,
}
