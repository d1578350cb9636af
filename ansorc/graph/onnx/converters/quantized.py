"""ONNX operators on quantised numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ansorc.graph.onnx.converters.matmul import gemm, product
from ansorc.graph.onnx.converters.window import LAYOUTS, each, kernel_of, padding, spatial_rank
from ansorc.graph.onnx.model import numpy_name
from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.ir.aligned import Array

_TERMS = 4
"""Products that one instruction adds up."""
INTEGERS = ("uint8", "int8", "uint16", "int16")
"""What numbers are quantised to."""


def _quantize(call: NodeCall) -> str:
    given = call.attribute("output_dtype", 0)
    kind = numpy_name(given) if given else "uint8"
    if call.has(2):
        kind = call.type(2).dtype.name
    if kind not in INTEGERS:
        call.refuse(f"it quantises to {kind}; ansorc does so to {', '.join(INTEGERS)}")
    return call.add("quantize", _given(call, 3), dtype=kind, **_blocks(call))


def _dequantize(call: NodeCall) -> str:
    if not call.type(0).dtype.is_integer:
        call.refuse(f"its input is {call.type(0).dtype}; ansorc dequantises integers")
    return call.add("dequantize", _given(call, 3), **_blocks(call))


def _given(call: NodeCall, count: int) -> list[str]:
    return [call.input(index) for index in range(count) if call.has(index)]


def _blocks(call: NodeCall) -> dict[str, object]:
    """Along which axis there are scales, and of how many places each."""
    given = {"axis": call.attribute("axis", 1), "block": call.attribute("block_size", 0)}
    return {"axis": -1} if not call.rank(1) or call.type(1).shape == (1,) else given


def _dynamic(call: NodeCall) -> Sequence[str]:
    return call.builder.add_many("quantize_by_range", [call.input(0)], ("", "", ""))


def _shifted(call: NodeCall, index: int, zero: int, axis: int) -> str:
    """An input without its zero point, in int32; a vector of zero points lies along `axis`."""
    data, rank = call.input(index), call.rank(index)
    known = call.value(index)
    start = call.value(zero) if call.has(zero) else np.zeros((), np.int8)
    shape = _along(call.type(zero).shape, rank, axis) if call.has(zero) else ()
    if known is not None and start is not None:
        return call.constant(known.astype(np.int32) - start.astype(np.int32).reshape(shape))
    return call.add("shift", [data, *_vector(call, zero, rank, axis)])


def integer_product(call: NodeCall, places: Sequence[int], zeros: Sequence[int]) -> str:
    """Return the int32 product of two inputs without their zero points."""
    (data, weight), (start, first) = places, zeros
    known = _known(call, places, zeros, -1)
    if known is not None and known.weight.ndim == 2 and known.is_for_dots:
        shape = call.type(data).shape
        name, known = _unsigned(call, data, known)
        flat = call.add("reshape", [name], shape=(math.prod(shape[:-1]), shape[-1]))
        total = _dots(call, flat, known.weight, known.offset(0))
        return call.add("reshape", [total], shape=(*shape[:-1], known.weight.shape[1]))
    return product(call, _shifted(call, data, start, -2), _shifted(call, weight, first, -1))


@dataclass(frozen=True)
class _IntegerWeights:
    """The facts known at import of a product of integers, whose data has one zero point."""

    weight: Array
    """Without its zero points, in int8 or int16."""
    zero: int
    is_for_dots: bool
    """Whether bytes are multiplied by int8, so that sums of four products are exact."""

    def offset(self, *terms: int, bias: Array | None = None) -> Array:
        """Return what to add to sums of products of the data as it is; `terms` are reduced."""
        surplus = self.weight.sum(terms, dtype=np.int32) * np.int32(self.zero)
        return np.asarray((0 if bias is None else bias.astype(np.int32)) - surplus, np.int32)


def _known(
    call: NodeCall, places: Sequence[int], zeros: Sequence[int], axis: int
) -> _IntegerWeights | None:
    """The weights, whose channels lie along `axis`, and the data's zero point.

    None if they depend on the network's input.
    """
    values = call.value(places[1])
    start, first = (call.value(z) if call.has(z) else np.zeros((), np.int8) for z in zeros)
    if values is None or first is None or start is None or start.size != 1:
        return None
    shape = _along(first.shape, values.ndim, axis)
    weight = values.astype(np.int32) - first.astype(np.int32).reshape(shape)
    is_narrow = bool(np.all(np.abs(weight + 0.5) < 128))
    is_byte = call.type(places[0]).dtype.name in ("int8", "uint8")
    narrowed = weight.astype(np.int8 if is_narrow else np.int16)
    return _IntegerWeights(narrowed, int(start.reshape(())), is_byte and is_narrow)


def _unsigned(call: NodeCall, index: int, known: _IntegerWeights) -> tuple[str, _IntegerWeights]:
    """Bytes as uint8, which instructions multiply by int8, and what is known of them then."""
    data = call.input(index)
    if call.type(index).dtype.name == "uint8":
        return data, known
    return call.add("as_unsigned", [data]), replace(known, zero=known.zero + 128)


def _dots(call: NodeCall, data: str, weight: Array, offset: Array) -> str:
    """data [n, k] times weight [k, units], by dot products of four, plus `offset`."""
    depth, units = weight.shape
    full = np.zeros((-(-depth // _TERMS) * _TERMS, units), np.int8)
    full[:depth] = weight
    packed = full.T.reshape(units, len(full) // _TERMS, _TERMS).transpose(1, 0, 2)
    if len(full) > depth:
        data = call.add("pad", [data], before=(0, 0), after=(0, len(full) - depth))
    total = call.add("dense_packed", [data, call.constant(np.ascontiguousarray(packed))])
    return _biased(call, total, offset, 1)


def packed_product(
    call: NodeCall, data: str, start: str, weight: Array | str, zero: Array | str | None
) -> str:
    """Return the int32 product of uint8 `data` [..., k] and weights [k, n], without zero points.

    The zero point `start` of the data is computed in a run; those of the weights are one number,
    or one for each column.
    """
    if isinstance(weight, str) or isinstance(zero, str):
        factors = [call.add("shift", [data, start])]
        names = [each if isinstance(each, str) else call.constant(each) for each in (weight, zero)
                 if each is not None]  # fmt: skip
        factors.append(call.add("shift", [names[0], *map(_flattened(call), names[1:])]))
        return product(call, factors[0], factors[1])
    centred = weight.astype(np.int32)
    if zero is not None:
        centred = centred - zero.astype(np.int32).reshape(() if zero.size == 1 else (1, -1))
    shape = call.builder.type(data).shape
    if weight.ndim != 2 or not np.all(np.abs(centred + 0.5) < 128):
        return product(call, call.add("shift", [data, start]), call.constant(centred))
    flat = call.add("reshape", [data], shape=(math.prod(shape[:-1]), shape[-1]))
    total = _dots(call, flat, centred, np.zeros(1, np.int32))
    surplus = call.constant(centred.sum(0, dtype=np.int32))
    surplus = call.add("multiply", [call.add("cast", [start], dtype="int32"), surplus])
    total = call.add("subtract", [total, surplus])
    return call.add("reshape", [total], shape=(*shape[:-1], weight.shape[1]))


def _flattened(call: NodeCall) -> Callable[[str], str]:
    """Return a function that makes a zero point of shape [1] one of shape []."""
    return lambda name: (
        call.add("reshape", [name], shape=()) if call.builder.type(name).shape == (1,) else name
    )


def _vector(call: NodeCall, index: int, rank: int, axis: int) -> list[str]:
    """An input that is a number, or a vector along `axis`, in a form that is broadcast."""
    if not call.has(index):
        return []
    shape = call.type(index).shape
    wanted = _along(shape, rank, axis)
    data = call.input(index)
    return [data if wanted == shape else call.add("reshape", [data], shape=wanted)]


def _along(shape: tuple[int, ...], rank: int, axis: int) -> tuple[int, ...]:
    """The shape of a vector that is broadcast along `axis`; others stay as they are."""
    if len(shape) == 1 and shape[0] > 1:
        return (shape[0], *[1] * (rank - 1 - axis % rank))
    return () if shape == (1,) else shape


@dataclass(frozen=True)
class _IntegerSums:
    """The int32 sums of a convolution: as ONNX has them, with channels last, or as a matrix."""

    name: str
    axis: int
    """That of the channels."""
    image: tuple[int, ...] = ()
    """The places of the rows of a matrix, [n, h, w]."""

    def restored(self, call: NodeCall, name: str) -> str:
        """Return a tensor of the form of the sums as ONNX has it."""
        if self.axis == 1 and not self.image:
            return name
        if self.image:
            units = call.builder.type(name).shape[1]
            name = call.add("reshape", [name], shape=(*self.image, units))
        return call.add("transpose", [name], order=(0, 3, 1, 2))


def _conv_sums(
    call: NodeCall, places: Sequence[int], zeros: Sequence[int], bias: int | None = None
) -> _IntegerSums:
    """The sums of a convolution of inputs without their zero points, and of a bias."""
    rank, (data, weight), (start, first) = spatial_rank(call), places, zeros
    kernel, groups = kernel_of(call, weight), call.attribute("group", 1)
    stride, dilation = each(call, "strides", rank), each(call, "dilations", rank)
    margins = padding(call, kernel, stride, dilation)
    if min(margins) < 0:
        call.refuse(f"its pads {margins} are negative; ansorc cuts what floats convolve alone")
    window: dict[str, Any] = {"stride": stride, "dilation": dilation, "padding": margins}
    has_bias = bias is not None and call.has(bias)
    values = call.value(bias) if has_bias and bias is not None else None
    known = _known(call, places, zeros, 0)
    if known is None:
        tensors = [_shifted(call, data, start, 1), _shifted(call, weight, first, 0)]
        total = call.add(f"conv{rank}d", tensors, groups=groups, layout=LAYOUTS[rank], **window)
        sums = _IntegerSums(total, 1)
    else:
        has_bias = has_bias and values is None
        if known.is_for_dots and groups == 1 and rank == 2:
            name, known = _unsigned(call, data, known)
            sums = _conv_by_dots(call, name, known, known.offset(1, 2, 3, bias=values), window)
        else:
            total = call.add(
                f"conv{rank}d", [call.input(data), call.constant(known.weight)], **window,
                groups=groups, layout=LAYOUTS[rank], sum_dtype="int32", pad_value=known.zero,
            )  # fmt: skip
            offset = known.offset(*range(1, rank + 2), bias=values)
            sums = _IntegerSums(_biased(call, total, offset, 1), 1)
    if has_bias and bias is not None:
        total = call.add("bias_add", [sums.name, call.input(bias)], axis=sums.axis)
        sums = replace(sums, name=total)
    return sums


def _biased(call: NodeCall, total: str, offset: Array, axis: int) -> str:
    if not offset.any():
        return total
    return call.add("bias_add", [total, call.constant(offset)], axis=axis)


def _conv_by_dots(
    call: NodeCall, data: str, known: _IntegerWeights, offset: Array, window: Mapping[str, Any]
) -> _IntegerSums:
    """A product of what windows see of the data, channels last, and the weights."""
    kernel, units = known.weight.shape[2:], len(known.weight)
    seen = call.add("transpose", [data], order=(0, 2, 3, 1))
    is_window = (*kernel, *window["stride"]) != (1, 1, 1, 1) or any(window["padding"])
    if is_window and known.weight.shape[1] % _TERMS == 0:
        shape = (units, known.weight.shape[1] // _TERMS, _TERMS, *kernel)
        packed = known.weight.reshape(shape).transpose(3, 4, 1, 0, 2)
        weight = call.constant(np.ascontiguousarray(packed))
        total = call.add("conv_packed", [seen, weight], fill=known.zero, **window)
        return _IntegerSums(_biased(call, total, offset, 3), 3)
    if is_window:
        n, h, w, channels = call.builder.type(seen).shape
        step = channels if window["dilation"][1] == 1 else 1
        if step > 1:  # rows adjoin
            seen = call.add("reshape", [seen], shape=(n, h, w * channels))
        seen = call.add("patches", [seen], kernel=kernel, fill=known.zero, channels=step, **window)
    image = call.builder.type(seen).shape[:3]
    matrix = known.weight.transpose(2, 3, 1, 0).reshape(-1, units)
    flat = call.add("reshape", [seen], shape=(math.prod(image), len(matrix)))
    return _IntegerSums(_dots(call, flat, matrix, offset), 1, image)


def _conv_integer(call: NodeCall) -> str:
    sums = _conv_sums(call, (0, 1), (2, 3))
    return sums.restored(call, sums.name)


def _matmul_integer(call: NodeCall) -> str:
    return integer_product(call, (0, 1), (2, 3))


def _qlinear_conv(call: NodeCall) -> str:
    sums = _conv_sums(call, (0, 3), (2, 5), 8)
    axes = [(1, sums.axis), (4, sums.axis), (6, sums.axis), (7, sums.axis)]
    return sums.restored(call, _requantized(call, sums.name, axes))


def _qlinear_matmul(call: NodeCall) -> str:
    total = integer_product(call, (0, 3), (2, 5))
    return _requantized(call, total, [(1, -2), (4, -1), (6, -1), (7, -1)])


def _requantized(call: NodeCall, total: str, places: Sequence[tuple[int, int]]) -> str:
    """The int32 sums as integers; `places` of two scales, the result's scale and zero point."""
    rank, (zero, _) = len(call.builder.type(total).shape), places[-1]
    kind = call.type(zero).dtype.name if call.has(zero) else call.type(0).dtype.name
    if kind not in INTEGERS:
        call.refuse(f"its result is {kind}; ansorc quantises to {', '.join(INTEGERS)}")
    factor = _factor(call, places[:-1], rank)
    start = _vector(call, zero, rank, places[-1][1])
    return call.add("requantize", [total, factor, *start], dtype=kind)


def _factor(call: NodeCall, places: Sequence[tuple[int, int]], rank: int) -> str:
    """The scales of both factors over that of the result."""
    known = [call.value(index) for index, _ in places]
    left, right, scale = (
        None if vector is None else vector.reshape(_along(vector.shape, rank, axis))
        for vector, (_, axis) in zip(known, places, strict=True)
    )
    if left is not None and right is not None and scale is not None:
        return call.constant(left * right / scale)
    names = [vector for index, axis in places for vector in _vector(call, index, rank, axis)]
    return call.add("divide", [call.add("multiply", names[:2]), names[2]])


def _qgemm(call: NodeCall) -> str:
    if call.attribute("alpha", 1.0) != 1 or call.attribute("beta", 1.0) != 1:
        call.refuse("an alpha or a beta other than 1 is not supported")
    is_transposed = bool(call.attribute("transB", 0))
    axis = 0 if is_transposed else -1
    known = _known(call, (0, 3), (2, 5), axis)
    if known is not None and known.is_for_dots and not call.attribute("transA", 0):
        weight = known.weight.T if is_transposed else known.weight
        data, known = _unsigned(call, 0, known)
        total = _dots(call, data, weight, known.offset(1 if is_transposed else 0))
    else:
        total = gemm(call, _shifted(call, 0, 2, -2), _shifted(call, 3, 5, axis))
    if call.has(6):
        total = call.add("add", [total, call.input(6)])
    if call.has(7):
        return _requantized(call, total, [(1, -2), (4, -1), (7, -1), (8, -1)])
    result = call.add("cast", [total], dtype="float32")
    for index, axis in ((1, -2), (4, -1)):
        result = call.add("multiply", [result, *_vector(call, index, 2, axis)])
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
