"""PyTorch's quantisation by scales and zero points that are known, and products of bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansorc.graph.importing.integer_products import Integers, integer_product
from ansorc.graph.importing.values import Value
from ansorc.graph.torch.model import TorchRef
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.dtype import FLOAT32


def _quantize(call: TorchCall) -> str:
    factor = np.asarray(1.0 / call.get("scale"), np.float32)
    zero = np.asarray(call.get("zero_point"), np.int32)
    return call.add(
        "quantize_by_factor",
        [call.input("input", FLOAT32), call.constant(factor), call.constant(zero)],
        low=call.get("quant_min"), high=call.get("quant_max"), dtype=str(call.result.dtype),
    )  # fmt: skip


def _dequantize_tensor(call: TorchCall) -> Value:
    scale = np.asarray(call.get("scale"), np.float32)
    return _dequantize(call, scale, np.asarray(call.get("zero_point"), np.int32), -1)


def _dequantize_channels(call: TorchCall) -> Value:
    """Add what numbers mean, each channel of an axis with its scale and zero point."""
    axis = call.axis(call.get("axis"), len(call.type("input").shape))
    zero = _value(call, "zero_points") if call.has("zero_points") else None
    if zero is None:
        zero = np.zeros(call.type("scales").shape, np.int32)
    return _dequantize(call, _value(call, "scales"), zero, axis)


def _dequantize(call: TorchCall, scale: Value, zero: Value, axis: int) -> Value:
    """Return (input - zero) * scale; known values if all are known, which products see through."""
    data = _value(call, "input")
    if isinstance(data, str) or isinstance(scale, str) or isinstance(zero, str):
        parts = [call.name_value(part) for part in (data, scale, zero)]
        return call.add("dequantize", parts, axis=axis)
    shape = [1] * data.ndim
    if scale.size > 1:
        shape[axis] = -1
    whole = data.astype(np.int32) - zero.astype(np.int32).reshape(shape)
    result = whole.astype(np.float32) * scale.astype(np.float32).reshape(shape)
    given = call.get("input")
    parts = [(given.name if isinstance(given, TorchRef) else "", data), ("", scale), ("", zero)]
    call.builder.defer(result, "dequantize_constant", parts, axis=axis)
    return result


def _value(call: TorchCall, name: str) -> Value:
    known = call.value(name)
    return call.input(name) if known is None else known


def _product_of_bytes(call: TorchCall) -> str:
    left, right = (Integers(_value(call, name)) for name in ("self", "mat2"))
    return integer_product(call, left, right)


TORCH_QUANTIZED: Mapping[str, TorchConverter] = {
    "aten._int_mm.default": _product_of_bytes,
    "quantized_decomposed.dequantize_per_channel.default": _dequantize_channels,
    "quantized_decomposed.dequantize_per_tensor.default": _dequantize_tensor,
    "quantized_decomposed.quantize_per_tensor.default": _quantize,
}
"""By namespace, operator and overload; what else is quantised is taken apart before."""
