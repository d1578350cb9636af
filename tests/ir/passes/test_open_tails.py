"""Tiles that the end of a run-time extent cuts off are computed without tests of their rows."""

from __future__ import annotations

import numpy as np

from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.passes.open_tails import open_tails
from ansorc.ir.printer import to_text
from ansorc.ir.specialize import specialize

PRODUCT = """\
kernel f[n: 1..9](A: float32[n of 9, 3], C: float32[n of 9]):
    size dim.n in 0..10:
        ragged b in 0 .. (dim.n + 3) // 4 of 3:
            alloc T: float32[4] local
            unrolled r in 0..4:
                if b * 4 + r < dim.n:
                    T[r] = 0.0
            for k in 0..3:
                unrolled r in 0..4:
                    if b * 4 + r < dim.n:
                        T[r] = T[r] + A[b * 4 + r, k]
            unrolled r in 0..4:
                if b * 4 + r < dim.n:
                    C[b * 4 + r] = T[r]
"""


def test_rows_beyond_the_end_are_those_of_the_last_one() -> None:
    text = to_text(open_tails(parse(PRODUCT)))
    assert "                    T[r] = 0.0\n" not in text
    assert "T[r] = T[r] + A[min(b * 4 + r, dim.n - 1), k]\n" in text
    assert text.count("if b * 4 + r < dim.n:") == 1  # of what is stored in C


def test_they_mean_the_same() -> None:
    function = open_tails(parse(PRODUCT))
    for n in range(1, 10):
        a, c = np.random.default_rng(n).random((n, 3), np.float32), np.zeros(n, np.float32)
        interpret(specialize(function, {"n": n}), [a, c], fresh_outputs=True)
        np.testing.assert_allclose(c, a.sum(axis=1), rtol=1e-6)


def test_a_tile_that_is_read_elsewhere_keeps_its_tests() -> None:
    for old, new in (
        ("                    C[b * 4 + r] = T[r]", "                    C[b * 4 + r] = T[3 - r]"),
        ("                if b * 4 + r < dim.n:\n                    T[r] = 0.0",
         "                T[r] = 0.0"),
    ):  # fmt: skip
        text = PRODUCT.replace(old, new)
        assert text != PRODUCT
        assert to_text(open_tails(parse(text))) == text


def test_what_cannot_be_read_for_other_rows_keeps_its_tests() -> None:
    text = PRODUCT.replace("A[b * 4 + r, k]", "A[b * 4 + r, (b * 4 + r) % 3]")
    opened = to_text(open_tails(parse(text)))
    assert (
        "                    if b * 4 + r < dim.n:\n                        T[r] = T[r] +" in opened
    )


def test_a_whole_tile_counts_as_tested() -> None:
    """A branch for tiles that are whole has no tests of rows; those of the others are opened."""
    whole = PRODUCT.replace(
        "            for k in 0..3:\n                unrolled r in 0..4:\n",
        "            if b * 4 < dim.n - 3:\n                unrolled r in 0..4:\n"
        "                    T[r] = T[r] + A[b * 4 + r, 0]\n"
        "            for k in 0..3:\n                unrolled r in 0..4:\n",
    )
    assert "min(b * 4 + r, dim.n - 1)" in to_text(open_tails(parse(whole)))


def test_programs_of_known_extents_stay() -> None:
    function = specialize(parse(PRODUCT), {"n": 7})
    assert open_tails(function) is function
