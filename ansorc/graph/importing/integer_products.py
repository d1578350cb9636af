"""Products of quantised tensors: integers without their zero points, summed in int32.

Where the weights are known, the data is multiplied as it is, and the share of its zero point is
added to the sums, which is known then:

    sum((data - zero) * weight)  ->  sum(data * weight) - zero * sum(weight)

Bytes of data and int8 weights are multiplied as they are, with channels last: an instruction of the
machine adds two or four such products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ansorc.graph.importing.converter_call import ConverterCall
from ansorc.graph.importing.products import product
from ansorc.graph.importing.values import LAYOUTS, Value
from ansorc.ir.aligned import Array

TERMS = 4
"""Products that one instruction adds up."""
BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class Integers:
    """A tensor of integers that count from a zero point; each a tensor of the graph, or known."""

    values: Value
    zero: Value | None = None
    """A number, or a vector along an axis; None: 0."""


@dataclass(frozen=True)
class _KnownWeights:
    """The facts known at import of a product of integers, whose data has one zero point."""

    weight: Array
    """Without its zero points, in int8 or int16."""
    zero: int
    """That of the data."""
    is_for_dots: bool
    """Whether bytes are multiplied by int8, so that sums of four products are exact."""

    def offset(self, *terms: int, bias: Array | None = None) -> Array:
        """Return what to add to sums of products of the data as it is; `terms` are reduced."""
        surplus = self.weight.sum(terms, dtype=np.int32) * np.int32(self.zero)
        return np.asarray((0 if bias is None else bias.astype(np.int32)) - surplus, np.int32)


def integer_product(
    call: ConverterCall, left: Integers, right: Integers, *, is_transposed: bool = False
) -> str:
    """Return numpy.matmul of two tensors without their zero points, in int32.

    A second one that `is_transposed` is a matrix [units, k].
    """
    axis = 0 if is_transposed else -1
    known = _find_known_weights(call, left, right, axis)
    if known is not None and known.weight.ndim == 2 and known.is_for_dots:
        shape = call.type_of_value(left.values).shape
        weight = known.weight.T if is_transposed else known.weight
        data, known = _as_unsigned(call, left.values, known)
        flat = call.add("reshape", [data], shape=(math.prod(shape[:-1]), shape[-1]))
        total = _dots(call, flat, weight, known.offset(1 if is_transposed else 0))
        return call.add("reshape", [total], shape=(*shape[:-1], weight.shape[1]))
    factors = subtract_zero_point(call, left, -2), subtract_zero_point(call, right, axis)
    return call.add("dense", factors) if is_transposed else product(call, *factors)


def add_packed_product(
    call: ConverterCall, data: str, start: str, weight: Value, zero: Value | None
) -> str:
    """Return the int32 product of uint8 `data` [..., k] and weights [k, n], without zero points.

    The zero point `start` of the data is computed in a run; those of the weights are one number,
    or one for each column.
    """
    if isinstance(weight, str) or isinstance(zero, str):
        left = call.add("shift", [data, start])
        zeros = [] if zero is None else [_flatten_zero_point(call, call.name_value(zero))]
        right = call.add("shift", [call.name_value(weight), *zeros])
        return product(call, left, right)
    centred = weight.astype(np.int32)
    if zero is not None:
        centred = centred - zero.astype(np.int32).reshape(() if zero.size == 1 else (1, -1))
    shape = call.builder.type(data).shape
    if weight.ndim != 2 or not _is_narrow(centred):
        return product(call, call.add("shift", [data, start]), call.constant(centred))
    flat = call.add("reshape", [data], shape=(math.prod(shape[:-1]), shape[-1]))
    total = _dots(call, flat, centred, np.zeros(1, np.int32))
    surplus = call.constant(centred.sum(0, dtype=np.int32))
    surplus = call.add("multiply", [call.add("cast", [start], dtype="int32"), surplus])
    total = call.add("subtract", [total, surplus])
    return call.add("reshape", [total], shape=(*shape[:-1], weight.shape[1]))


def subtract_zero_point(call: ConverterCall, integers: Integers, axis: int) -> str:
    """Return a tensor without its zero point, in int32; a vector of them lies along `axis`."""
    rank = len(call.type_of_value(integers.values).shape)
    known = call.find_values(integers.values)
    zero = np.zeros((), np.int8) if integers.zero is None else call.find_values(integers.zero)
    if known is not None and zero is not None:
        shape = along(zero.shape, rank, axis)
        return call.constant(known.astype(np.int32) - zero.astype(np.int32).reshape(shape))
    data = call.name_value(integers.values)
    return call.add("shift", [data, *vector(call, integers.zero, rank, axis)])


def vector(call: ConverterCall, value: Value | None, rank: int, axis: int) -> list[str]:
    """Return a number, or a vector along `axis`, in a form that is broadcast; [] of None."""
    if value is None:
        return []
    shape = call.type_of_value(value).shape
    wanted = along(shape, rank, axis)
    data = call.name_value(value)
    return [data if wanted == shape else call.add("reshape", [data], shape=wanted)]


def along(shape: tuple[int, ...], rank: int, axis: int) -> tuple[int, ...]:
    """Return the shape of a vector that is broadcast along `axis`; others stay as they are."""
    if len(shape) == 1 and shape[0] > 1:
        return (shape[0], *[1] * (rank - 1 - axis % rank))
    return () if shape == (1,) else shape


@dataclass(frozen=True)
class IntegerSums:
    """The int32 sums of a convolution: channels first, channels last, or as a matrix."""

    name: str
    axis: int
    """That of the channels."""
    image: tuple[int, ...] = ()
    """The places of the rows of a matrix, [n, h, w]."""

    def restore_shape(self, call: ConverterCall, name: str) -> str:
        """Return a tensor of the form of the sums with channels first."""
        if self.axis == 1 and not self.image:
            return name
        if self.image:
            units = call.builder.type(name).shape[1]
            name = call.add("reshape", [name], shape=(*self.image, units))
        return call.add("transpose", [name], order=(0, 3, 1, 2))


@dataclass(frozen=True)
class ConvolutionWindow:
    """How the window of a convolution moves: a number for each spatial dimension."""

    stride: Sequence[int]
    dilation: Sequence[int]
    margins: Sequence[int]
    """Those before all dimensions, then those after."""
    groups: int

    @property
    def options(self) -> Mapping[str, Any]:
        """The attributes of an operator that moves it."""
        return {"stride": self.stride, "dilation": self.dilation, "padding": self.margins}


def integer_convolution(
    call: ConverterCall,
    data: Integers,
    weight: Integers,
    bias: Value | None,
    window: ConvolutionWindow,
) -> IntegerSums:
    """Return the sums of a convolution, channels first, of inputs without zero points, and a bias.

    The bias is of integers that have the scale of the sums.
    """
    rank = len(window.stride)
    known = _find_known_weights(call, data, weight, 0)
    values = None if bias is None or known is None else call.find_values(bias)
    if known is None:
        tensors = [subtract_zero_point(call, data, 1), subtract_zero_point(call, weight, 0)]
        total = call.add(
            f"conv{rank}d", tensors, groups=window.groups, layout=LAYOUTS[rank], **window.options
        )
        sums = IntegerSums(total, 1)
    elif known.is_for_dots and window.groups == 1 and rank == 2:
        name, known = _as_unsigned(call, data.values, known)
        offset = known.offset(1, 2, 3, bias=values)
        sums = _convolution_by_dots(call, name, known, offset, window)
    else:
        tensors = [call.name_value(data.values), call.constant(known.weight)]
        total = call.add(
            f"conv{rank}d", tensors, **window.options, groups=window.groups, layout=LAYOUTS[rank],
            sum_dtype="int32", pad_value=known.zero,
        )  # fmt: skip
        offset = known.offset(*range(1, rank + 2), bias=values)
        sums = IntegerSums(_add_bias(call, total, offset, 1), 1)
    if bias is None or values is not None:
        return sums
    total = call.add("bias_add", [sums.name, call.name_value(bias)], axis=sums.axis)
    return replace(sums, name=total)


def requantize(
    call: ConverterCall,
    total: str,
    scales: Sequence[tuple[Value, int]],
    zero: tuple[Value | None, int],
    kind: str,
) -> str:
    """Return int32 sums as integers of the dtype `kind`.

    `scales` are those of both factors and of the result, each with the axis that it lies along, and
    so is the zero point of the result.
    """
    rank = len(call.builder.type(total).shape)
    start = vector(call, zero[0], rank, zero[1])
    return call.add("requantize", [total, _factor(call, scales, rank), *start], dtype=kind)


def _factor(call: ConverterCall, scales: Sequence[tuple[Value, int]], rank: int) -> str:
    """Return the scales of both factors over that of the result."""
    left, right, scale = (
        None if known is None else known.reshape(along(known.shape, rank, axis))
        for known, axis in ((call.find_values(value), axis) for value, axis in scales)
    )
    if left is not None and right is not None and scale is not None:
        return call.constant(left * right / scale)
    names = [name for value, axis in scales for name in vector(call, value, rank, axis)]
    return call.add("divide", [call.add("multiply", names[:2]), names[2]])


def _find_known_weights(
    call: ConverterCall, data: Integers, weight: Integers, axis: int
) -> _KnownWeights | None:
    """Return the weights, whose channels lie along `axis`, and the data's zero point.

    None if they depend on the network's input.
    """
    values = call.find_values(weight.values)
    start, first = (
        np.zeros((), np.int8) if zero is None else call.find_values(zero)
        for zero in (data.zero, weight.zero)
    )
    if values is None or first is None or start is None or start.size != 1:
        return None
    shape = along(first.shape, values.ndim, axis)
    centred = values.astype(np.int32) - first.astype(np.int32).reshape(shape)
    is_narrow = _is_narrow(centred)
    is_byte = call.type_of_value(data.values).dtype.name in BYTES
    stored = centred.astype(np.int8 if is_narrow else np.int16)
    return _KnownWeights(stored, int(start.reshape(())), is_byte and is_narrow)


def _is_narrow(values: Array) -> bool:
    """Return whether integers fit int8."""
    return bool(np.all(np.abs(values + 0.5) < 128))


def _as_unsigned(
    call: ConverterCall, data: Value, known: _KnownWeights
) -> tuple[str, _KnownWeights]:
    """Return bytes as uint8, which instructions multiply by int8, and what is known of them."""
    name = call.name_value(data)
    if call.builder.type(name).dtype.name == "uint8":
        return name, known
    return call.add("as_unsigned", [name]), replace(known, zero=known.zero + 128)


def _dots(call: ConverterCall, data: str, weight: Array, offset: Array) -> str:
    """Return data [n, k] times weight [k, units] in int32, plus `offset`.

    Instructions add up several products: the depth is padded to a multiple of what they take.
    """
    depth, units = weight.shape
    full = np.zeros((-(-depth // TERMS) * TERMS, units), np.int8)
    full[:depth] = weight
    if len(full) > depth:
        data = call.add("pad", [data], before=(0, 0), after=(0, len(full) - depth))
    total = call.add("matmul", [data, call.constant(full)], sum_dtype="int32")
    return _add_bias(call, total, offset, 1)


def _add_bias(call: ConverterCall, total: str, offset: Array, axis: int) -> str:
    if not offset.any():
        return total
    return call.add("bias_add", [total, call.constant(offset)], axis=axis)


def _flatten_zero_point(call: ConverterCall, zero: str) -> str:
    """Return a zero point of shape [1] as one of shape []."""
    is_vector = call.builder.type(zero).shape == (1,)
    return call.add("reshape", [zero], shape=()) if is_vector else zero


def _convolution_by_dots(
    call: ConverterCall, data: str, known: _KnownWeights, offset: Array, window: ConvolutionWindow
) -> IntegerSums:
    """Return a product of what windows see of the data, channels last, and the weights."""
    kernel, units = known.weight.shape[2:], len(known.weight)
    seen = call.add("transpose", [data], order=(0, 2, 3, 1))
    is_window = (*kernel, *window.stride) != (1, 1, 1, 1) or any(window.margins)
    if is_window and known.weight.shape[1] % TERMS == 0:
        weight = call.constant(np.ascontiguousarray(known.weight.transpose(2, 3, 1, 0)))
        total = call.add(
            "conv2d", [seen, weight], **window.options, groups=1, layout="NHWC", sum_dtype="int32",
            pad_value=known.zero,
        )  # fmt: skip
        return IntegerSums(_add_bias(call, total, offset, 3), 3)
    if is_window:
        n, h, w, channels = call.builder.type(seen).shape
        step = channels if window.dilation[1] == 1 else 1
        if step > 1:  # rows adjoin
            seen = call.add("reshape", [seen], shape=(n, h, w * channels))
        seen = call.add(
            "patches", [seen], kernel=kernel, fill=known.zero, channels=step, **window.options
        )
    image = call.builder.type(seen).shape[:3]
    matrix = known.weight.transpose(2, 3, 1, 0).reshape(-1, units)
    flat = call.add("reshape", [seen], shape=(math.prod(image), len(matrix)))
    return IntegerSums(_dots(call, flat, matrix, offset), 1, image)
