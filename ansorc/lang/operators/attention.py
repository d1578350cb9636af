"""Attention: which position looks at which, and what it takes from there."""

from __future__ import annotations

import math
from typing import TypedDict, Unpack

from ansorc.ir.expr import Expr
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.normalization import softmax
from ansorc.lang.operators.shapes import refuse_unknown, require, require_rank
from ansorc.lang.operators.view import transpose
from ansorc.lang.reduction import max, reduce_axis, sum
from ansorc.lang.scalar import const, exp, if_then_else
from ansorc.lang.tensor import Tensor

_OPERATOR = "attention_scores"
_NAME, _ATTENTION = AutoName(_OPERATOR), AutoName("attention")


class AttentionOptions(TypedDict, total=False):
    """What attention looks at."""

    causal: bool
    """Query i sees the keys up to i alone, as in PyTorch; default: all."""
    scale: float
    """Of the scores; default 1 / sqrt(width)."""
    name: str


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


def attention(
    query: Tensor, key: Tensor, value: Tensor, **options: Unpack[AttentionOptions]
) -> Tensor:
    """Return softmax(scale * query x key^T) x value as [batch, heads, n, d].

    query [batch, heads, n, k], key [batch, heads, m, k], value [batch, heads, m, d]. Stages are
    `<name>.scores` (products), `<name>.seen` (scaled, masked), `<name>.max`, `<name>.exp`,
    `<name>.sum`, `<name>.mix` (products with values) and the quotient: rows are divided by their
    sum after the second product. Raise LanguageError on other shapes.
    """
    name, operator = options.get("name", _ATTENTION), "attention"
    refuse_unknown(operator, options, AttentionOptions.__optional_keys__)
    require_rank(operator, 4, query, key, value)
    fits = query.shape[:2] == key.shape[:2] == value.shape[:2] and query.shape[3] == key.shape[3]
    fits = fits and key.shape[2] == value.shape[2]
    need = "they must be [batch, heads, n, k], [batch, heads, m, k] and [batch, heads, m, d]"
    require(fits, operator, query, key, value, need=need)
    keys, width = key.shape[2:]
    scale = options.get("scale", 1.0 / math.sqrt(width))
    k, m, j, r = (
        reduce_axis(e, n) for e, n in ((width, "k"), (keys, "m"), (keys, "j"), (keys, "r"))
    )
    rows = query.shape[:3]
    scores = compute(
        (*rows, keys),
        lambda b, h, i, m: sum(query[b, h, i, k] * key[b, h, m, k], axis=k),
        stage_name(name, "scores"),
    )

    def visible(*i: Expr) -> Expr:
        scaled = scores[i] * scale
        lowest = const(float("-inf"), query.dtype)
        return if_then_else(i[3] <= i[2], scaled, lowest) if options.get("causal") else scaled

    seen = compute(scores.shape, visible, stage_name(name, "seen"))
    peak = compute(rows, lambda *i: max(seen[(*i, m)], axis=m), stage_name(name, "max"))
    raised = compute(scores.shape, lambda *i: exp(seen[i] - peak[i[:3]]), stage_name(name, "exp"))
    total = compute(rows, lambda *i: sum(raised[(*i, j)], axis=j), stage_name(name, "sum"))
    mixed = compute(
        (*rows, value.shape[3]),
        lambda b, h, i, d: sum(raised[b, h, i, r] * value[b, h, r, d], axis=r),
        stage_name(name, "mix"),
    )
    return compute(mixed.shape, lambda *i: mixed[i] * (1.0 / total[i[:3]]), name)
