"""Copies that are transposed in registers compute what was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import Load, Ramp, Var, const
from ansorc.ir.passes.transpose_copies import transpose_copies
from ansorc.ir.stmt import For, Function, LoopKind, Seq, Store
from tests.ir.passes.test_pass_meaning import outcome


@pytest.mark.parametrize("other", [0, 1, 2])
def test_copies_of_each_other_stay_in_one_loop(other: int) -> None:
    """As do copies to rows that follow each other: the last copy to a row counts."""
    source, made, last = (Buffer(name, (9, 16), FLOAT32) for name in ("source", "made", "last"))
    k, zero = Var("k"), const(0)
    row, low = Ramp(zero, const(1), 8), Ramp(const(1), const(1), 8)
    first, then = [
        (
            Store(made, (k, row), Load(source, (row, k))),
            Store(last, (k, row), Load(made, (row, k))),
        ),
        (
            Store(made, (k, row), Load(source, (row, k))),
            Store(made, (k + 1, row), Load(source, (low, k))),
        ),
        (
            Store(made, (zero, Ramp(k, const(1), 8)), Load(source, (row, k))),
            Store(made, (zero, Ramp(k + 1, const(1), 8)), Load(source, (low, k))),
        ),
    ][other]
    body = For(k, 8, LoopKind.SERIAL, Seq((first, then)))
    function = Function("copies", (source, made, last), body)
    for mine, wanted in zip(
        outcome(transpose_copies(function), 0), outcome(function, 0), strict=True
    ):
        np.testing.assert_array_equal(mine, wanted)
