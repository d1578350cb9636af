"""Random nodes of operators that ONNX Runtime adds to ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.graph.onnx.node_case import CaseMaker, Draw, NodeCase

LOOSE = 1e-4


def _plain(draw: Draw) -> NodeCase:
    return NodeCase([draw.floats(*draw.shape(1, 3))], tolerance=LOOSE)


def _with_bias(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 3)
    return NodeCase([draw.floats(*shape), draw.floats(shape[-1])], tolerance=LOOSE)


def _quick_gelu(draw: Draw) -> NodeCase:
    given = {"alpha": 1.5} if draw.chance() else {}
    return NodeCase(_plain(draw).inputs, given, tolerance=LOOSE)


def _fused_matmul(draw: Draw) -> NodeCase:
    m, k, n, batch = draw.int(1, 4), draw.int(1, 4), draw.int(1, 4), draw.shape(0, 1, 3)
    given: dict[str, Any] = {x: draw.int(0, 1) for x in ("transA", "transB")}
    a, b = ((k, m) if given["transA"] else (m, k)), ((n, k) if given["transB"] else (k, n))
    given["alpha"] = 0.5
    return NodeCase([draw.floats(*batch, *a), draw.floats(*batch, *b)], given, tolerance=LOOSE)


def _skip_norm(draw: Draw, *, is_simplified: bool = False) -> NodeCase:
    shape = (draw.int(1, 2), draw.int(1, 4), draw.int(2, 6))
    inputs: list[Any] = [draw.floats(*shape), draw.floats(*shape), draw.floats(shape[-1])]
    if not is_simplified:
        inputs.append(draw.floats(shape[-1]))
    if draw.chance():
        inputs.append(draw.floats(shape[-1]))
    return NodeCase(inputs, {"epsilon": 1e-2}, tolerance=LOOSE)


def _scales(draw: Draw, kind: str) -> list[Any]:
    scale = np.asarray(draw.positive() * 0.1, "float32")
    return [scale, draw.ints(0, 9, kind=kind)]


def _qlinear_pair(draw: Draw) -> NodeCase:
    shape, kind = draw.shape(1, 3), draw.one_of("int8", "uint8")
    a, b = (draw.any_ints(kind, *one) for one in (shape, draw.part_of(shape)))
    parts = [_scales(draw, kind) for _ in range(3)]
    return NodeCase([a, *parts[0], b, *parts[1], *parts[2]], steps=1)


def _qlinear_pool(draw: Draw) -> NodeCase:
    is_last = draw.int(0, 1)
    n, c, h, w = draw.int(1, 2), draw.int(1, 3), draw.int(1, 4), draw.int(1, 4)
    x = draw.any_ints("uint8", n, *((h, w, c) if is_last else (c, h, w)))
    inputs = [x, *_scales(draw, "uint8"), *_scales(draw, "uint8")]
    return NodeCase(inputs, {"channels_last": is_last}, steps=1)


def _qgemm(draw: Draw) -> NodeCase:
    m, k, n = draw.int(1, 3), draw.int(1, 5), draw.int(1, 4)
    given: dict[str, Any] = {"transB": draw.int(0, 1), "alpha": 1.0}
    a, b = draw.any_ints("uint8", m, k), (n, k) if given["transB"] else (k, n)
    weight = draw.ints(-60, 60, *b, kind="int8")
    bias = draw.ints(-99, 99, n, kind="int32") if draw.chance() else None
    parts = [_scales(draw, "uint8"), _scales(draw, "int8"), _scales(draw, "uint8")]
    return NodeCase([a, *parts[0], weight, *parts[1], bias, *parts[2]], given, steps=1)


def _quantize(draw: Draw) -> NodeCase:
    kind = draw.one_of("int8", "uint8")
    scale = np.asarray(2.0 ** draw.int(-4, 1), "float32")
    x = draw.floats(*draw.shape(1, 3), scale=20.0)
    return NodeCase([x, scale, draw.ints(0, 9, kind=kind)], steps=1)


def _dequantize(draw: Draw) -> NodeCase:
    kind = draw.one_of("int8", "uint8")
    return NodeCase([draw.any_ints(kind, *draw.shape(1, 3)), *_scales(draw, kind)])


MICROSOFT: Mapping[str, CaseMaker] = {
    "com.microsoft::BiasGelu": _with_bias,
    "com.microsoft::DequantizeLinear": _dequantize,
    "com.microsoft::FastGelu": _with_bias,
    "com.microsoft::FusedMatMul": _fused_matmul,
    "com.microsoft::Gelu": _plain,
    "com.microsoft::QGemm": _qgemm,
    "com.microsoft::QLinearAdd": _qlinear_pair,
    "com.microsoft::QLinearGlobalAveragePool": _qlinear_pool,
    "com.microsoft::QLinearMul": _qlinear_pair,
    "com.microsoft::QuantizeLinear": _quantize,
    "com.microsoft::QuickGelu": _quick_gelu,
    "com.microsoft::SkipLayerNormalization": _skip_norm,
    "com.microsoft::SkipSimplifiedLayerNormalization": (
        lambda draw: _skip_norm(draw, is_simplified=True)
    ),
}
"""What makes a random node, by its operator."""
