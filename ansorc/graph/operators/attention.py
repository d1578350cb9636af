"""Attention: softmax of masked scores, and positions as rotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansorc.lang import scalar
from ansorc.lang.checks import index_in_range
from ansorc.lang.compute_op import Combiner
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.elementwise import element_at
from ansorc.lang.operators.shapes import broadcast_extents, require, require_rank
from ansorc.lang.reduction import max, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import Tensor

_MASK_NEED = "the mask must be broadcast to the scores, or be shorter along the keys"


@dataclass(frozen=True)
class _Band:
    """Which keys a query may look at: those from `first` to `last` places behind its own."""

    offset: Scalar | int
    first: int | None
    last: int | None

    def tests(self, query: Scalar, key: Scalar) -> list[Scalar]:
        """Return what must hold for a query to see a key."""
        position = query + self.offset
        tests = list[Scalar]()
        if self.last is not None:
            tests.append(key <= position + self.last)
        if self.first is not None:
            tests.append(key >= position + self.first)
        return tests


def attention_softmax(
    scores: Tensor,
    *others: Tensor,
    masked: bool = False,
    softcap: float = 0.0,
    offset: int = 0,
    first: int | None = None,
    last: int | None = None,
    outputs: str = "probabilities",
) -> Sequence[Tensor]:
    """Return the softmax along the last axis of scores [b, heads, n, m]; 0 where all are masked.

    `others` are, if `masked`, a mask: bool, or added, broadcast, its last axis filled up with what
    masks; and the number [b] of keys that count (int64). With `softcap` c the scores are
    c tanh(scores / c) before. A query n sees the keys n + offset + first … n + offset + last; if
    keys are counted, n is counted from the end of those. `outputs` may name the stages "capped"
    and "masked", too, with commas between. Raise LanguageError on other shapes.
    """
    require_rank("attention_softmax", 4, scores)
    rest = list(others)
    mask = rest.pop(0) if masked else None
    counts = rest.pop(0) if rest else None
    lowest = scalar.const(float("-inf"), scores.dtype)
    capped = scores if not softcap else compute(
        scores.shape,
        lambda *i: scalar.tanh(scores[i] * (1.0 / softcap)) * softcap,
        AutoName("attention.capped"),
    )  # fmt: skip
    keys = scores.shape[3]
    if mask is not None:
        _require_mask(scores, mask)

    def is_allowed(*i: Scalar) -> Scalar:
        b, _, n, m = i
        start: Scalar | int = offset if counts is None else counts[b] - scores.shape[2]
        tests = _Band(start, first, last).tests(n, m)
        if counts is not None:
            tests.append(m < counts[b])
        element = as_scalar(capped[i]) if mask is None else _with_mask(capped[i], mask, i, keys)
        return (
            scalar.if_then_else(scalar.all_of(*tests), element, lowest) if tests else element + 0.0
        )

    seen = compute(scores.shape, is_allowed, AutoName("attention.masked"))
    result = _softmax(seen)
    known = {"capped": capped, "masked": seen, "probabilities": result}
    return [known[name] for name in outputs.split(",")]


def _require_mask(scores: Tensor, mask: Tensor) -> None:
    shape = (*mask.shape[:-1], 1)
    fits = bool(mask.shape) and broadcast_extents(scores.shape, shape) == scores.shape
    fits = fits and mask.shape[-1] <= scores.shape[3]
    require(fits, "attention_softmax", scores, mask, need=_MASK_NEED)


def _with_mask(element: Scalar, mask: Tensor, indices: Sequence[Scalar], keys: int) -> Scalar:
    """A score with what the mask says of it; beyond the last of several keys it masks."""
    outer = tuple(
        scalar.const(0, "int64") if extent == 1 else index
        for extent, index in zip(mask.shape[:-1], indices[-len(mask.shape) : -1], strict=True)
    )
    value, lowest = mask[(*outer, indices[-1])], scalar.const(float("-inf"), element.dtype)
    is_choice = mask.dtype.is_bool
    masked = scalar.if_then_else(value, element, lowest) if is_choice else element + value
    extent = mask.shape[-1]
    return masked if extent == keys else scalar.if_then_else(indices[-1] < extent, masked, lowest)


def _softmax(scores: Tensor) -> Tensor:
    """Softmax along the last axis, of which -inf alone is 0."""
    keys, outer = scores.shape[-1], scores.shape[:-1]
    lowest = Combiner.MAX.identity(scores.dtype)
    zero, one = scalar.const(0, scores.dtype), scalar.const(1, scores.dtype)
    k, m = reduce_axis(keys, "k"), reduce_axis(keys, "m")
    peak = compute(outer, lambda *i: max(scores[(*i, k)], axis=k), AutoName("attention.max"))

    def power(*i: Scalar) -> Scalar:
        highest = peak[i[:-1]]
        safe = scalar.if_then_else(scalar.equal(highest, lowest), zero, highest)
        return scalar.exp(scores[i] - safe)

    powers = compute(scores.shape, power, AutoName("attention.exp"))
    total = compute(outer, lambda *i: sum(powers[(*i, m)], axis=m), AutoName("attention.sum"))

    def share(*i: Scalar) -> Scalar:
        whole = total[i[:-1]]
        return powers[i] * (1.0 / scalar.if_then_else(scalar.equal(whole, zero), one, whole))

    return compute(scores.shape, share, AutoName("attention.probabilities"))


def rotary_embedding(
    data: Tensor,
    cosines: Tensor,
    sines: Tensor,
    *positions: Tensor,
    heads: int = 0,
    size: int = 0,
    interleaved: bool = False,
) -> Tensor:
    """Return data [b, heads, n, d], or [b, n, heads * d], with pairs of its elements rotated.

    The first `size` (0: all) elements of each head are rotated: number i together with
    i + size / 2, or with its neighbour if `interleaved`. cosines and sines are [b, n, size / 2], or
    tables [words, size / 2] of the `positions` [b, n]. Raise LanguageError on other shapes.
    """
    is_flat = len(data.shape) == 3
    width = data.shape[2] // heads if is_flat and heads else data.shape[-1]
    rotated = size or width
    need = f"it must be [b, {heads or 'heads'}, n, d] or [b, n, {heads or 'heads'} * d], d even"
    fits = len(data.shape) == 4 or (is_flat and heads > 0 and data.shape[2] == heads * width)
    fits = fits and rotated % 2 == 0 and rotated <= width
    require(fits, "rotary_embedding", data, need=need)
    half = rotated // 2
    fits = cosines.shape == sines.shape and cosines.shape[-1] == half
    require(fits, "rotary_embedding", cosines, sines, need=f"both must be [..., {half}]")

    def angle(table: Tensor, b: Scalar, n: Scalar, column: Scalar) -> Scalar:
        if not positions:
            return element_at(table, (b, n, column))
        row = positions[0][b, n].astype("int64")
        row = index_in_range(row, table.shape[0], table.name)
        row = scalar.minimum(scalar.maximum(row, 0), table.shape[0] - 1)
        return table[row, column]

    def body(*i: Scalar) -> Scalar:
        b, n = (i[0], i[1]) if is_flat else (i[0], i[2])
        offset = i[-1] % width if is_flat else i[-1]
        start = i[-1] - offset if is_flat else scalar.const(0, "int64")
        inner = offset if rotated == width else scalar.minimum(offset, rotated - 1)
        is_first = scalar.equal(inner % 2, 0) if interleaved else inner < half
        partner = inner + 1 - inner % 2 * 2 if interleaved else (inner + half) % rotated
        column = inner // 2 if interleaved else inner % half
        other = data[(*i[:-1], start + partner)]
        other = scalar.if_then_else(is_first, 0 - other, other)
        turned = data[i] * angle(cosines, b, n, column) + other * angle(sines, b, n, column)
        return (
            turned if rotated == width else scalar.if_then_else(offset < rotated, turned, data[i])
        )

    return compute(data.shape, body, AutoName("rotary_embedding"))


ATTENTION: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    "attention_softmax": attention_softmax,
    "rotary_embedding": rotary_embedding,
}
"""Definitions by the name of their operator."""
