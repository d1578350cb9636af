"""Random nodes of com.microsoft that ONNX Runtime computes, too, and what they mean in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ansorc.ir.aligned import Array

Rng = np.random.Generator
F32 = np.float32
LOWEST = float(np.finfo(F32).min)


@dataclass(frozen=True)
class ContribCase:
    """One node: its inputs (None: left out), which are known, and what it computes."""

    operator: str
    inputs: Sequence[Array | None]
    expected: Sequence[Array]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    known: Sequence[int] = ()
    tolerance: float = 1e-4
    """Of each number; 1 where it is a rounded integer."""
    runs_elsewhere: bool = True
    """Whether ONNX Runtime has it for CPUs."""


def numbers(rng: Rng, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(F32)


def bytes_of(rng: Rng, *shape: int, signed: bool = False) -> Array:
    """Integers, signed ones so small that no instruction's sum of two products saturates."""
    if signed:
        return rng.integers(-63, 64, shape).astype(np.int8)
    return rng.integers(0, 256, shape).astype(np.uint8)


def chance(rng: Rng, share: float) -> bool:
    return bool(rng.random() < share)


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x.astype(np.float64) / math.sqrt(2)))


def tanh_gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attend(
    query: Array, key: Array, value: Array, added: Array, options: Mapping[str, Any], past: int
) -> Array:
    """Attention of [b, heads, n, d], as [b, n, heads * d]; `added` is what masks add to scores."""
    scores = query @ key.swapaxes(2, 3) * (options.get("scale") or 1 / math.sqrt(query.shape[3]))
    scores = scores + added
    if options.get("unidirectional"):
        for n in range(query.shape[2] - 1):
            scores[:, :, n, n + past + 1 :] = LOWEST
    mixed = softmax(scores) @ value
    return mixed.swapaxes(1, 2).reshape(query.shape[0], query.shape[2], -1)


def drawn_mask(
    rng: Rng, kind: str, extent: tuple[int, int, int], low: float
) -> tuple[Array | None, Array]:
    """A mask of one kind, and what it adds to the scores [b, 1, n, m]; each query sees a key."""
    batch, queries, keys = extent
    kept = np.ones((batch, 1, queries, keys), np.bool_)
    if kind == "none":
        return None, np.zeros((1, 1, 1, 1))
    if kind in ("ends", "ends and starts"):
        ends = rng.integers(1, keys + 1, batch)
        starts = rng.integers(0, ends) if kind == "ends and starts" else np.zeros(batch, int)
        place = np.arange(keys)
        kept &= ((place < ends[:, None]) & (place >= starts[:, None]))[:, None, None]
        mask = np.concatenate([ends, starts]) if kind == "ends and starts" else ends
        return mask.astype(np.int32), np.where(kept, 0, low)
    shape = (batch, keys) if kind == "keys" else (batch, queries, keys)
    mask = rng.integers(0, 2, shape).astype(np.int32)
    mask[..., 0] = 1
    kept &= mask.reshape(batch, 1, *shape[1:-1], keys) > 0 if kind != "keys" else (
        mask[:, None, None] > 0
    )  # fmt: skip
    return mask, np.where(kept, 0, low)


def drawn_options(rng: Rng, heads: int) -> dict[str, Any]:
    options: dict[str, Any] = {"num_heads": heads}
    options |= {"unidirectional": 1} if chance(rng, 0.3) else {}
    options |= {"scale": 0.3} if chance(rng, 0.3) else {}
    options |= {"mask_filter_value": -3.0} if chance(rng, 0.3) else {}
    return options


def heads_of(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def multi_head_attention(rng: Rng) -> ContribCase:
    batch, n, m = (int(one) for one in rng.integers(1, 5, 3))
    heads, width = 2, 4
    options = drawn_options(rng, heads)
    is_split, has_past = chance(rng, 0.2), chance(rng, 0.4)
    values = width if is_split or has_past else int(rng.choice([4, 6]))
    past = int(rng.integers(1, 4)) if has_past and not is_split else 0
    query, key, value = (numbers(rng, batch, length, heads * size)
                         for length, size in ((n, width), (m, width), (m, values)))  # fmt: skip
    bias = numbers(rng, heads * (2 * width + values)) if chance(rng, 0.5) and not is_split else None
    kinds = ["none", "keys", "all", *["ends"] * (not past)]
    extent = (batch, n, m + past)
    low = options.get("mask_filter_value", -10000.0)
    mask, added = drawn_mask(rng, str(rng.choice(kinds)), extent, low)
    more = numbers(rng, 1, heads, n, m + past) if chance(rng, 0.4) else None
    added = added if more is None else added + more
    ends = np.cumsum([width, width, values]) * heads
    parts = [0.0] * 3 if bias is None else np.split(bias, ends[:2])
    split = [
        heads_of(one + part, heads) for one, part in zip((query, key, value), parts, strict=True)
    ]
    state: list[Array | None] = [None, None]
    if past:
        held = [numbers(rng, batch, heads, past, size) for size in (width, values)]
        split[1:] = [np.concatenate(two, 2) for two in zip(held, split[1:], strict=True)]
        state = [*held]
    given = [key, value] if not is_split else [heads_of(one, heads) for one in (key, value)]
    result = attend(*split, added=added, options=options, past=past)
    expected = [result, *split[1:]] if past else [result]
    inputs = [query, *given, bias, mask, more, *state]
    return ContribCase("MultiHeadAttention", inputs, expected, options, tolerance=5e-4)


def attention(rng: Rng) -> ContribCase:
    batch, n = (int(one) for one in rng.integers(1, 5, 2))
    heads, width, inner = 2, 4, 5
    options = drawn_options(rng, heads)
    past = int(rng.integers(1, 4)) if chance(rng, 0.4) else 0
    values = width if past else int(rng.choice([4, 6]))
    sizes = [heads * width, heads * width, heads * values]
    options |= {"qkv_hidden_sizes": sizes} if values != width or chance(rng, 0.3) else {}
    data, weight = numbers(rng, batch, n, inner), numbers(rng, inner, sum(sizes))
    bias = numbers(rng, sum(sizes))
    kinds = ["none", "keys", "all", *["ends", "ends and starts"] * (not past)]
    low = options.get("mask_filter_value", -10000.0)
    mask, added = drawn_mask(rng, str(rng.choice(kinds)), (batch, n, n + past), low)
    more = numbers(rng, 1, heads, n, n) if chance(rng, 0.4) and not past else None
    added = added if more is None else added + more
    columns = np.split(data @ weight + bias, np.cumsum(sizes)[:2], -1)
    split = [heads_of(one, heads) for one in columns]
    state = numbers(rng, 2, batch, heads, past, width) if past else None
    if state is not None:
        split[1:] = [np.concatenate(two, 2) for two in zip(state, split[1:], strict=True)]
    result = attend(*split, added=added, options=options, past=past)
    expected = [result, np.stack(split[1:])] if past else [result]
    return ContribCase("Attention", [data, weight, bias, mask, state, more], expected, options,
                       tolerance=5e-4)  # fmt: skip


def quantized_attention(rng: Rng) -> ContribCase:
    batch, n = (int(one) for one in rng.integers(1, 5, 2))
    heads, width, inner = 2, 4, 8
    options = drawn_options(rng, heads)
    columns = 3 * heads * width
    data, weight = bytes_of(rng, batch, n, inner), bytes_of(rng, inner, columns, signed=True)
    scale = rng.uniform(0.005, 0.02, columns).astype(F32) if chance(rng, 0.5) else F32(0.01)
    bias, zeros = numbers(rng, columns), (np.uint8(120), np.int8(3))
    low = options.get("mask_filter_value", -10000.0)
    kind = "ends" if chance(rng, 0.5) else "none"
    mask, added = drawn_mask(rng, kind, (batch, n, n), low)
    product = (data.astype(int) - int(zeros[0])) @ (weight.astype(int) - int(zeros[1]))
    split = np.split(product * (F32(0.02) * scale) + bias, 3, -1)
    parts = [heads_of(one, heads) for one in split]
    result = attend(*parts, added=added, options=options, past=0)
    inputs = [data, weight, bias, np.array(0.02, F32), np.asarray(scale), mask,
              np.asarray(zeros[0]), np.asarray(zeros[1])]  # fmt: skip
    return ContribCase("QAttention", inputs, [result], options, (1, 3, 4, 6, 7), 5e-4)


def embedding(rng: Rng) -> ContribCase:
    batch, n, width = 2, int(rng.integers(1, 6)), 8
    words = rng.integers(0, 9, (batch, n)).astype(np.int32)
    tables = [numbers(rng, rows, width) for rows in (9, 7, 2)]
    total = tables[0][words]
    segments = rng.integers(0, 2, (batch, n)).astype(np.int32) if chance(rng, 0.6) else None
    mask, positions = None, None
    if chance(rng, 0.5):
        mask = (np.arange(n) < rng.integers(1, n + 1, (batch, 1))).astype(np.int32)
    if chance(rng, 0.4):
        positions = rng.integers(0, 7, (int(rng.choice([1, batch])), n)).astype(np.int32)
    total = total + tables[1][np.arange(n)[None] if positions is None else positions]
    if segments is not None:
        total = total + tables[2][segments]
    gamma, beta = numbers(rng, width), numbers(rng, width)
    counts = np.zeros(batch) if mask is None else mask.sum(1)
    table = tables[2] if segments is not None else None
    inputs = [words, segments, *tables[:2], table, gamma, beta, mask, positions]
    expected = [norm(total, 1e-5) * gamma + beta, counts, total]
    return ContribCase(
        "EmbedLayerNormalization", inputs, expected, {"epsilon": 1e-5}, (2, 3, 4, 5, 6)
    )


def norm(x: Array, epsilon: float) -> Array:
    variance = x.var(-1, keepdims=True, dtype=np.float64)
    return (x - x.mean(-1, keepdims=True, dtype=np.float64)) / np.sqrt(variance + epsilon)


def skip_norm(rng: Rng) -> ContribCase:
    data, gamma, beta = numbers(rng, 2, 3, 8), numbers(rng, 8), numbers(rng, 8)
    skip = numbers(rng, *([2, 3, 8], [1, 3, 8], [3, 8])[int(rng.integers(3))])
    bias = numbers(rng, 8) if chance(rng, 0.5) else None
    total = data + skip + (0 if bias is None else bias)
    inputs: list[Array | None] = [data, skip, gamma]
    if chance(rng, 0.5):
        shares = total.astype(np.float64)
        result = shares / np.sqrt((shares**2).mean(-1, keepdims=True) + 1e-5) * gamma
        return ContribCase("SkipSimplifiedLayerNormalization", [*inputs, bias], [result],
                           {"epsilon": 1e-5})  # fmt: skip
    has_shift = chance(rng, 0.5)
    result = norm(total, 1e-5) * gamma + (beta if has_shift else 0)
    inputs += [beta if has_shift else None, bias]
    return ContribCase("SkipLayerNormalization", inputs, [result], {"epsilon": 1e-5})


def activation(rng: Rng) -> ContribCase:
    data, bias = numbers(rng, 2, 3, 8), numbers(rng, 8)
    alpha = float(rng.uniform(0.5, 2))
    left, right = np.split(data + bias, 2, -1)
    cases: list[tuple[str, list[Array | None], Array, dict[str, Any], bool]] = [
        ("Gelu", [data], gelu(data), {}, True),
        ("BiasGelu", [data, bias], gelu(data + bias), {}, True),
        ("FastGelu", [data, bias], tanh_gelu(data + bias), {}, True),
        ("FastGelu", [data], tanh_gelu(data), {}, True),
        ("QuickGelu", [data], data / (1 + np.exp(-alpha * data)), {"alpha": alpha}, True),
        ("BiasSplitGelu", [data, bias], left * gelu(right), {}, False),
        ("BiasAdd", [data, bias, 2 * data], data + bias + 2 * data, {}, False),
    ]
    operator, inputs, expected, options, runs = cases[int(rng.integers(len(cases)))]
    return ContribCase(operator, inputs, [expected], options, runs_elsewhere=runs)


def fused_product(rng: Rng) -> ContribCase:
    flips = [int(one) for one in rng.integers(0, 2, 4)]
    left, right = numbers(rng, 2, 3, 4, 5), numbers(rng, 2, 3, 5, 6)
    expected = 0.7 * (left @ right)
    options = dict(zip(("transA", "transB", "transBatchA", "transBatchB"), flips, strict=True))
    factors = [left, right]
    for n in range(2):
        if flips[n]:
            factors[n] = factors[n].swapaxes(2, 3)
        if flips[n + 2]:
            factors[n] = factors[n].transpose(2, 0, 1, 3)
    inputs = [np.ascontiguousarray(one) for one in factors]
    return ContribCase("FusedMatMul", inputs, [expected], {**options, "alpha": 0.7})


Activation = (
    Callable[[Array], Array]
    | Callable[[Array, float], Array]
    | Callable[[Array, float, float], Array]
)
ACTIVATIONS: Mapping[str, tuple[Sequence[float], Activation]] = {
    "Relu": ((), lambda x: np.maximum(x, 0)),
    "Sigmoid": ((), lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": ((), np.tanh),
    "LeakyRelu": ((0.3,), lambda x, a: np.where(x < 0, a * x, x)),
    "HardSigmoid": ((0.3, 0.4), lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "Clip": ((-0.5, 0.7), np.clip),
}  # fmt: skip


def fused_convolution(rng: Rng) -> ContribCase:
    name = str(rng.choice(list(ACTIVATIONS)))
    numbers_of, function = ACTIVATIONS[name]
    data, weight, bias = numbers(rng, 1, 4, 5, 5), numbers(rng, 4, 2, 3, 3), numbers(rng, 4)
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    pairs = zip(np.split(windows, 2, 1), np.split(weight, 2), strict=True)
    halves = [np.einsum("nchwyx,kcyx->nkhw", seen, own) for seen, own in pairs]
    total = np.concatenate(halves, 1) + bias[:, None, None]
    inputs: list[Array | None] = [data, weight, bias]
    if chance(rng, 0.4):
        inputs.append(numbers(rng, 1, 4, 5, 5))
        total = total + inputs[-1]
    options: dict[str, Any] = {"activation": name, "group": 2, "pads": [1, 1, 1, 1]}
    options |= {"activation_params": list(numbers_of)} if numbers_of else {}
    return ContribCase("FusedConv", inputs, [function(total, *numbers_of)], options)


def fused_gemm(rng: Rng) -> ContribCase:
    name = str(rng.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu"]))
    numbers_of, function = ACTIVATIONS[name]
    left, right, bias = numbers(rng, 3, 4), numbers(rng, 5, 4), numbers(rng, 5)
    options: dict[str, Any] = {"activation": name, "transB": 1, "alpha": 0.5, "beta": 0.3}
    options |= {"activation_alpha": numbers_of[0]} if numbers_of else {}
    expected = function(0.5 * left @ right.T + 0.3 * bias, *numbers_of)
    return ContribCase("FusedGemm", [left, right, bias], [expected], options)


def rotary(rng: Rng) -> ContribCase:
    batch, n, heads, width = 2, 3, 2, 8
    data = numbers(rng, batch, heads, n, width)
    tables = [numbers(rng, 9, width // 2) for _ in range(2)]
    is_first = chance(rng, 0.3)
    start = np.array([2])
    places = start + np.arange(n)[None] if is_first else rng.integers(0, 9, (batch, n))
    cosine, sine = (np.broadcast_to(t[places], (batch, n, width // 2))[:, None] for t in tables)
    is_paired = chance(rng, 0.5)
    a, b = (data[..., ::2], data[..., 1::2]) if is_paired else np.split(data, 2, -1)
    rotated = (a * cosine - b * sine, b * cosine + a * sine)
    result = np.stack(rotated, -1).reshape(data.shape) if is_paired else np.concatenate(rotated, -1)
    if chance(rng, 0.5):
        data, result = (one.swapaxes(1, 2).reshape(batch, n, -1) for one in (data, result))
    inputs = [np.ascontiguousarray(data), start if is_first else places, *tables]
    return ContribCase("RotaryEmbedding", inputs, [result], {"interleaved": int(is_paired)})


FLOAT_CASES: Sequence[Callable[[Rng], ContribCase]] = (
    multi_head_attention, multi_head_attention, attention, attention, quantized_attention,
    embedding, skip_norm, activation, fused_product, fused_convolution, fused_gemm, rotary,
)  # fmt: skip
