"""Matrix multiplications."""

from __future__ import annotations

from typing import TypeGuard

from ansorc.lang.define import compute
from ansorc.lang.literal import DTypeLike
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.complex_matmul import multiply_complex
from ansorc.lang.operators.shapes import (
    broadcast_extents,
    broadcast_indices,
    require,
    require_rank,
)
from ansorc.lang.operators.wide import SumTypes, product
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import ComplexTensor, Tensor

_MATMUL, _BATCH_MATMUL, _DENSE = AutoName("matmul"), AutoName("batch_matmul"), AutoName("dense")


def matmul(
    a: Tensor, b: Tensor, name: str = _MATMUL, *, sum_dtype: DTypeLike | None = None
) -> Tensor:
    """Return the product [..., n, m] of a [..., n, k] and b [..., k, m].

    The leading dimensions are broadcast as NumPy does. By default 16-bit floats are summed in
    float32 and rounded, and 8- and 16-bit integers are summed in int32. With `sum_dtype`, factors
    are cast to it, and the result has it: "float16" sums in float16. The factors may be complex,
    both or one. Raise LanguageError on other shapes.
    """
    has_rank = min(len(a.shape), len(b.shape)) >= 2
    require(has_rank, "matmul", a, b, need="each must have 2 dimensions or more")
    require(a.shape[-1] == b.shape[-2], "matmul", a, b, need="columns of one = rows of the other")
    k = reduce_axis(a.shape[-1], "k")
    batch = broadcast_extents(a.shape[:-2], b.shape[:-2])
    require(batch is not None, "matmul", a, b, need="the dimensions in front must be equal, or 1")

    def body(*i: Scalar) -> Reduction:
        left, right = (
            broadcast_indices(a.shape[:-2], i[:-2]),
            broadcast_indices(b.shape[:-2], i[:-2]),
        )
        return sum(product(a[(*left, i[-2], k)], b[(*right, k, i[-1])], sum_dtype), axis=k)

    shape = (*(batch or ()), a.shape[-2], b.shape[-1])
    if _are_complex(a, b, sum_dtype):
        return multiply_complex(
            lambda i, t: a.part((*broadcast_indices(a.shape[:-2], i[:-2]), i[-2], t)),
            b, shape, lambda i: broadcast_indices(b.shape[:-2], i[:-2]), name,
        )  # fmt: skip
    axes = [*(f"b{d}" for d in range(len(shape) - 2)), "i", "j"]
    return SumTypes.of(a.dtype, sum_dtype).total(shape, body, name, axes)


def batch_matmul(
    a: Tensor, b: Tensor, name: str = _BATCH_MATMUL, *, sum_dtype: DTypeLike | None = None
) -> Tensor:
    """Return the products [batch, n, m] of a [batch, n, k] and b [batch, k, m]; see `matmul`.

    Raise LanguageError on other shapes.
    """
    require_rank("batch_matmul", 3, a, b)
    fits = a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1]
    require(fits, "batch_matmul", a, b, need="they must be [batch, n, k] and [batch, k, m]")
    if _are_complex(a, b, sum_dtype):
        return matmul(a, b, name)
    k = reduce_axis(a.shape[2], "k")
    shape = (a.shape[0], a.shape[1], b.shape[2])

    def body(b_: Scalar, i: Scalar, j: Scalar) -> Reduction:
        return sum(product(a[b_, i, k], b[b_, k, j], sum_dtype), axis=k)

    return SumTypes.of(a.dtype, sum_dtype).total(shape, body, name)


def dense(
    data: Tensor, weight: Tensor, name: str = _DENSE, *, sum_dtype: DTypeLike | None = None
) -> Tensor:
    """Return the layer [..., units] of data [..., k] and weight [units, k], without a bias.

    Sums and `sum_dtype` are as in `matmul`; see also `dense_packed`.
    Raise LanguageError on other shapes.
    """
    require_rank("dense", 2, weight)
    fits = bool(data.shape) and data.shape[-1] == weight.shape[1]
    require(fits, "dense", data, weight, need="they must be [..., k] and [units, k]")
    rank = len(data.shape)
    if _are_complex(data, weight, sum_dtype):
        turned = compute(weight.shape[::-1], lambda t, j: weight[j, t], stage_name(name, "weight"))
        return multiply_complex(
            lambda i, t: data.part((*i[:-1], t)), turned, (*data.shape[:-1], weight.shape[0]),
            lambda _: (), name,
        )  # fmt: skip
    k = reduce_axis(weight.shape[1], "k")
    return SumTypes.of(data.dtype, sum_dtype).total(
        (*data.shape[:-1], weight.shape[0]),
        lambda *i: sum(product(data[(*i[:-1], k)], weight[i[-1], k], sum_dtype), axis=k),
        name,
        [*(f"b{d}" for d in range(rank - 2)), *"ij"[2 - min(rank, 2) :]],
    )


def _are_complex(
    left: Tensor, right: Tensor, sum_dtype: DTypeLike | None
) -> TypeGuard[ComplexTensor]:
    """Return whether both factors are complex, of one dtype that is that of the sums."""
    are_both = isinstance(left, ComplexTensor) and isinstance(right, ComplexTensor)
    return are_both and left.dtype == right.dtype and sum_dtype is None
