"""ATen's operators that pool images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.importing.values import LAYOUTS
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.aligned import Array


def _with_batch(call: TorchCall, rank: int) -> str:
    """The input with a batch, of one image if it has none."""
    shape = call.type("self").shape
    return call.reshape(call.input("self"), shape if len(shape) == rank + 2 else [1, *shape])


def _window(call: TorchCall, rank: int) -> dict[str, object]:
    """How the window moves."""
    kernel = call.each("kernel_size", rank)
    return {
        "kernel": kernel, "stride": call.each("stride", rank, kernel), "layout": LAYOUTS[rank],
        "padding": call.each("padding", rank, [0]),
    }  # fmt: skip


def _average_pool(rank: int) -> TorchConverter:
    def convert(call: TorchCall) -> str:
        window, divisor = _window(call, rank), call.get("divisor_override")
        is_ceil = bool(call.get("ceil_mode", False))
        counted = bool(call.get("count_include_pad", True))
        if divisor and is_ceil:
            call.refuse("divisor_override with ceil_mode is not supported; multiply the result")
        result = call.add(
            f"avg_pool{rank}d", [_with_batch(call, rank)], **window,
            ceil_mode=is_ceil, count_include_pad=counted or bool(divisor),
        )  # fmt: skip
        if divisor:
            factor = math.prod(call.each("kernel_size", rank)) / float(divisor)
            result = call.add("multiply", [result, call.scalar(factor, result)])
        return call.reshape(result, call.result.shape)

    return convert


def _max_pool(rank: int) -> TorchConverter:
    """Largest elements; where they are, counted in each image, only if that is read."""

    def convert(call: TorchCall) -> str | Sequence[str]:
        data, options = _with_batch(call, rank), _window(call, rank)
        options["dilation"] = call.each("dilation", rank, [1])
        is_ceil = bool(call.get("ceil_mode", False))
        if 1 not in call.node.used:
            result = call.add(f"max_pool{rank}d", [data], ceil_mode=is_ceil, **options)
            pooled = call.reshape(result, call.result.shape)
            return pooled if len(call.node.results) == 1 else [pooled]
        if is_ceil:
            call.refuse("the places of maxima with ceil_mode are not supported")
        names = call.builder.add_many("max_pool_with_indices", [data], ("", ""), **options)
        image = int(np.prod(call.type("self").shape[-rank:]))
        places = call.add("floor_mod", [names[1], call.scalar(image, names[1])])
        return [call.reshape(name, call.result.shape) for name in (names[0], places)]

    return convert


def _adaptive(rank: int) -> TorchConverter:
    """Means of parts of nearly equal size; where all are equal, an average pool."""

    def convert(call: TorchCall) -> str:
        shape, data = call.type("self").shape, _with_batch(call, rank)
        inputs, outputs = shape[-rank:], call.each("output_size", rank)
        if all(m == 1 for m in outputs):
            data = call.add("global_avg_pool", [data], layout=LAYOUTS[rank])
        elif all(n % m == 0 for n, m in zip(inputs, outputs, strict=True)):
            kernel = [n // m for n, m in zip(inputs, outputs, strict=True)]
            options: dict[str, object] = {"stride": kernel, "layout": LAYOUTS[rank]}
            data = call.add(f"avg_pool{rank}d", [data], kernel=kernel, **options)
        else:
            for d, (n, m) in enumerate(zip(inputs, outputs, strict=True)):
                data = _means(call, data, 2 + d, n, m)
        return call.reshape(data, call.result.shape)

    return convert


def _means(call: TorchCall, data: str, axis: int, inputs: int, outputs: int) -> str:
    """The means of parts of nearly equal size along one axis."""
    first, behind = _parts(inputs, outputs)
    taps = int((behind - first).max())
    start = np.minimum(first, inputs - taps)
    positions = start[:, None] + np.arange(taps)
    inside = (positions >= first[:, None]) & (positions < behind[:, None])
    weights = inside / (behind - first)[:, None]
    tensors = [
        data,
        call.constant(start.astype(np.int64)),
        call.constant(weights.astype(call.type("self").dtype.numpy)),
    ]
    return call.add("resample", tensors, axis=axis)


def _maxima(call: TorchCall, data: str, axis: int, inputs: int, outputs: int) -> str:
    """The largest elements of the same parts; a short one reads its last element again."""
    first, behind = _parts(inputs, outputs)
    places = first[:, None] + np.arange(int((behind - first).max()))
    places = call.constant(np.minimum(places, behind[:, None] - 1))
    return call.add(
        "max", [call.add("take", [data, places], axis=axis, mode="clip")], axis=[axis + 1]
    )


def _parts(inputs: int, outputs: int) -> tuple[Array, Array]:
    """Where parts of nearly equal size begin and end."""
    i = np.arange(outputs)
    return i * inputs // outputs, -(-(i + 1) * inputs // outputs)


def _adaptive_max(rank: int) -> TorchConverter:
    def convert(call: TorchCall) -> Sequence[str]:
        inputs, outputs = call.type("self").shape[-rank:], call.each("output_size", rank)
        if 1 in call.node.used:
            call.refuse("the places of its maxima are not supported; use max_pool with a window")
        data = _with_batch(call, rank)
        if any(n % m for n, m in zip(inputs, outputs, strict=True)):
            for d, (n, m) in enumerate(zip(inputs, outputs, strict=True)):
                data = _maxima(call, data, 2 + d, n, m)
            return [call.reshape(data, call.result.shape)]
        kernel = [n // m for n, m in zip(inputs, outputs, strict=True)]
        options: dict[str, object] = {"kernel": kernel, "stride": kernel, "layout": LAYOUTS[rank]}
        result = call.add(f"max_pool{rank}d", [data], **options)
        return [call.reshape(result, call.result.shape)]

    return convert


_RANKS = (1, 2, 3)
TORCH_POOL: Mapping[str, TorchConverter] = {
    **{f"adaptive_avg_pool{d}d.default": _adaptive(d) for d in _RANKS},
    **{f"_adaptive_avg_pool{d}d.default": _adaptive(d) for d in _RANKS},
    **{f"adaptive_max_pool{d}d.default": _adaptive_max(d) for d in _RANKS},
    **{f"avg_pool{d}d.default": _average_pool(d) for d in _RANKS},
    **{f"max_pool{d}d.default": _max_pool(d) for d in _RANKS},
    **{f"max_pool{d}d_with_indices.default": _max_pool(d) for d in _RANKS},
}
