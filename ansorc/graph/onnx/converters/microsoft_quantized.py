"""Operators of com.microsoft on quantised numbers, as ONNX Runtime's quantiser writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ansorc.graph.importing.integer_products import add_packed_product, integer_product
from ansorc.graph.importing.values import LAYOUTS
from ansorc.graph.onnx.converters.quantized import INTEGERS, integers
from ansorc.graph.onnx.converters.window import each, padding, with_last_windows
from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.ir.aligned import Array

_FLAT_SOFTMAX_UNTIL = 13
"""Before that version a softmax is one over all dimensions from its axis on."""


def dequantize(call: NodeCall, index: int) -> str:
    """Add what the numbers at a place mean, with the scale and the zero point behind them."""
    names = [call.input(p) for p in range(index, index + 3) if call.has(p)]
    for number in (index + 1, index + 2):
        if call.has(number) and call.type(number).elements > 1:
            call.refuse("it has a scale or zero point for each channel")
    return call.add("dequantize", names, axis=-1)


def quantize(call: NodeCall, data: str, index: int) -> str:
    """Add numbers again, with the scale at `index` and the zero point behind it."""
    kind = call.type(index + 1).dtype.name if call.has(index + 1) else call.type(0).dtype.name
    if kind not in INTEGERS:
        call.refuse(f"its result is {kind}; ansorc quantises to {', '.join(INTEGERS)}")
    for number in (index, index + 1):
        if call.has(number) and call.type(number).elements > 1:
            call.refuse("it has a scale or zero point for each channel")
    scales = [call.input(number) for number in (index, index + 1) if call.has(number)]
    return call.add("quantize", [data, *scales], dtype=kind, axis=-1)


def _of_one(compute: Callable[[NodeCall, str], str]) -> Converter:
    """An operator on one tensor: data, scale, zero point, and those of the result."""
    return lambda call: quantize(call, compute(call, dequantize(call, 0)), 3)


def _of_two(operator: str) -> Converter:
    """An operator on two tensors, each with its scale and zero point, and those of the result."""

    def convert(call: NodeCall) -> str:
        return quantize(call, call.add(operator, [dequantize(call, 0), dequantize(call, 3)]), 6)

    return convert


def _leaky_relu(call: NodeCall, data: str) -> str:
    return call.add("leaky_relu", [data], slope=float(call.attribute("alpha", 0.01)))


def _softmax(call: NodeCall, data: str) -> str:
    shape = call.type(0).shape
    axis = call.axis(call.attribute("axis", -1), len(shape))
    if call.attribute("opset") >= _FLAT_SOFTMAX_UNTIL:
        return call.add("softmax", [data], axis=axis)
    flat = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    rows = call.add("softmax", [call.add("reshape", [data], shape=flat)], axis=1)
    return call.add("reshape", [rows], shape=shape)


def _reduce_mean(call: NodeCall, data: str) -> str:
    axes = [call.axis(axis, call.rank(0)) for axis in call.attribute("axes")]
    return call.add("mean", [data], axis=axes, keepdims=bool(call.attribute("keepdims", 1)))


def _global_mean(call: NodeCall, data: str) -> str:
    rank, first = call.rank(0), 1 if call.attribute("channels_last", 0) else 2
    return call.add("mean", [data], axis=list(range(first, first + rank - 2)), keepdims=True)


def _average_pool(call: NodeCall, data: str) -> str:
    is_last, counts_padding = (
        bool(call.attribute(name, 0)) for name in ("channels_last", "count_include_pad")
    )
    window = _window(call, is_last=is_last)
    options: dict[str, object] = {"count_include_pad": counts_padding}
    if counts_padding and window.ceil_mode:  # all of a last window counts, too
        extents = call.type(0).shape[1:-1] if is_last else call.type(0).shape[2:]
        margins = with_last_windows(window.margins, window.kernel, window.stride, extents)
        window = replace(window, margins=margins, ceil_mode=False)
    return call.add(f"avg_pool{window.rank}d", [data], **window.options(), **options)


def _nhwc_max_pool(call: NodeCall) -> str:
    window = _window(call, is_last=True)
    dilation = each(call, "dilations", window.rank)
    operator = f"max_pool{window.rank}d"
    return call.add(operator, [call.input(0)], dilation=dilation, **window.options())


@dataclass(frozen=True)
class _Window:
    """How a window moves over an image, whose channels may lie last."""

    kernel: Sequence[int]
    stride: Sequence[int]
    margins: Sequence[int]
    ceil_mode: bool
    layout: str

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def options(self) -> dict[str, object]:
        """Return the attributes of a pool."""
        return {
            "kernel": self.kernel, "stride": self.stride, "padding": self.margins,
            "ceil_mode": self.ceil_mode, "layout": self.layout,
        }  # fmt: skip


def _window(call: NodeCall, *, is_last: bool) -> _Window:
    """The window of a pool; refuse images of other numbers of dimensions than 1 to 3."""
    shape = call.type(0).shape
    rank = len(shape) - 2
    if rank not in LAYOUTS:
        call.refuse(f"its input has {rank} spatial dimensions; ansorc takes 1 to 3 of them")
    kernel, stride = list(call.attribute("kernel_shape")), each(call, "strides", rank)
    extents = shape[1:-1] if is_last else shape[2:]
    margins = padding(call, kernel, stride, each(call, "dilations", rank), extents)
    layout = f"N{LAYOUTS[rank][2:]}C" if is_last else LAYOUTS[rank]
    return _Window(kernel, stride, margins, bool(call.attribute("ceil_mode", 0)), layout)


def _concat(call: NodeCall) -> str:
    parts = [dequantize(call, index) for index in range(2, call.count, 3)]
    rank = len(call.builder.type(parts[0]).shape)
    axis = call.axis(call.attribute("axis"), rank)
    joined = call.add("concat", parts, axis=axis) if len(parts) > 1 else parts[0]
    kind = call.type(1).dtype.name
    return call.add("quantize", [joined, call.input(0), call.input(1)], dtype=kind, axis=-1)


def _where(call: NodeCall) -> str:
    given = [call.input(0), dequantize(call, 1), dequantize(call, 4)]
    return quantize(call, call.add("where", given), 7)


def dynamic_product(
    call: NodeCall, data: str, weight: Array | str, scale: str, zero: Array | str | None
) -> str:
    """Add the float product of `data` [..., k], quantised by its range, and weights [k, n].

    The weights are integers from `zero` on (a number, or one for each column), of one `scale` or
    one for each column.
    """
    values, own_scale, start = call.builder.add_many("quantize_by_range", [data], ("", "", ""))
    total = add_packed_product(call, values, start, weight, zero)
    factor = call.add("multiply", [own_scale, scale])
    return call.add("multiply", [call.add("cast", [total], dtype="float32"), factor])


def _dynamic_matmul(call: NodeCall) -> str:
    value = call.value(1)
    zero = call.value(3) if call.has(3) else None
    is_known = value is not None and (zero is not None or not call.has(3))
    weight = value if is_known and value is not None else call.input(1)
    start = zero if is_known else call.input(3) if call.has(3) else None
    result = dynamic_product(call, call.input(0), weight, _flat(call, 2), start)
    return call.add("add", [result, call.input(4)]) if call.has(4) else result


def _integer_matmul_to_float(call: NodeCall) -> str:
    if call.type(2).elements > 1:
        call.refuse("it has a scale for each row of its first matrix")
    total = call.add(
        "cast", [integer_product(call, integers(call, 0, 4), integers(call, 1, 5))], dtype="float32"
    )
    factor = call.add("multiply", [_flat(call, 2), _flat(call, 3)])
    result = call.add("multiply", [total, factor])
    return call.add("add", [result, call.input(6)]) if call.has(6) else result


def _flat(call: NodeCall, index: int) -> str:
    """Scales: a number, or a vector along the columns."""
    if call.type(index).shape == (1,):
        return call.add("reshape", [call.input(index)], shape=())
    return call.input(index)


def _integer_product_of_elements(call: NodeCall) -> str:
    zero = np.zeros((), np.int32)
    pairs = [
        [call.input(index), *([call.input(index + 1)] if call.has(index + 1) else [])]
        for index in (0, 2)
    ]
    for names in pairs:
        if len(names) > 1 and call.builder.type(names[1]).shape == (1,):
            names[1] = call.add("reshape", [names[1]], shape=zero.shape)
    return call.add("multiply", [call.add("shift", names) for names in pairs])


def _integer_sum(call: NodeCall) -> str:
    axes = [call.axis(axis, call.rank(0)) for axis in call.attribute("axes")]
    data = call.add("cast", [call.input(0)], dtype="int32")
    return call.add("sum", [data], axis=axes, keepdims=bool(call.attribute("keepdims", 1)))


def _matmul_integer16(call: NodeCall) -> str:
    data = [call.add("cast", [call.input(index)], dtype="int32") for index in (0, 1)]
    return call.add("matmul", data)


MICROSOFT_QUANTIZED: Mapping[str, Converter] = {
    "com.microsoft::DynamicQuantizeMatMul": _dynamic_matmul,
    "com.microsoft::MatMulInteger16": _matmul_integer16,
    "com.microsoft::MatMulIntegerToFloat": _integer_matmul_to_float,
    "com.microsoft::MulInteger": _integer_product_of_elements,
    "com.microsoft::NhwcMaxPool": _nhwc_max_pool,
    "com.microsoft::QLinearAdd": _of_two("add"),
    "com.microsoft::QLinearAveragePool": _of_one(_average_pool),
    "com.microsoft::QLinearConcat": _concat,
    "com.microsoft::QLinearGlobalAveragePool": _of_one(_global_mean),
    "com.microsoft::QLinearLeakyRelu": _of_one(_leaky_relu),
    "com.microsoft::QLinearMul": _of_two("multiply"),
    "com.microsoft::QLinearReduceMean": _of_one(_reduce_mean),
    "com.microsoft::QLinearSigmoid": _of_one(lambda call, data: call.add("sigmoid", [data])),
    "com.microsoft::QLinearSoftmax": _of_one(_softmax),
    "com.microsoft::QLinearWhere": _where,
    "com.microsoft::ReduceSumInteger": _integer_sum,
}
