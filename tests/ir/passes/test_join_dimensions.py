"""Arrays of run-time shapes have such an extent in their first dimension alone."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.errors import BuildError
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.passes.join_dimensions import join_dimensions
from ansorc.ir.printer import to_text
from ansorc.ir.specialize import specialize
from ansorc.ir.verify import verify

COPY = """\
kernel f[m: 1..9, n: 4..12 by 4](A: float32[m of 9, 2, n of 12, 3], B: float32[m of 9, n of 12]):
    size dim.m in 0..10:
        size dim.n in 0..4:
            ragged i in 0 .. dim.m of 9:
                ragged j in 0 .. dim.n * 4 of 12:
                    B[i, j] = A[i, 1, j, 2]
"""


def test_dimensions_up_to_the_last_size_are_one() -> None:
    function = join_dimensions(parse(COPY))
    verify(function)
    text = to_text(function)
    assert "A: float32[2*m*n of 216, 3], B: float32[m*n of 108]" in text
    assert "B[i * (dim.n * 4) + j] = " in text
    for m, n in ((1, 4), (3, 8), (9, 12)):
        a = np.random.default_rng(m).random((m, 2, n, 3), np.float32)
        b = np.zeros(m * n, np.float32)
        interpret(specialize(function, {"m": m, "n": n}), [a.reshape(-1, 3), b], fresh_outputs=True)
        np.testing.assert_array_equal(b.reshape(m, n), a[:, 1, :, 2])


def test_a_first_dimension_alone_stays() -> None:
    text = "kernel f[n: 1..9](A: float32[n of 9, 3]):\n    size dim.n in 0..10:\n        pass\n"
    function = parse(text)
    assert join_dimensions(function).params == function.params


def test_places_that_are_data_are_refused_in_several_sizes() -> None:
    text = COPY.replace("A[i, 1, j, 2]", "A[i, 1, cast(int64, B[i, j]), 2]")
    with pytest.raises(BuildError, match=r"'A' is read at an index that is data.*fix all but the"):
        join_dimensions(parse(text))
