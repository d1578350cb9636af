"""Products with constants most of whose blocks are zero."""

from __future__ import annotations

from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.operators.wide import SumTypes, product
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

_SPARSE_MATMUL = AutoName("sparse_matmul")


def sparse_matmul(
    data: Tensor, values: Tensor, rows: Tensor, begins: Tensor, name: str = _SPARSE_MATMUL
) -> Tensor:
    """Return the product [..., n] of data [..., k] and a weight [k, n] in blocks of 1 x b elements.

    `ac.sparse_blocks(array).placeholders()` makes the weight: values [blocks, b], the row of each
    block (integers [blocks]), and for each b columns the number of their first block (integers
    [n / b + 1], the last is that of all blocks). Blocks that are not listed count as zero even
    where `data` is infinite or NaN. Sums are as in `matmul`. Raise LanguageError on other shapes or
    dtypes.
    """
    require_rank("sparse_matmul", 2, values)
    require_rank("sparse_matmul", 1, rows, begins)
    count, length = values.shape
    fits = bool(data.shape) and rows.shape[0] == count and begins.shape[0] > 1
    are_numbers = rows.dtype.is_integer and begins.dtype.is_integer
    require(
        fits and are_numbers, "sparse_matmul", data, values, rows, begins,
        need="they must be [..., k], values [blocks, b], and integers [blocks] and [n / b + 1]",
    )  # fmt: skip
    lead, groups = data.shape[:-1], begins.shape[0] - 1

    def body(*i: Scalar) -> Reduction:
        *outer, group, lane = i
        t = reduce_axis((begins[group], begins[group + 1]), "t")
        return sum(product(data[(*outer, rows[t])], values[t, lane]), axis=t)

    types = SumTypes.of(data.dtype)
    axes = [*(f"b{d}" for d in range(len(lead) - 1)), *"i"[: len(lead)], "group", "lane"]
    blocks = compute((*lead, groups, length), body, stage_name(name, "blocks"), axes=axes)
    return compute(
        (*lead, groups * length),
        lambda *i: blocks[(*i[:-1], i[-1] // length, i[-1] % length)].astype(types.result),
        name,
        axes=[*axes[:-2], "j"],
    )
