"""Sums of popcounts over a loop become popcounts of many words, with the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.passes.join_popcounts import join_popcounts
from ansorc.ir.printer import to_text
from ansorc.ir.verify import verify
from tests.support.everywhere import built
from tests.support.nightly import sampled

KERNEL = """\
kernel count(X: uint32[{extent}, 4], C: {result}[4]):
    for k in 0..{extent}:
        vectorized j in 0..4:
            C[j] = C[j] + {term}
"""


def joined(extent: int, term: str, result: str = "uint32") -> str:
    """Return the text after the pass; both programs give the same numbers."""
    before = parse(KERNEL.format(extent=extent, term=term, result=result))
    after = join_popcounts(before)
    verify(after)
    x = np.random.default_rng(0).integers(0, 2**32, (extent, 4), np.uint32)
    found = [np.zeros(4, result), np.zeros(4, result)]
    for function, total in zip((before, after), found, strict=True):
        interpret(function, [x, total])
    np.testing.assert_array_equal(found[0], found[1])
    return to_text(after)


def test_words_are_joined() -> None:
    assert joined(4, "popcount(X[k, j])").splitlines()[1:] == [
        "    vectorized j in 0..4:",
        "        C[j] = C[j] + popcount(X[0 + 0, j], X[0 + 1, j], X[0 + 2, j], X[0 + 3, j])",
    ]
    assert "for k in 0..2:" in joined(32, "popcount(X[k, j])")
    assert "cast(int32, popcount(" in joined(8, "cast(int32, popcount(X[k, j]))", "int32")


def test_inverted_words_are_subtracted() -> None:
    text = joined(8, "popcount(X[k, j] ^ uint32(4294967295))")
    assert "C[j] + (uint32(256) - popcount(X[0 + 0, j], " in text


@pytest.mark.parametrize(
    ("extent", "term"), [(17, "popcount(X[k, j])"), (2, "popcount(X[k, j])"),
                         (8, "popcount(X[0, j])"), (8, "popcount(C[j])")],
)  # fmt: skip
def test_other_loops_stay(extent: int, term: str) -> None:
    """A prime extent, few words, the same word again, and one that the loop changes."""
    assert joined(extent, term) == to_text(
        parse(KERNEL.format(extent=extent, term=term, result="uint32"))
    )


def products(dtype: str, terms: int, columns: int) -> ac.ComputeDAG:
    """Products of signs as XNOR and popcount; one of them in a wider dtype."""
    a, b = ac.placeholder((3, terms), "A", dtype), ac.placeholder((columns, terms), "B", dtype)
    k = ac.reduce_axis(terms, "k")

    def same(i: Any, j: Any) -> ac.Scalar:
        return ac.sum(ac.popcount(~(a[i, k] ^ b[j, k])), axis=k)

    def different(i: Any, j: Any) -> ac.Scalar:
        return ac.sum(ac.popcount(a[i, k] ^ b[j, k]).astype("int32"), axis=k)

    shape = 3, columns
    outputs = ac.compute(shape, same, "C"), ac.compute(shape, different, "D")
    return ac.ComputeDAG([a, b, *outputs])


@pytest.mark.parametrize(
    "dtype",
    sampled(
        ["uint8", "int8", "int16", "uint32", "int32", "uint64", "int64"],
        ["uint8", "int16", "uint32", "int64"],
    ),
)
def test_binary_networks(dtype: str) -> None:
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    for terms, columns in ((32, 19), (15, 8)):
        left = rng.integers(info.min, info.max, (3, terms), dtype, endpoint=True)
        right = rng.integers(info.min, info.max, (columns, terms), dtype, endpoint=True)
        bits = np.unpackbits((left[:, None] ^ right).view(np.uint8), axis=-1).sum(-1)
        found = built(products(dtype, terms, columns), [left, right])
        np.testing.assert_array_equal(found[0], (terms * info.bits - bits).astype(dtype))
        np.testing.assert_array_equal(found[1], bits)
