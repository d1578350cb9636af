"""ONNX operators on quantised numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansorc.graph.importing.integer_products import (
    ConvolutionWindow,
    Integers,
    IntegerSums,
    integer_convolution,
    integer_product,
    requantize,
    subtract_zero_point,
    vector,
)
from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.converters.matmul import gemm
from ansorc.graph.onnx.converters.window import each, kernel_of, padding, spatial_rank
from ansorc.graph.onnx.model import numpy_name
from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.ir.aligned import Array

INTEGERS = ("uint8", "int8", "uint16", "int16")
"""The dtypes that numbers are quantised to."""
_SCALED = 3
"""Inputs of DequantizeLinear: numbers, scale and zero point."""
_STORED = ("int8", "uint8", "int32")
"""Integers of weights and biases."""


def _quantize(call: NodeCall) -> str:
    given = call.attribute("output_dtype", 0)
    kind = numpy_name(given) if given else "uint8"
    if call.has(2):
        kind = call.type(2).dtype.name
    if kind not in INTEGERS:
        call.refuse(f"it quantises to {kind}; ansorc does so to {', '.join(INTEGERS)}")
    return call.add("quantize", _list_inputs(call, 3), dtype=kind, **_blocks(call))


def _dequantize(call: NodeCall) -> str:
    if not call.type(0).dtype.is_integer:
        call.refuse(f"its input is {call.type(0).dtype}; ansorc dequantises integers")
    return call.add("dequantize", _list_inputs(call, 3), **_blocks(call))


def _list_inputs(call: NodeCall, count: int) -> list[str]:
    return [call.input(index) for index in range(count) if call.has(index)]


def _blocks(call: NodeCall) -> dict[str, object]:
    """Along which axis there are scales, and of how many places each."""
    given = {"axis": call.attribute("axis", 1), "block": call.attribute("block_size", 0)}
    return {"axis": -1} if not call.rank(1) or call.type(1).shape == (1,) else given


def _dynamic(call: NodeCall) -> Sequence[str]:
    return call.builder.add_many("quantize_by_range", [call.input(0)], ("", "", ""))


def defer_dequantizing(call: NodeCall, result: Array) -> None:
    """Let `result`, computed at import, be added to the graph as a node of integers, too.

    A product may then be one of the integers themselves; else the node is computed later.
    """
    arrays = [call.value(index) for index in range(call.count)]
    parts = [
        (name, array)
        for name, array in zip(call.node.inputs, arrays, strict=True)
        if array is not None
    ]
    options = _blocks(call)
    is_stored = len(parts) == _SCALED and parts[0][1].dtype.name in _STORED
    if is_stored and not options.get("block") and result.size:
        call.builder.defer(result, "dequantize_constant", parts, axis=options["axis"])


def integers(call: NodeCall, index: int, zero: int) -> Integers:
    """Return the input at `index` with its zero point, the input `zero` if that is given."""
    return Integers(_value(call, index), _optional(call, zero))


def _value(call: NodeCall, index: int) -> Value:
    known = call.value(index)
    return call.input(index) if known is None else known


def _optional(call: NodeCall, index: int) -> Value | None:
    return _value(call, index) if call.has(index) else None


def _convolution(
    call: NodeCall, places: Sequence[int], zeros: Sequence[int], bias: int | None = None
) -> IntegerSums:
    """Return the sums of a convolution of inputs without their zero points, and of a bias."""
    rank, (data, weight), (start, first) = spatial_rank(call), places, zeros
    kernel = kernel_of(call, weight)
    stride, dilation = each(call, "strides", rank), each(call, "dilations", rank)
    margins = padding(call, kernel, stride, dilation)
    if min(margins) < 0:
        call.refuse(f"its pads {margins} are negative; ansorc cuts what floats convolve alone")
    window = ConvolutionWindow(stride, dilation, margins, call.attribute("group", 1))
    return integer_convolution(
        call, integers(call, data, start), integers(call, weight, first),
        None if bias is None else _optional(call, bias), window,
    )  # fmt: skip


def _conv_integer(call: NodeCall) -> str:
    sums = _convolution(call, (0, 1), (2, 3))
    return sums.restore_shape(call, sums.name)


def _matmul_integer(call: NodeCall) -> str:
    return integer_product(call, integers(call, 0, 2), integers(call, 1, 3))


def _qlinear_conv(call: NodeCall) -> str:
    sums = _convolution(call, (0, 3), (2, 5), 8)
    axes = [(1, sums.axis), (4, sums.axis), (6, sums.axis), (7, sums.axis)]
    return sums.restore_shape(call, _requantize(call, sums.name, axes))


def _qlinear_matmul(call: NodeCall) -> str:
    total = integer_product(call, integers(call, 0, 2), integers(call, 3, 5))
    return _requantize(call, total, [(1, -2), (4, -1), (6, -1), (7, -1)])


def _requantize(call: NodeCall, total: str, places: Sequence[tuple[int, int]]) -> str:
    """Return int32 sums as integers; `places` of two scales, the result's scale and zero point."""
    *scales, (zero, axis) = places
    kind = call.type(zero).dtype.name if call.has(zero) else call.type(0).dtype.name
    if kind not in INTEGERS:
        call.refuse(f"its result is {kind}; ansorc quantises to {', '.join(INTEGERS)}")
    factors = [(_value(call, index), along_axis) for index, along_axis in scales]
    return requantize(call, total, factors, (_optional(call, zero), axis), kind)


def _qgemm(call: NodeCall) -> str:
    if call.attribute("alpha", 1.0) != 1 or call.attribute("beta", 1.0) != 1:
        call.refuse("an alpha or a beta other than 1 is not supported")
    is_transposed = bool(call.attribute("transB", 0))
    left, right = integers(call, 0, 2), integers(call, 3, 5)
    if call.attribute("transA", 0):
        axis = 0 if is_transposed else -1
        total = gemm(
            call, subtract_zero_point(call, left, -2), subtract_zero_point(call, right, axis)
        )
    else:
        total = integer_product(call, left, right, is_transposed=is_transposed)
    if call.has(6):
        total = call.add("add", [total, call.input(6)])
    if call.has(7):
        return _requantize(call, total, [(1, -2), (4, -1), (7, -1), (8, -1)])
    result = call.add("cast", [total], dtype="float32")
    for index, axis in ((1, -2), (4, -1)):
        result = call.add("multiply", [result, *vector(call, _value(call, index), 2, axis)])
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
    "com.microsoft::QuantizeLinear": _quantize,
}
