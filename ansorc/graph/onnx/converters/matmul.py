"""ONNX operators that multiply matrices."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.graph.onnx.node_call import Converter, NodeCall


def _matmul(call: NodeCall) -> str:
    left, right = call.input(0), call.input(1)
    a, b = call.type(0).shape, call.type(1).shape
    if len(a) == 1:
        left = call.add("reshape", [left], shape=[1, *a])
    if len(b) == 1:
        right = call.add("reshape", [right], shape=[*b, 1])
    result = call.add("matmul", [left, right])
    if len(a) > 1 and len(b) > 1:
        return result
    shape = call.builder.type(result).shape
    kept = shape if len(a) > 1 else (*shape[:-2], *shape[-1:])
    return call.add("reshape", [result], shape=kept if len(b) > 1 else kept[:-1])


def _gemm(call: NodeCall) -> str:
    left, right = call.input(0), call.input(1)
    if call.attribute("transA", 0):
        left = call.add("transpose", [left], order=[1, 0])
    if call.attribute("transB", 0):
        right = call.add("transpose", [right], order=[1, 0])
    result = call.add("matmul", [left, right])
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    if alpha != 1:
        result = call.add("multiply", [result, call.scalar(alpha, result)])
    if not call.has(2) or beta == 0:
        return result
    bias = call.input(2)
    if beta != 1:
        bias = call.add("multiply", [bias, call.scalar(beta, bias)])
    return call.add("add", [result, bias])


MATMUL: Mapping[str, Converter] = {"Gemm": _gemm, "MatMul": _matmul}
