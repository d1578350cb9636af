"""Attention: softmax of scaled products of queries and keys, times values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.elementwise import element_at
from ansorc.lang.operators.normalization import softmax
from ansorc.lang.operators.shapes import broadcast_extents, refuse_unknown, require, require_rank
from ansorc.lang.operators.view import transpose
from ansorc.lang.operators.wide import product, sum_type, widen
from ansorc.lang.reduction import max, reduce_axis, sum
from ansorc.lang.scalar import all_of, const, equal, exp, if_then_else
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor, fixed

_OPERATOR = "attention_scores"
_NAME, _ATTENTION = AutoName(_OPERATOR), AutoName("attention")


class AttentionOptions(TypedDict, total=False):
    """Scale and masks of attention."""

    causal: bool
    """Query i sees the keys up to i alone, as in PyTorch; default: all."""
    scale: float
    """The factor of the scores; default 1 / sqrt(width)."""
    lengths: Tensor | None
    """Integers [batch]: the number of keys of each sequence that are seen; default: all."""
    mask: Tensor | None
    """Booleans that are broadcast to [batch, heads, n, m]: which keys are seen; default: all."""
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
    scores = compute(
        (*rows.shape[:3], columns.shape[3]),
        lambda b, h, i, j: sum(product(rows[b, h, i, k], columns[b, h, k, j]), axis=k),
        stage_name(name, "product"),
    )
    if scores.dtype == query.dtype:
        return softmax(scores, name=name)
    wide = softmax(scores, name=stage_name(name, "wide"))
    return compute(wide.shape, lambda *i: wide[i].astype(query.dtype), name)


def attention(
    query: Tensor, key: Tensor, value: Tensor, **options: Unpack[AttentionOptions]
) -> Tensor:
    """Return softmax(scale * query x key^T) x value as [batch, heads, n, d].

    query [batch, heads, n, k], key [batch, heads, m, k], value [batch, heads, m, d]. Stages are
    `<name>.scores` (products), `<name>.seen` (scaled, masked), `<name>.max`, `<name>.exp`,
    `<name>.sum`, `<name>.mix` (products with values) and the quotient: rows are divided by their
    sum after the second product. With `lengths` or `mask`, a query that sees no key gets zeros.
    Raise LanguageError on other shapes.
    """
    name = options.get("name", _ATTENTION)
    tests = _tests(query, key, value, options)
    (keys, width), rows = key.shape[2:], query.shape[:3]
    scale = options.get("scale", 1.0 / math.sqrt(width))
    m, j, r = (reduce_axis(keys, letter) for letter in "mjr")
    kind = sum_type(query.dtype)
    lowest, zero = const(float("-inf"), kind), const(0, kind)
    given = [name for name in ("lengths", "mask") if options.get(name) is not None]

    def unless(value: Scalar, nothing: Scalar, instead: Scalar | float) -> Scalar:
        return if_then_else(equal(value, nothing), instead, value) if given else value

    def visible(*i: Scalar) -> Scalar:
        conditions = [test(i) for test in tests]
        scaled = scores[i] * scale
        return if_then_else(all_of(*conditions), scaled, lowest) if tests else scaled

    def power(*i: Scalar) -> Scalar:
        raised = exp(seen[i] - unless(peak[i[:3]], lowest, zero))
        # of a mask that is data each element would have to be looked at once more
        conditions = [test(i) for test in (tests[:-1] if "mask" in given else tests)]
        seen_exp = if_then_else(all_of(*conditions), raised, zero) if conditions else raised
        return seen_exp.astype(value.dtype)

    scores = _products(query, key, stage_name(name, "scores"))
    seen = compute(scores.shape, visible, stage_name(name, "seen"))
    peak = fixed(compute(rows, lambda *i: max(seen[(*i, m)], axis=m), stage_name(name, "max")))
    powers = compute(scores.shape, power, stage_name(name, "exp"))
    total = compute(rows, lambda *i: sum(widen(powers[(*i, j)]), axis=j), stage_name(name, "sum"))
    mixed = compute(
        (*rows, value.shape[3]),
        lambda b, h, i, d: sum(product(powers[b, h, i, r], value[b, h, r, d]), axis=r),
        stage_name(name, "mix"),
    )

    def share(*i: Scalar) -> Scalar:
        return (mixed[i] * (1.0 / unless(total[i[:3]], zero, 1.0))).astype(query.dtype)

    return compute(mixed.shape, share, name)


def _products(query: Tensor, key: Tensor, name: str) -> Tensor:
    """Return query x key^T for each head."""
    k = reduce_axis(query.shape[3], "k")
    return compute(
        (*query.shape[:3], key.shape[2]),
        lambda b, h, i, m: sum(product(query[b, h, i, k], key[b, h, m, k]), axis=k),
        name,
    )


def _tests(
    query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions
) -> list[Callable[[Sequence[Scalar]], Scalar]]:
    """Return the conditions on (batch, head, query, key) under which the query sees the key."""
    operator = "attention"
    refuse_unknown(operator, options, AttentionOptions.__optional_keys__)
    require_rank(operator, 4, query, key, value)
    fits = query.shape[:2] == key.shape[:2] == value.shape[:2] and query.shape[3] == key.shape[3]
    need = "they must be [batch, heads, n, k], [batch, heads, m, k] and [batch, heads, m, d]"
    fits = fits and key.shape[2] == value.shape[2]
    require(fits, operator, query, key, value, need=need)
    lengths, mask = options.get("lengths"), options.get("mask")
    tests: list[Callable[[Sequence[Scalar]], Scalar]] = []
    if options.get("causal"):
        tests.append(lambda i: i[3] <= i[2])
    if lengths is not None:
        fits = lengths.shape == query.shape[:1] and lengths.dtype.is_integer
        require(fits, operator, query, lengths, need="lengths must be integers [batch]")
        tests.append(lambda i: i[3] < lengths[i[0]].astype("int64"))
    if mask is not None:
        shape = (*query.shape[:3], key.shape[2])
        fits = mask.dtype.is_bool and broadcast_extents(shape, mask.shape) == shape
        need = f"the mask must be booleans that are broadcast to {list(shape)}"
        require(fits, operator, query, key, mask, need=need)
        tests.append(lambda i: element_at(mask, i))
    return tests
