"""ONNX operators that multiply matrices."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.graph.importing.products import product
from ansorc.graph.onnx.node_call import Converter, NodeCall


def _matmul(call: NodeCall) -> str:
    return product(call, call.input(0), call.input(1))


def gemm_with_bias(call: NodeCall) -> str:
    """Return alpha times the product of two matrices, plus beta times the third input."""
    left, right = call.input(0), call.input(1)
    result = gemm(call, left, right)
    kind = call.builder.type(result).dtype
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    if not kind.is_float and (alpha != int(alpha) or beta != int(beta)):
        call.refuse(f"alpha {alpha} and beta {beta} are no integers, as its matrices are")
    if alpha != 1:
        result = call.add("multiply", [result, call.scalar(alpha, result)])
    if not call.has(2) or beta == 0:
        return result
    bias = call.input(2)
    if beta != 1:
        bias = call.add("multiply", [bias, call.scalar(beta, bias)])
    return call.add("add", [result, bias])


def gemm(call: NodeCall, left: str, right: str) -> str:
    """Return the product of two matrices, each transposed if an attribute of the node says so."""
    is_left, is_right = bool(call.attribute("transA", 0)), bool(call.attribute("transB", 0))
    if not is_left:
        return call.add("dense" if is_right else "matmul", [left, right])
    equation = "ki,jk->ij" if is_right else "ki,kj->ij"
    return call.add("einsum", [left, right], equation=equation)


def _einsum(call: NodeCall) -> str:
    return call.add("einsum", call.inputs(), equation=call.attribute("equation"))


MATMUL: Mapping[str, Converter] = {"Einsum": _einsum, "Gemm": gemm_with_bias, "MatMul": _matmul}
