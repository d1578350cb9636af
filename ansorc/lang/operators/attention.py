"""Attention: which position looks at which."""

from __future__ import annotations

from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.normalization import softmax
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.operators.view import transpose
from ansorc.lang.reduction import reduce_axis, sum
from ansorc.lang.tensor import Tensor

_OPERATOR = "attention_scores"
_NAME = AutoName(_OPERATOR)


def attention_scores(query: Tensor, key: Tensor, name: str = _NAME) -> Tensor:
    """Return softmax(query x key) as [batch, heads, n, m] (paper, section 7.2: TBS).

    query [batch, n, heads, hidden], key [batch, m, heads, hidden]. Both are transposed first
    (`<name>.query`, `<name>.key`), multiplied (`<name>.product`), and softmax has four stages.
    Raise LanguageError on other shapes.
    """
    require_rank(_OPERATOR, 4, query, key)
    fits = query.shape[0] == key.shape[0] and query.shape[2:] == key.shape[2:]
    require(fits, _OPERATOR, query, key, need="batch, heads and hidden must be equal")
    rows = transpose(query, (0, 2, 1, 3), stage_name(name, "query"))
    columns = transpose(key, (0, 2, 3, 1), stage_name(name, "key"))
    k = reduce_axis(query.shape[3], "k")
    product = compute(
        (*rows.shape[:3], columns.shape[3]),
        lambda b, h, i, j: sum(rows[b, h, i, k] * columns[b, h, k, j], axis=k),
        stage_name(name, "product"),
    )
    return softmax(product, name=name)
