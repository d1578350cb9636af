"""Matrix multiplications."""

from __future__ import annotations

from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.reduction import reduce_axis, sum
from ansorc.lang.tensor import Tensor

_MATMUL, _BATCH_MATMUL, _DENSE = AutoName("matmul"), AutoName("batch_matmul"), AutoName("dense")


def matmul(a: Tensor, b: Tensor, name: str = _MATMUL) -> Tensor:
    """Return the product [n, m] of a [n, k] and b [k, m]; raise LanguageError on other shapes."""
    require_rank("matmul", 2, a, b)
    require(a.shape[1] == b.shape[0], "matmul", a, b, need="columns of one = rows of the other")
    k = reduce_axis(a.shape[1], "k")
    shape = (a.shape[0], b.shape[1])
    return compute(shape, lambda i, j: sum(a[i, k] * b[k, j], axis=k), name)


def batch_matmul(a: Tensor, b: Tensor, name: str = _BATCH_MATMUL) -> Tensor:
    """Return the products [batch, n, m] of a [batch, n, k] and b [batch, k, m].

    Raise LanguageError on other shapes.
    """
    require_rank("batch_matmul", 3, a, b)
    fits = a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1]
    require(fits, "batch_matmul", a, b, need="they must be [batch, n, k] and [batch, k, m]")
    k = reduce_axis(a.shape[2], "k")
    shape = (a.shape[0], a.shape[1], b.shape[2])
    return compute(shape, lambda b_, i, j: sum(a[b_, i, k] * b[b_, k, j], axis=k), name)


def dense(data: Tensor, weight: Tensor, name: str = _DENSE) -> Tensor:
    """Return the layer [n, units] of data [n, k] and weight [units, k], without a bias.

    Raise LanguageError on other shapes.
    """
    require_rank("dense", 2, data, weight)
    fits = data.shape[1] == weight.shape[1]
    require(fits, "dense", data, weight, need="they must be [n, k] and [units, k]")
    k = reduce_axis(data.shape[1], "k")
    shape = (data.shape[0], weight.shape[0])
    return compute(shape, lambda i, j: sum(data[i, k] * weight[j, k], axis=k), name)
