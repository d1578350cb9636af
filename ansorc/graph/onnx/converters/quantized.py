"""ONNX operators on quantised numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.onnx.converters.matmul import gemm, product
from ansorc.graph.onnx.converters.window import LAYOUTS, each, padding, spatial_rank
from ansorc.graph.onnx.model import numpy_name
from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.ir.aligned import Array

_TERMS = 4
"""Products that one instruction adds up."""
_INTEGERS = ("uint8", "int8", "uint16", "int16")


def _quantize(call: NodeCall) -> str:
    given = call.attribute("output_dtype", 0)
    kind = numpy_name(given) if given else "uint8"
    if call.has(2):
        kind = call.type(2).dtype.name
    if kind not in _INTEGERS:
        call.refuse(f"it quantises to {kind}; ansorc does so to {', '.join(_INTEGERS)}")
    return call.add("quantize", _given(call, 3), dtype=kind, **_blocks(call))


def _dequantize(call: NodeCall) -> str:
    if not call.type(0).dtype.is_integer:
        call.refuse(f"its input is {call.type(0).dtype}; ansorc dequantises integers")
    return call.add("dequantize", _given(call, 3), **_blocks(call))


def _given(call: NodeCall, count: int) -> list[str]:
    return [call.input(place) for place in range(count) if call.has(place)]


def _blocks(call: NodeCall) -> dict[str, object]:
    """Along which axis there are scales, and of how many places each."""
    if not call.rank(1) or call.type(1).shape == (1,):
        return {"axis": -1}
    return {"axis": call.attribute("axis", 1), "block": call.attribute("block_size", 0)}


def _dynamic(call: NodeCall) -> Sequence[str]:
    return call.builder.add_many("quantize_by_range", [call.input(0)], ("", "", ""))


def _shifted(call: NodeCall, place: int, zero: int, axis: int) -> str:
    """An input without its zero point, in int32; a vector of zero points lies along `axis`."""
    data, rank = call.input(place), call.rank(place)
    known = call.value(place)
    start = call.value(zero) if call.has(zero) else np.zeros((), np.int8)
    shape = _along(call.type(zero).shape, rank, axis) if call.has(zero) else ()
    if known is not None and start is not None:
        return call.constant(known.astype(np.int32) - start.astype(np.int32).reshape(shape))
    return call.add("shift", [data, *_vector(call, zero, rank, axis)])


def _product(call: NodeCall, places: Sequence[int], zeros: Sequence[int]) -> str:
    """The int32 product of two inputs without their zero points."""
    (data, weight), (start, first) = places, zeros
    values = call.value(weight)
    if values is not None and values.ndim == 2 and _is_for_dots(call, places, zeros):
        shape = call.type(data).shape
        flat = call.add("reshape", [call.input(data)], shape=(math.prod(shape[:-1]), shape[-1]))
        total = _dots(call, flat, values, start)
        return call.add("reshape", [total], shape=(*shape[:-1], values.shape[1]))
    return product(call, _shifted(call, data, start, -2), _shifted(call, weight, first, -1))


def _is_for_dots(call: NodeCall, places: Sequence[int], zeros: Sequence[int]) -> bool:
    """Whether uint8 is multiplied by known int8, so that sums of four products are exact.

    The zero point of the data is one known number, that of the weights 0.
    """
    types = [call.type(place).dtype.name for place in places]
    start, first = (call.value(zero) if call.has(zero) else np.zeros(1) for zero in zeros)
    is_known = start is not None and start.size == 1 and first is not None
    return types == ["uint8", "int8"] and is_known and not np.any(first)


def _dots(call: NodeCall, data: str, weight: Array, zero: int) -> str:
    """data [n, k] without its zero point times weight [k, units], by dot products of four."""
    depth, units = weight.shape
    full = np.zeros((-(-depth // _TERMS) * _TERMS, units), np.int8)
    full[:depth] = weight
    packed = full.T.reshape(units, len(full) // _TERMS, _TERMS).transpose(1, 0, 2)
    if len(full) > depth:
        data = call.add("pad", [data], before=(0, 0), after=(0, len(full) - depth))
    total = call.add("dense_packed", [data, call.constant(np.ascontiguousarray(packed))])
    start = call.value(zero) if call.has(zero) else None
    if start is None or not start.any():
        return total
    surplus = weight.sum(0, dtype=np.int32) * np.int32(start.reshape(()))
    return call.add("subtract", [total, call.constant(surplus)])


def _vector(call: NodeCall, place: int, rank: int, axis: int) -> list[str]:
    """An input that is a number, or a vector along `axis`, in a form that is broadcast."""
    if not call.has(place):
        return []
    shape = call.type(place).shape
    wanted = _along(shape, rank, axis)
    data = call.input(place)
    return [data if wanted == shape else call.add("reshape", [data], shape=wanted)]


def _along(shape: tuple[int, ...], rank: int, axis: int) -> tuple[int, ...]:
    """The shape of a vector that is broadcast along `axis`; others stay as they are."""
    if len(shape) == 1 and shape[0] > 1:
        return (shape[0], *[1] * (rank - 1 - axis % rank))
    return () if shape == (1,) else shape


def _conv_sum(call: NodeCall, places: Sequence[int], zeros: Sequence[int]) -> str:
    """The int32 sums of a convolution of inputs without their zero points."""
    rank, (data, weight), (start, first) = spatial_rank(call), places, zeros
    kernel, groups = call.type(weight).shape[2:], call.attribute("group", 1)
    if groups == 1 and rank == 2 and _is_for_dots(call, places, zeros):
        return _conv_by_dots(call, data, weight, start)
    stride, dilation = each(call, "strides", rank), each(call, "dilations", rank)
    tensors = [_shifted(call, data, start, 1), _shifted(call, weight, first, 0)]
    return call.add(
        f"conv{rank}d", tensors, stride=stride, dilation=dilation,
        padding=padding(call, kernel, stride, dilation),
        groups=groups, layout=LAYOUTS[rank],
    )  # fmt: skip


def _conv_by_dots(call: NodeCall, data: int, weight: int, zero: int) -> str:
    """The same as a product of what windows see of the data, channels last, and the weights."""
    values = call.known(weight, "its weights")
    kernel, units = values.shape[2:], values.shape[0]
    stride, dilation = each(call, "strides", 2), each(call, "dilations", 2)
    margins = padding(call, kernel, stride, dilation)
    seen = call.add("transpose", [call.input(data)], order=(0, 2, 3, 1))
    if (*kernel, *stride) != (1, 1, 1, 1) or any(margins):
        start = call.value(zero) if call.has(zero) else None
        fill = 0 if start is None else int(start.reshape(()))
        seen = call.add("patches", [seen], kernel=kernel, stride=stride, dilation=dilation,
                        padding=margins, fill=fill)  # fmt: skip
    places = call.builder.type(seen).shape[:3]
    matrix = values.transpose(2, 3, 1, 0).reshape(-1, units)
    flat = call.add("reshape", [seen], shape=(math.prod(places), len(matrix)))
    total = call.add("reshape", [_dots(call, flat, matrix, zero)], shape=(*places, units))
    return call.add("transpose", [total], order=(0, 3, 1, 2))


def _conv_integer(call: NodeCall) -> str:
    return _conv_sum(call, (0, 1), (2, 3))


def _matmul_integer(call: NodeCall) -> str:
    return _product(call, (0, 1), (2, 3))


def _qlinear_conv(call: NodeCall) -> str:
    total = _conv_sum(call, (0, 3), (2, 5))
    if call.has(8):
        total = call.add("bias_add", [total, call.input(8)], axis=1)
    return _requantized(call, total, [(1, 1), (4, 1), (6, 1), (7, 1)])


def _qlinear_matmul(call: NodeCall) -> str:
    total = _product(call, (0, 3), (2, 5))
    return _requantized(call, total, [(1, -2), (4, -1), (6, -1), (7, -1)])


def _requantized(call: NodeCall, total: str, places: Sequence[tuple[int, int]]) -> str:
    """The int32 sums as integers; `places` of two scales, the result's scale and zero point."""
    rank, (zero, _) = len(call.builder.type(total).shape), places[-1]
    kind = call.type(zero).dtype.name if call.has(zero) else call.type(0).dtype.name
    if kind not in _INTEGERS:
        call.refuse(f"its result is {kind}; ansorc quantises to {', '.join(_INTEGERS)}")
    vectors = [one for place, axis in places for one in _vector(call, place, rank, axis)]
    return call.add("requantize", [total, *vectors], dtype=kind)


def _qlinear(operator: str) -> Converter:
    """An operator on two dequantised tensors: a, scale, zero, b, scale, zero, scale, zero."""

    def convert(call: NodeCall) -> str:
        left, right = (
            call.add("dequantize", [call.input(p) for p in range(n, n + 3) if call.has(p)], axis=-1)
            for n in (0, 3)
        )
        for place in (1, 2, 4, 5, 6, 7):
            if call.has(place) and call.type(place).elements > 1:
                call.refuse("it has a scale or zero point for each channel")
        result = call.add(operator, [left, right])
        kind = call.type(7).dtype.name if call.has(7) else call.type(0).dtype.name
        scales = [call.input(place) for place in (6, 7) if call.has(place)]
        return call.add("quantize", [result, *scales], dtype=kind, axis=-1)

    return convert


def _qgemm(call: NodeCall) -> str:
    if call.attribute("alpha", 1.0) != 1:
        call.refuse("an alpha other than 1 is not supported")
    is_transposed = bool(call.attribute("transB", 0))
    total = gemm(call, _shifted(call, 0, 2, -2), _shifted(call, 3, 5, 0 if is_transposed else -1))
    if call.has(6):
        total = call.add("add", [total, call.input(6)])
    if call.has(7):
        return _requantized(call, total, [(1, -2), (4, -1), (7, -1), (8, -1)])
    result = call.add("cast", [total], dtype="float32")
    for place, axis in ((1, -2), (4, -1)):
        result = call.add("multiply", [result, *_vector(call, place, 2, axis)])
    return result


QUANTIZED: Mapping[str, Converter] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
    "com.microsoft::DequantizeLinear": _dequantize,
    "com.microsoft::QGemm": _qgemm,
    "com.microsoft::QLinearAdd": _qlinear("add"),
    "com.microsoft::QLinearMul": _qlinear("multiply"),
    "com.microsoft::QuantizeLinear": _quantize,
}
