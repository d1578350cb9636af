"""Which sums are kept in registers, and which stay in memory."""

from __future__ import annotations

from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.expr import Load
from ansorc.ir.passes.promote_accumulators import promote_accumulators
from ansorc.ir.stmt import Function, Store
from tests.ir.passes.nests import (
    PARALLEL,
    SERIAL,
    Matmul,
    loops,
)
from tests.ir.passes.test_pass_meaning import ROWS, X, Y, v


def test_a_tile_that_is_too_large_stays_in_memory() -> None:
    function = simplify_stmt(Matmul(i=(1, 1, 6), j=(1, 1, 16)).function())
    assert promote_accumulators(function, 6 * 16 * 4 - 1) is function
    assert promote_accumulators(function, 6 * 16 * 4) is not function


def test_what_cannot_be_promoted_is_left_alone() -> None:
    parallel = Function(
        "sum",
        (X, Y),
        loops([("s", ROWS, SERIAL), ("v", 8, PARALLEL)], Store(Y, (v,), Load(Y, (v,)) + 1.0)),
    )
    assert promote_accumulators(parallel, 1024) is parallel


def test_registers_are_not_promoted_again() -> None:
    once = promote_accumulators(simplify_stmt(Matmul().function()), 1024)
    assert promote_accumulators(once, 1024) is once
