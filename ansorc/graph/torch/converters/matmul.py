"""ATen's operators that multiply matrices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansorc.graph.importing.products import product
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.dtype import INT64, DType


def narrow_sums(kind: DType) -> dict[str, str]:
    """Return the attribute that keeps sums of 8- and 16-bit integers in their dtype, as PyTorch."""
    return {"sum_dtype": str(kind)} if kind.is_integer and kind.bits < 32 else {}


def _product(call: TorchCall, left: str, right: str) -> str:
    kinds = [call.builder.type(name) for name in (left, right)]
    are_tensors = min(len(kind.shape) for kind in kinds) > 1
    return product(call, left, right, **(narrow_sums(kinds[0].dtype) if are_tensors else {}))


def _of(left: str, right: str) -> TorchConverter:
    """The product of two arguments."""
    return lambda call: _product(call, call.input(left), call.input(right))


def _linear(call: TorchCall) -> str:
    data, weight = call.input("input"), call.input("weight")
    if len(call.type("weight").shape) == 1:
        result = _product(call, data, weight)
    else:
        result = call.add("dense", [data, weight], **narrow_sums(call.type("input").dtype))
    if not call.has("bias"):
        return result
    if not call.type("bias").shape:
        return call.add("add", [result, call.input("bias")])
    return call.add("bias_add", [result, call.input("bias")], axis=-1)


def _add_product(left: str, right: str) -> TorchConverter:
    """beta times the first input plus alpha times a product."""

    def convert(call: TorchCall) -> str:
        result = _product(call, call.input(left), call.input(right))
        if call.get("alpha", 1) != 1:
            result = call.add("multiply", [result, call.scalar(call.get("alpha"), result)])
        return _with_self(call, result)

    return convert


def _with_self(call: TorchCall, result: str) -> str:
    """beta times the first input plus `result`."""
    beta = call.get("beta", 1)
    if beta == 0:
        return result
    term = call.input("self", call.result.dtype)
    if beta != 1:
        term = call.add("multiply", [term, call.scalar(beta, result)])
    if call.builder.type(term).shape == call.result.shape[-1:]:
        return call.add("bias_add", [result, term], axis=-1)
    return call.add("add", [result, term])


def _add_sum(call: TorchCall) -> str:
    """beta times the first input plus alpha times the sum of the products of a batch."""
    inputs, alpha = [call.input("batch1"), call.input("batch2")], call.get("alpha", 1)
    alpha = float(alpha) if call.result.dtype.is_float else int(alpha)
    return _with_self(call, call.add("einsum", inputs, equation="bij,bjk->ik", scale=alpha))


def _einsum(call: TorchCall) -> str:
    return call.add("einsum", call.inputs("tensors"), equation=call.get("equation"))


def _trilinear(call: TorchCall) -> str:
    """The product of three tensors, each without some dimensions, summed over some."""
    inputs = [call.input(name) for name in ("i1", "i2", "i3")]
    without = [list(call.get(name, [])) for name in ("expand1", "expand2", "expand3")]
    rank = len(call.type("i1").shape) + len(without[0])
    letters = "abcdefghijklmnopqrstuvwxyz"[:rank]
    terms = ["".join(c for d, c in enumerate(letters) if d not in left) for left in without]
    result = "".join(c for d, c in enumerate(letters) if d not in call.get("sumdim"))
    return call.add("einsum", inputs, equation=f"{','.join(terms)}->{result}")


def _multiply_groups(data: str, weight: str) -> TorchConverter:
    """Rows in groups, those of each multiplied by a matrix of its own, as in layers of experts.

    `offs` says where each group of rows ends; rows behind the last one become 0.
    """

    def convert(call: TorchCall) -> str:
        shape, matrices = call.type(data).shape, call.type(weight).shape
        if len(shape) != 2 or len(matrices) != 3 or call.has("bias"):
            call.refuse(
                "only rows [s, k] in groups by matrices [g, k, n] without bias are supported; use "
                "torch.matmul for each group, and add the bias behind"
            )
        rows, depth = shape
        number = call.constant(np.arange(rows)[:, None])
        ends = call.reshape(call.input("offs", INT64), [1, matrices[0]])
        ended = call.convert(call.add("less_equal", [ends, number]), INT64)
        group = call.add("sum", [ended], axis=[1])
        last = call.constant(np.asarray(matrices[0] - 1))
        known = [call.input(weight), call.add("minimum", [group, last])]
        chosen = call.add("take", known, axis=0, mode="clip")
        result = _product(call, call.reshape(call.input(data), [rows, 1, depth]), chosen)
        result = call.reshape(result, call.result.shape)
        inside = call.reshape(call.add("less_equal", [group, last]), [rows, 1])
        return call.add("where", [inside, result, call.scalar(0, result)])

    return convert


TORCH_MATMUL: Mapping[str, TorchConverter] = {
    "_grouped_mm.default": _multiply_groups("self", "mat2"),
    "_trilinear.default": _trilinear,
    "addbmm.default": _add_sum,
    "addmm.default": _add_product("mat1", "mat2"),
    "addmv.default": _add_product("mat", "vec"),
    "baddbmm.default": _add_product("batch1", "batch2"),
    "bmm.default": _of("self", "mat2"),
    "dot.default": _of("self", "tensor"),
    "einsum.default": _einsum,
    "linear.default": _linear,
    "matmul.default": _of("self", "other"),
    "mm.default": _of("self", "mat2"),
    "mv.default": _of("self", "vec"),
}
TRANSFORMERS_MATMUL: Mapping[str, TorchConverter] = {
    "grouped_mm_fallback.default": _multiply_groups("input", "weight"),
}
"""Converters of Hugging Face's library, which has its own name for what PyTorch does not export."""
