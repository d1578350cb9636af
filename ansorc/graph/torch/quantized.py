"""Operators of PyTorch's quantisation, taken apart into arithmetic on numbers and integers.

Those whose integers are bytes or int32, and whose results are float32, stay as they are where
scales and zero points are numbers, or weights: `converters/quantized.py` imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansorc.graph.torch.model import torch_library


def _quantize_tensor(data: Any, scale: float, zero: int, low: int, high: int, kind: Any) -> Any:
    """Compute `quantize_per_tensor` of numbers that are known."""
    is_kept = _is_plain(kind) and data.dtype == torch_library().float32
    return NotImplemented if is_kept else _quantize(data, scale, zero, low, high, kind)


def _dequantize_tensor(
    data: Any, scale: float, zero: int, *given: Any, out_dtype: Any = None
) -> Any:
    """Compute `dequantize_per_tensor` of numbers that are known."""
    if _is_plain(data.dtype) and _is_float32(out_dtype):
        return NotImplemented
    return _dequantize(data, scale, zero, *given, out_dtype=out_dtype)


def _is_plain(kind: Any) -> bool:
    torch = torch_library()
    return kind in (torch.int8, torch.uint8, torch.int32)


def _is_float32(kind: Any) -> bool:
    return kind is None or kind == torch_library().float32


def _quantize(data: Any, scale: Any, zero: Any, *given: Any) -> Any:
    """Compute `quantize_per_tensor`: given are the least and the largest integer, and the dtype."""
    low, high, kind = given
    whole = (data.float() * (1.0 / scale)).round() + zero
    return whole.clamp(low, high).to(kind)


def _dequantize(data: Any, scale: Any, zero: Any, *given: Any, out_dtype: Any = None) -> Any:
    """Compute `dequantize_per_tensor`."""
    del given
    kind = out_dtype or torch_library().float32
    return ((data.to(kind) - zero) * scale).to(kind)


def _along(data: Any, values: Any, axis: int) -> Any:
    """One value for each place along an axis, in as many dimensions as `data` has."""
    shape = [1] * data.dim()
    shape[axis] = values.shape[0]
    return values.view(shape)


def _quantize_channels(data: Any, scales: Any, zeros: Any, axis: int, *given: Any) -> Any:
    """Compute `quantize_per_channel`."""
    return _quantize(data, _along(data, scales, axis), _along(data, zeros, axis), *given)


def _dequantize_channels(
    data: Any, scales: Any, zeros: Any, axis: int, *given: Any, out_dtype: Any = None
) -> Any:
    """Compute `dequantize_per_channel`."""
    torch = torch_library()
    is_wide = zeros is None or zeros.dtype in (torch.int32, torch.int64)
    is_float = scales.dtype == torch.float32 and _is_float32(out_dtype)
    if _is_plain(data.dtype) and is_wide and is_float:
        return NotImplemented
    del given
    whole = data if zeros is None else data - _along(data, zeros, axis)
    scaled = whole * _along(data, scales, axis)
    return scaled.to(out_dtype or torch_library().float32)


def _quantize_tokens(data: Any, scales: Any, zeros: Any, *given: Any) -> Any:
    """Compute `quantize_per_token`, which rounds after the zero point is added."""
    low, high, kind = given
    whole = (data * (1.0 / scales) + zeros).round()
    return whole.clamp(low, high).to(kind)


def _dequantize_tokens(data: Any, scales: Any, zeros: Any, *given: Any) -> Any:
    """Compute `dequantize_per_token`."""
    return ((data - zeros) * scales).to(given[-1])


def _dequantize_groups(data: Any, scales: Any, zeros: Any, *given: Any) -> Any:
    """Compute `dequantize_per_channel_group` of a matrix: a scale for so many neighbours."""
    *_, size, kind = given
    size = data.shape[-1] if size > data.shape[-1] and scales.shape[-1] == 1 else size
    grouped = data.reshape(-1, size)
    whole = grouped if zeros is None else grouped - zeros.reshape(-1, 1)
    return (whole * scales.reshape(-1, 1)).reshape(data.shape).to(kind)


QUANTIZED: Mapping[str, Callable[..., Any]] = {
    "quantized_decomposed.dequantize_per_channel.default": _dequantize_channels,
    "quantized_decomposed.dequantize_per_channel_group.default": _dequantize_groups,
    "quantized_decomposed.dequantize_per_tensor.default": _dequantize_tensor,
    "quantized_decomposed.dequantize_per_tensor.tensor": _dequantize,
    "quantized_decomposed.dequantize_per_tensor.tensor2": _dequantize,
    "quantized_decomposed.dequantize_per_token.default": _dequantize_tokens,
    "quantized_decomposed.quantize_per_channel.default": _quantize_channels,
    "quantized_decomposed.quantize_per_tensor.default": _quantize_tensor,
    "quantized_decomposed.quantize_per_tensor.tensor": _quantize,
    "quantized_decomposed.quantize_per_tensor.tensor2": _quantize,
    "quantized_decomposed.quantize_per_token.default": _quantize_tokens,
}
"""By namespace, operator and overload."""
