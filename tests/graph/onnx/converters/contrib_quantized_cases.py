"""Random nodes of com.microsoft on quantised numbers, and what they mean in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ansorc.ir.aligned import Array
from tests.graph.onnx.converters.contrib_cases import (
    F32,
    ContribCase,
    Rng,
    bytes_of,
    chance,
    numbers,
    softmax,
)


def meant(values: Array, scale: float, zero: Array) -> Array:
    return (values.astype(np.float64) - float(zero)) * float(F32(scale))


def rounded(x: Array, scale: float, zero: Array) -> Array:
    ends = np.iinfo(zero.dtype)
    return np.clip(np.round(x / float(F32(scale))) + float(zero), ends.min, ends.max)


def scale_of(value: float) -> Array:
    return np.array(value, F32)


def of_one(rng: Rng) -> ContribCase:
    """A function of one tensor."""
    signed = chance(rng, 0.5)
    data = bytes_of(rng, 1, 4, 5, 6, signed=signed)
    zero = np.array(-5 if signed else 120, data.dtype)
    low = np.array(-128 if signed else 0, data.dtype)
    x = meant(data, 0.03, zero)
    is_last, keeps = chance(rng, 0.5), chance(rng, 0.5)
    opset, axis = (int(rng.choice(one)) for one in ((12, 13), (1, 2, 3)))
    spatial = (1, 2) if is_last else (2, 3)
    flat = softmax(x.reshape(int(np.prod(x.shape[:axis])), -1)).reshape(x.shape)
    table: list[tuple[str, Array, dict[str, Any], float, Array]] = [
        ("QLinearSigmoid", 1 / (1 + np.exp(-x)), {}, 1 / 256, low),
        ("QLinearLeakyRelu", np.where(x < 0, 0.2 * x, x), {"alpha": 0.2}, 0.02, zero),
        ("QLinearGlobalAveragePool", x.mean(spatial, keepdims=True),
         {"channels_last": int(is_last)}, 0.02, zero),
        ("QLinearReduceMean", x.mean((2, 3), keepdims=keeps),
         {"axes": [2, 3], "keepdims": int(keeps)}, 0.02, zero),
        ("QLinearSoftmax", softmax(x, axis) if opset > 12 else flat,
         {"opset": opset, "axis": axis}, 1 / 256, low),
    ]  # fmt: skip
    name, result, options, scale, start = table[int(rng.integers(len(table)))]
    inputs = [data, scale_of(0.03), zero, scale_of(scale), start]
    return ContribCase(name, inputs, [rounded(result, scale, start)], options, (1, 2, 3, 4), 1.0,
                       name != "QLinearReduceMean")  # fmt: skip


def mean_pool(rng: Rng) -> ContribCase:
    data, zero = bytes_of(rng, 1, 2, 5, 8), np.array(7, np.uint8)
    counts, is_last = chance(rng, 0.5), chance(rng, 0.5)
    x = meant(data, 0.03, zero)
    room = ((0, 0), (0, 0), (1, 3), (0, 3))
    sums, shares = (
        np.lib.stride_tricks.sliding_window_view(np.pad(one, room), (2, 3), (2, 3)).sum((4, 5))
        for one in (x, np.ones_like(x))
    )
    sums, shares = (one[:, :, :, ::2] for one in (sums, shares))
    is_ceil = chance(rng, 0.5)  # windows begin at columns 0, 2, 4, and with ceil at 6 of 8
    sums, shares = (one[:, :, :6, : 4 if is_ceil else 3] for one in (sums, shares))
    result = sums / (6 if counts else shares)
    options = {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 0, 1, 0]}
    options |= {"count_include_pad": int(counts), "ceil_mode": int(is_ceil)}
    options |= {"channels_last": int(is_last)}
    return pooled(data, result, zero, options, is_last=is_last)


def pooled(
    data: Array, result: Array, zero: Array, options: dict[str, Any], *, is_last: bool
) -> ContribCase:
    if is_last:
        data, result = (np.ascontiguousarray(one.transpose(0, 2, 3, 1)) for one in (data, result))
    inputs = [data, scale_of(0.03), zero, scale_of(0.02), zero]
    return ContribCase("QLinearAveragePool", inputs, [rounded(result, 0.02, zero)], options,
                       (1, 2, 3, 4), 1.0)  # fmt: skip


def of_two(rng: Rng) -> ContribCase:
    """A function of two tensors, or of more."""
    signed = chance(rng, 0.5)
    data = [bytes_of(rng, 2, 3, 4, signed=signed) for _ in range(2)]
    zeros = [np.array(n, data[0].dtype) for n in (10, 20, 5)]
    scales = [0.03, 0.02, 0.05]
    a, b = (meant(data[n], scales[n], zeros[n]) for n in range(2))
    triples = [[data[n], scale_of(scales[n]), zeros[n]] for n in range(2)]
    last = [scale_of(scales[2]), zeros[2]]
    test = rng.integers(0, 2, (2, 3, 4)).astype(np.bool_)
    table: list[tuple[str, list[Array], Array, dict[str, Any]]] = [
        ("QLinearAdd", [*triples[0], *triples[1], *last], a + b, {}),
        ("QLinearMul", [*triples[0], *triples[1], *last], a * b, {}),
        ("QLinearWhere", [test, *triples[0], *triples[1], *last], np.where(test, a, b), {}),
        (
            "QLinearConcat",
            [*last, *triples[0], *triples[1]],
            np.concatenate([a, b], 1),
            {"axis": 1},
        ),
    ]
    name, inputs, result, options = table[int(rng.integers(len(table)))]
    expected = rounded(result, scales[2], zeros[2])
    known = [n for n, one in enumerate(inputs) if not one.ndim]
    return ContribCase(name, inputs, [expected], options, known, 1.0)


def quantised(x: Array) -> tuple[Array, float, float]:
    """x by its range, as DynamicQuantizeLinear has it: integers, scale and zero point."""
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    scale = float(F32((high - low) / 255)) or 1.0
    zero = float(np.clip(np.round(-low / scale), 0, 255))
    return np.clip(np.round(x / scale) + zero, 0, 255), scale, zero


def weights(rng: Rng, rows: int, columns: int) -> tuple[Array, Array, Array | None, Array]:
    """Weights, their scales and zero points, of a matrix or of each column; what they mean."""
    weight = bytes_of(rng, rows, columns, signed=chance(rng, 0.5))
    is_each = chance(rng, 0.5)
    scale = rng.uniform(0.005, 0.02, columns if is_each else ()).astype(F32)
    zero = None
    if chance(rng, 0.7):
        zero = rng.integers(0, 9, columns if is_each else ()).astype(weight.dtype)
    centred = weight.astype(np.float64) - (0.0 if zero is None else zero.astype(np.float64))
    return weight, np.asarray(scale), zero, centred * scale


def product(rng: Rng) -> ContribCase:
    weight, scale, zero, exact = weights(rng, 8, 6)
    bias = numbers(rng, 6) if chance(rng, 0.5) else None
    more = 0 if bias is None else bias
    if chance(rng, 0.5):
        data = numbers(rng, 2, 3, 8)
        values, own, start = quantised(data)
        result = (values - start) * own @ exact + more
        return ContribCase("DynamicQuantizeMatMul", [data, weight, scale, zero, bias], [result], {},
                           (1, 2, 3), 1e-3)  # fmt: skip
    data, start = bytes_of(rng, 2, 3, 8), np.array(9, np.uint8)
    result = meant(data, 0.03, start) @ exact + more
    inputs = [data, weight, scale_of(0.03), scale, start, zero, bias]
    return ContribCase("MatMulIntegerToFloat", inputs, [result], {}, (1, 3, 4, 5), 1e-3)


def largest(rng: Rng) -> ContribCase:
    data = bytes_of(rng, 1, 6, 7, 3, signed=chance(rng, 0.5))
    view = np.lib.stride_tricks.sliding_window_view(data, (2, 3), (1, 2))
    options = {"kernel_shape": [2, 3], "strides": [1, 2]}
    return ContribCase("NhwcMaxPool", [data], [view.max((4, 5))[:, :, ::2]], options)


def of_integers(rng: Rng) -> ContribCase:
    a, b = bytes_of(rng, 2, 3), bytes_of(rng, 2, 3)
    zeros = [np.array(4, np.uint8), np.array(5, np.uint8)]
    wide = [rng.integers(-99, 99, shape).astype(np.int16) for shape in ((2, 3), (3, 4))]
    long = [one.astype(np.int64) for one in (a, b, *wide)]
    table: list[tuple[str, list[Array], Array, dict[str, Any], bool]] = [
        ("MulInteger", [a, zeros[0], b, zeros[1]], (long[0] - 4) * (long[1] - 5), {}, False),
        ("MatMulInteger16", wide, long[2] @ long[3], {}, True),
        ("ReduceSumInteger", [a], long[0].sum(1), {"axes": [1], "keepdims": 0}, False),
    ]
    name, inputs, result, options, runs = table[int(rng.integers(len(table)))]
    return ContribCase(name, inputs, [result], options, (), 0.0, runs)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def one_step(
    inputs: Array, hidden: Array, cell: Array, weight: Array, peepholes: Array
) -> tuple[Array, Array]:
    """The hidden state, quantised before its product with the weights, and the cell."""
    seen, scale, zero = quantised(hidden)
    i, o, f, c = np.split(inputs + (seen - zero) * scale @ weight, 4, -1)
    kept, taken = sigmoid(f + peepholes[2] * cell), sigmoid(i + peepholes[0] * cell)
    fresh = kept * cell + taken * np.tanh(c)
    return sigmoid(o + peepholes[1] * fresh) * np.tanh(fresh), fresh


def recurrent(rng: Rng) -> ContribCase:
    steps, batch, inner, units = int(rng.integers(1, 5)), int(rng.integers(1, 4)), 4, 3
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    count = 2 if direction == "bidirectional" else 1
    data, bias = numbers(rng, steps, batch, inner), numbers(rng, count, 8 * units)
    signed = chance(rng, 0.5)
    wide = [bytes_of(rng, count, rows, 4 * units, signed=signed) for rows in (inner, units)]
    zero = np.full(count, 0 if signed else 128, wide[0].dtype)
    scale = rng.uniform(0.004, 0.01, count).astype(F32)
    lengths = rng.integers(1, steps + 1, batch) if chance(rng, 0.4) else np.full(batch, steps)
    start = [numbers(rng, count, batch, units) for _ in range(2)]
    peepholes = numbers(rng, count, 3 * units) if chance(rng, 0.3) else None
    values, own, from_zero = quantised(data)
    every, last = np.zeros((steps, count, batch, units)), np.zeros((2, count, batch, units))
    for d in range(count):
        exact = [(one[d].astype(float) - float(zero[d])) * float(scale[d]) for one in wide]
        inputs = (values - from_zero) * own @ exact[0] + bias[d, : 4 * units] + bias[d, 4 * units :]
        hidden: Array = start[0][d].astype(float)
        cell: Array = start[1][d].astype(float)
        is_back = direction == "reverse" or d == 1
        p = np.zeros((3, units)) if peepholes is None else peepholes[d].reshape(3, units)
        for t in range(steps)[:: -1 if is_back else 1]:
            out, fresh = one_step(inputs[t], hidden, cell, exact[1], p)
            runs = (t < lengths)[:, None]
            every[t, d] = np.where(runs, out, 0)
            hidden = np.where(runs, out, hidden)
            cell = np.where(runs, fresh, cell)
        last[:, d] = hidden, cell
    inputs_of = [data, *wide, bias, lengths.astype(np.int32), *start, peepholes,
                 scale, zero, scale, zero]  # fmt: skip
    options = {"hidden_size": units, "direction": direction}
    known = (1, 2, 8, 9, 10, 11)
    return ContribCase("DynamicQuantizeLSTM", inputs_of, [every, *last], options, known, 2e-2)


QUANTIZED_CASES: Sequence[Callable[[Rng], ContribCase]] = (
    of_one, of_one, mean_pool, of_two, of_two, product, product, largest, of_integers, recurrent,
)  # fmt: skip
